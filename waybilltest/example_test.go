package waybilltest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/waybilltest"
)

// A test of an order and its receipt, without a server:
//
//	func TestReceiptGoesOut(t *testing.T) { … }
func Example() {
	t := newT() // here only: a test is given its t
	defer t.end()

	mail := &mailer{}
	store := waybilltest.SQLite(t, receivers(mail))         // what the application declares
	err := store.InTx(t.Context(), func(tx *sql.Tx) error { // and what it does
		_, err := store.Fire(t.Context(), tx, orderPlaced{ID: 42, Email: "ada@example.com"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	drained := waybilltest.Drain(t, store)
	fmt.Println(drained.Succeeded, "succeeded:", mail.sent)
	// Output:
	// 1 succeeded: [ada@example.com]
}

// One receiver, one event and no database: what is asserted is its outcome.
func ExampleRun() {
	t := newT() // here only: a test is given its t
	defer t.end()

	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", func(_ context.Context, order orderPlaced) error {
		if order.Email == "" {
			return waybill.Permanent(errors.New("no address"))
		}
		return nil
	}, waybill.Options{})

	fmt.Println(waybilltest.Run(t, reg, "mail.receipt", orderPlaced{ID: 42, Email: "ada@example.com"}))
	err := waybilltest.Run(t, reg, "mail.receipt", orderPlaced{ID: 43})
	fmt.Println(err, waybill.IsPermanent(err))
	// Output:
	// <nil>
	// no address true
}

// A receiver that keeps failing is dead after its last attempt, at once: nobody waits for
// a backoff.
func ExampleDrain() {
	t := newT() // here only: a test is given its t
	defer t.end()

	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "crm.sync", func(context.Context, orderPlaced) error {
		return errors.New("the crm is away")
	}, waybill.Options{MaxAttempts: 3})
	store := waybilltest.SQLite(t, reg)
	placeOrder(t, store, orderPlaced{ID: 42})

	drained := waybilltest.Drain(t, store)
	fmt.Println(drained.Runs, "runs,", drained.Dead, "dead")
	fmt.Println(drained.Errors[2])
	// Output:
	// 3 runs, 1 dead
	// receiver "crm.sync", delivery 1: the crm is away
}

// What the code under test has fired, decoded.
func ExampleFired() {
	t := newT() // here only: a test is given its t
	defer t.end()

	store := waybilltest.SQLite(t, receivers(&mailer{}))
	placeOrder(t, store, orderPlaced{ID: 42, Email: "ada@example.com"})
	for _, order := range waybilltest.Fired[orderPlaced](t, store) {
		fmt.Println(order.ID, order.Email)
	}
	// Output:
	// 42 ada@example.com
}

// A reminder that is due in three days comes when the clock says so, which a test moves.
func ExampleAdvance() {
	t := newT() // here only: a test is given its t
	defer t.end()

	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.reminder", func(context.Context, orderPlaced) error { return nil }, waybill.Options{
		Due: waybill.DueOf(func(context.Context, orderPlaced) (time.Time, error) {
			return time.Now().Add(72 * time.Hour), nil
		}),
	})
	store := waybilltest.SQLite(t, reg)
	placeOrder(t, store, orderPlaced{ID: 42})

	fmt.Println("at once:", waybilltest.Drain(t, store).Runs)
	waybilltest.Advance(t, store, 73*time.Hour)
	fmt.Println("after three days:", waybilltest.Drain(t, store).Runs)
	// Output:
	// at once: 0
	// after three days: 1
}

// placeOrder is the application's, in small.
func placeOrder(t testing.TB, store *sqlite.Store, order orderPlaced) {
	err := store.InTx(t.Context(), func(tx *sql.Tx) error {
		_, err := store.Fire(t.Context(), tx, order)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

package waybill_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/local"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

// The whole way: an order and its event are written in one transaction, a relay hands the
// delivery to a queue, and a worker runs the receiver. Here that is one process, with its
// database and its queue in memory; with others only the constructors differ.
func Example() {
	if err := placeOrder(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// receipt to ada@example.com
	// mail.receipt: 1 succeeded
}

func placeOrder() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop() // a service stops at a signal
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", func(_ context.Context, order OrderPlaced) error {
		defer stop()
		fmt.Println("receipt to", order.Email)
		return nil
	}, waybill.Options{})

	store, err := sqlite.Open(ctx, sqlite.Memory, reg)
	if err != nil {
		return err
	}
	defer store.Close()
	err = store.InTx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `CREATE TABLE orders (id INTEGER); INSERT INTO orders VALUES (7)`); err != nil {
			return err
		}
		_, err := store.Fire(ctx, tx, OrderPlaced{ID: 7, Email: "ada@example.com"})
		return err
	})
	if err != nil {
		return err
	}

	queue, err := local.New(local.Config{})
	if err != nil {
		return err
	}
	r, err := relay.New(relay.Config{Store: store, Backend: queue})
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{Store: store, Backend: queue})
	if err != nil {
		return err
	}
	if _, err := r.Once(ctx, 0); err != nil { // a service has r.Run(ctx) beside w.Run(ctx)
		return err
	}
	if err := w.Run(ctx); err != nil {
		return err
	}
	tallies, err := store.Tallies(context.Background())
	for _, tally := range tallies {
		fmt.Printf("%s: %d %s\n", tally.Receiver, tally.Rows, tally.Status)
	}
	return err
}

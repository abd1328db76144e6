package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
)

// OrderPlaced is the event of the examples.
type OrderPlaced struct {
	ID int `json:"id"`
}

func sendReceipt(context.Context, OrderPlaced) error { return nil }

// declared returns what the examples declare.
func declared() *waybill.Registry {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", sendReceipt, waybill.Options{})
	return reg
}

// An application opens its file at its start. Before the first start of each release its
// schema is migrated: by the application, as here, or by `bridge migrate`.
func ExampleOpen() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "shop.db")

	_, err = sqlite.Open(ctx, path, declared())
	fmt.Println("before:", err != nil)

	deploy, err := sqlite.New(sqlite.Config{Path: path, Registry: declared(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = deploy.Migrator().Up(ctx)
	if err := errors.Join(err, deploy.Close()); err != nil {
		fmt.Println(err)
		return
	}

	store, err := sqlite.Open(ctx, path, declared())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	steps, err := store.Migrator().Status(ctx)
	fmt.Println("after:", err, len(steps) > 0 && !steps[len(steps)-1].AppliedAt.IsZero())
	// Output:
	// before: true
	// after: <nil> true
}

// An order and what is owed for it are committed together, or not at all.
func ExampleStore_InTx() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, sqlite.Memory, declared())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	place := func(id int) error {
		return store.InTx(ctx, func(tx *sql.Tx) error {
			if _, err := store.Fire(ctx, tx, OrderPlaced{ID: id}); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO orders (id) VALUES (?)`, id)
			return err
		})
	}
	fmt.Println("without a table failed:", place(7) != nil)
	err = store.InTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE orders (id INTEGER PRIMARY KEY)`)
		return err
	})
	fmt.Println("with one:", errors.Join(err, place(8)))

	events, err := store.Events(ctx, waybill.EventsRequest{Limit: 10})
	for _, event := range events {
		fmt.Printf("fired: %s %s\n", event.Name, event.Payload)
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// without a table failed: true
	// with one: <nil>
	// fired: order.placed {"id":8}
}

// An order that is withdrawn before its receipt went out needs none. Cancel says what it
// came too late for.
func ExampleStore_Cancel() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, sqlite.Memory, declared())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	var event int64 // kept with the order, in a column of its own
	err = store.InTx(ctx, func(tx *sql.Tx) (err error) {
		event, err = store.Fire(ctx, tx, OrderPlaced{ID: 7})
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	err = store.InTx(ctx, func(tx *sql.Tx) error {
		result, err := store.Cancel(ctx, tx, waybill.CancelRequest{Events: []int64{event}})
		fmt.Printf("%d cancelled, %d in flight\n", result.Cancelled, result.InFlight)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 1 cancelled, 0 in flight
}

// What is settled can be owed again: here, receipts that were cancelled by mistake.
func ExampleStore_Reopen() {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, sqlite.Memory, declared())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	err = store.InTx(ctx, func(tx *sql.Tx) error {
		event, err := store.Fire(ctx, tx, OrderPlaced{ID: 7})
		if err != nil {
			return err
		}
		_, err = store.Cancel(ctx, tx, waybill.CancelRequest{Events: []int64{event}})
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	newest, err := store.History(ctx, waybill.HistoryRequest{Receivers: []string{"mail.receipt"}, Limit: 100})
	if err != nil {
		fmt.Println(err)
		return
	}
	var request waybill.ReopenRequest
	for _, row := range newest {
		if row.Status == waybill.Cancelled {
			request.Deliveries = append(request.Deliveries, row.ID)
		}
	}
	err = store.InTx(ctx, func(tx *sql.Tx) error { // wakes the relays, as after a fire
		reopened, err := store.Reopen(ctx, tx, request)
		fmt.Println("reopened:", len(reopened))
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	tallies, err := store.Tallies(ctx)
	for _, tally := range tallies {
		fmt.Println(tally.Receiver, tally.Status, tally.Rows)
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// reopened: 1
	// mail.receipt pending 1
}

// A transaction on the application's own connection begins with BEGIN IMMEDIATE, fires
// like any other, and wakes the relays once it is committed.
func ExampleStore_Wake() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "shop.db")
	store, err := migrated(ctx, path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)") // modernc.org/sqlite
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tx.Rollback() // does nothing after a commit
	event, err := store.Fire(ctx, tx, OrderPlaced{ID: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := tx.Commit(); err != nil {
		fmt.Println(err)
		return
	}
	store.Wake(ctx)
	fmt.Println("fired as", event)
	// Output:
	// fired as 1
}

// migrated returns a store on a file that is ready for use.
func migrated(ctx context.Context, path string) (*sqlite.Store, error) {
	store, err := sqlite.New(sqlite.Config{Path: path, Registry: declared(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	if _, err := store.Migrator().Up(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

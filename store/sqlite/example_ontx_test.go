package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/local"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

// What the receiver writes is committed with its acknowledgement: the stock goes down
// once, however often the delivery is tried.
func ExampleOnTx() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	sqlite.OnTx(reg, "stock.reserve", func(ctx context.Context, tx *sql.Tx, order OrderPlaced) error {
		defer stop() // one is enough here
		_, err := tx.ExecContext(ctx, `UPDATE stock SET items = items - 1`)
		return err
	}, waybill.Options{})

	store, err := sqlite.Open(ctx, sqlite.Memory, reg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	err = store.InTx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `CREATE TABLE stock (items INTEGER); INSERT INTO stock VALUES (10)`); err != nil {
			return err
		}
		_, err := store.Fire(ctx, tx, OrderPlaced{ID: 7})
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := deliver(ctx, store); err != nil {
		fmt.Println(err)
		return
	}

	err = store.InTx(context.Background(), func(tx *sql.Tx) error {
		var items int
		err := tx.QueryRowContext(context.Background(), `SELECT items FROM stock`).Scan(&items)
		fmt.Println("left in stock:", items)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// left in stock: 9
}

// deliver hands off what is due, and runs a worker until ctx ends.
func deliver(ctx context.Context, store *sqlite.Store) error {
	quiet := slog.New(slog.DiscardHandler)
	queue, err := local.New(local.Config{})
	if err != nil {
		return err
	}
	r, err := relay.New(relay.Config{Store: store, Backend: queue, Logger: quiet})
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{Store: store, Backend: queue, Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := r.Once(ctx, 0); err != nil {
		return err
	}
	return w.Run(ctx)
}

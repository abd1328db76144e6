package postgres_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
)

// A store works on the application's own pool, and never closes it.
func ExampleOpen() {
	ownDatabase(func(ctx context.Context, pool *pgxpool.Pool, _ string) error {
		reg := waybill.NewRegistry()
		waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
		waybill.On(reg, "mail.receipt", func(context.Context, OrderPlaced) error { return nil }, waybill.Options{})

		store, err := postgres.Open(ctx, pool, reg)
		if err != nil {
			return err
		}
		// The store is for relay.Config and worker.Config, and for what fires:
		return store.InTx(ctx, func(tx pgx.Tx) error {
			event, err := store.Fire(ctx, tx, OrderPlaced{ID: 7})
			fmt.Println("fired as", event)
			return err
		})
	})
	// Output:
	// fired as 1
}

// The schema may have another name, and more than one Waybill is then in a database.
func ExampleNewMigrator() {
	shop(func(ctx context.Context, pool *pgxpool.Pool, schema string) error {
		billing := schema + "_billing"
		migrator, err := postgres.NewMigrator(pool, billing)
		if err != nil {
			return err
		}
		applied, err := migrator.Up(ctx) // before the first start of a release
		if err != nil {
			return err
		}
		again, err := migrator.Up(ctx)
		if err != nil {
			return err
		}
		fmt.Println("applied:", len(applied) > 0, "and then", len(again))

		store, err := postgres.New(postgres.Config{Pool: pool, Registry: declared(), Schema: billing})
		if err != nil {
			return err
		}
		fmt.Println("check:", store.Check(ctx))
		return nil
	})
	// Output:
	// applied: true and then 0
	// check: <nil>
}

// An order and what is owed for it are committed together, or not at all.
func ExampleStore_InTx() {
	shop(func(ctx context.Context, pool *pgxpool.Pool, schema string) error {
		store, err := postgres.New(postgres.Config{Pool: pool, Registry: declared(), Schema: schema})
		if err != nil {
			return err
		}
		place := func(id int) error {
			return store.InTx(ctx, func(tx pgx.Tx) error {
				if _, err := store.Fire(ctx, tx, OrderPlaced{ID: id}); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, `INSERT INTO orders (id) VALUES ($1)`, id)
				return err
			})
		}
		if err := place(7); err != nil {
			return err
		}
		fmt.Println("a second time failed:", place(7) != nil)

		events, err := store.Events(ctx, waybill.EventsRequest{Limit: 10})
		for _, event := range events {
			fmt.Printf("fired: %s %s\n", event.Name, event.Payload)
		}
		return err
	})
	// Output:
	// a second time failed: true
	// fired: order.placed {"id":7}
}

// In a transaction of one's own it is Fire, and Wake once it is committed.
func ExampleStore_Wake() {
	shop(func(ctx context.Context, pool *pgxpool.Pool, schema string) error {
		store, err := postgres.New(postgres.Config{Pool: pool, Registry: declared(), Schema: schema})
		if err != nil {
			return err
		}
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx) // does nothing after a commit
		if _, err := tx.Exec(ctx, `INSERT INTO orders (id) VALUES (7)`); err != nil {
			return err
		}
		event, err := store.Fire(ctx, tx, OrderPlaced{ID: 7})
		if err != nil {
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		store.Wake(ctx) // without it, a relay's poll finds the rows
		fmt.Println("fired as", event)
		return nil
	})
	// Output:
	// fired as 1
}

// Many events are one statement.
func ExampleStore_FireAll() {
	shop(func(ctx context.Context, pool *pgxpool.Pool, schema string) error {
		store, err := postgres.New(postgres.Config{Pool: pool, Registry: declared(), Schema: schema})
		if err != nil {
			return err
		}
		var orders []any
		for id := range 1000 {
			orders = append(orders, OrderPlaced{ID: id})
		}
		err = store.InTx(ctx, func(tx pgx.Tx) error {
			events, err := store.FireAll(ctx, tx, orders)
			fmt.Println("fired:", len(events))
			return err
		})
		if err != nil {
			return err
		}
		tallies, err := store.Tallies(ctx)
		for _, tally := range tallies {
			fmt.Println(tally.Receiver, tally.Status, tally.Rows)
		}
		return err
	})
	// Output:
	// fired: 1000
	// mail.receipt pending 1000
}

// Under a dedupe key an event is fired once. The transaction can go on: what a caller
// repeats is recognised, and is no error to him.
func ExampleStore_Fire_duplicate() {
	shop(func(ctx context.Context, pool *pgxpool.Pool, schema string) error {
		store, err := postgres.New(postgres.Config{Pool: pool, Registry: declared(), Schema: schema})
		if err != nil {
			return err
		}
		for range 2 {
			err := store.InTx(ctx, func(tx pgx.Tx) error {
				_, err := store.Fire(ctx, tx, waybill.Envelope{Event: OrderPlaced{ID: 7}, DedupeKey: "order-7"})
				if duplicate := (*waybill.DuplicateError)(nil); errors.As(err, &duplicate) {
					fmt.Printf("%s was fired as %d already\n", duplicate.Key, duplicate.EventID)
					return nil // commits the rest
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	// Output:
	// order-7 was fired as 1 already
}

// An order that is withdrawn before its receipt went out needs none. Cancel says what it
// came too late for.
func ExampleStore_Cancel() {
	shop(func(ctx context.Context, pool *pgxpool.Pool, schema string) error {
		store, err := postgres.New(postgres.Config{Pool: pool, Registry: declared(), Schema: schema})
		if err != nil {
			return err
		}
		var event int64 // kept with the order, in a column of its own
		err = store.InTx(ctx, func(tx pgx.Tx) (err error) {
			event, err = store.Fire(ctx, tx, OrderPlaced{ID: 7})
			return err
		})
		if err != nil {
			return err
		}
		return store.InTx(ctx, func(tx pgx.Tx) error {
			result, err := store.Cancel(ctx, tx, waybill.CancelRequest{Events: []int64{event}, Receiver: "mail.receipt"})
			fmt.Printf("%d cancelled, %d in flight\n", result.Cancelled, result.InFlight)
			return err
		})
	})
	// Output:
	// 1 cancelled, 0 in flight
}

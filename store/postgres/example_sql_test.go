package postgres_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
)

// A store over database/sql. With pgx's driver its relays hear wake-ups; the pool was
// opened by sql.Open("pgx", url).
func ExampleOpenDB() {
	ownDatabase(overSQL(func(ctx context.Context, db *sql.DB, _ string) error {
		store, err := postgres.OpenDB(ctx, db, declared())
		if err != nil {
			return err
		}
		return store.InSQLTx(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id) VALUES (7)`); err != nil {
				return err
			}
			event, err := store.FireSQL(ctx, tx, OrderPlaced{ID: 7})
			fmt.Println("fired as", event)
			return err
		})
	}))
	// Output:
	// fired as 1
}

// FireSQL takes whatever has ExecContext and QueryContext: a *sql.Tx of the
// application's own, and what sqlc, GORM and bun make of one.
func ExampleStore_FireSQL() {
	shopSQL(func(ctx context.Context, db *sql.DB, schema string) error {
		store, err := postgres.New(postgres.Config{DB: db, Registry: declared(), Schema: schema})
		if err != nil {
			return err
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after a commit
		if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id) VALUES (7)`); err != nil {
			return err
		}
		event, err := store.FireSQL(ctx, tx, OrderPlaced{ID: 7})
		if err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		store.Wake(ctx) // without it, a relay's poll finds the rows
		fmt.Println("fired as", event)
		return nil
	})
	// Output:
	// fired as 1
}

// A receiver of a store over database/sql that is acknowledged in its own transaction.
func ExampleOnSQLTx() {
	shopSQL(func(ctx context.Context, db *sql.DB, schema string) error {
		reg := waybill.NewRegistry()
		waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
		postgres.OnSQLTx(reg, "stock.reserve", func(ctx context.Context, tx *sql.Tx, order OrderPlaced) error {
			_, err := tx.ExecContext(ctx, `UPDATE stock SET items = items - 1`)
			return err
		}, waybill.Options{})

		store, err := postgres.New(postgres.Config{DB: db, Registry: reg, Schema: schema})
		if err != nil {
			return err
		}
		err = store.InSQLTx(ctx, func(tx *sql.Tx) error {
			_, err := store.FireSQL(ctx, tx, OrderPlaced{ID: 7})
			return err
		})
		if err != nil {
			return err
		}
		if err := deliver(ctx, store, 1); err != nil { // a relay and a worker
			return err
		}
		var items int
		err = db.QueryRowContext(ctx, `SELECT items FROM stock`).Scan(&items)
		fmt.Println("left in stock:", items)
		return err
	})
	// Output:
	// left in stock: 9
}

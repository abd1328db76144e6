package postgres_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
)

// What the receiver writes is committed with its acknowledgement: the stock goes down
// once, however often the delivery is tried.
func ExampleOnTx() {
	shop(func(ctx context.Context, pool *pgxpool.Pool, schema string) error {
		reg := waybill.NewRegistry()
		waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
		postgres.OnTx(reg, "stock.reserve", func(ctx context.Context, tx pgx.Tx, order OrderPlaced) error {
			_, err := tx.Exec(ctx, `UPDATE stock SET items = items - 1`)
			return err
		}, waybill.Options{})

		store, err := postgres.New(postgres.Config{Pool: pool, Registry: reg, Schema: schema})
		if err != nil {
			return err
		}
		err = store.InTx(ctx, func(tx pgx.Tx) error {
			_, err := store.Fire(ctx, tx, OrderPlaced{ID: 7})
			return err
		})
		if err != nil {
			return err
		}
		if err := deliver(ctx, store, 1); err != nil { // a relay and a worker
			return err
		}
		var items int
		err = pool.QueryRow(ctx, `SELECT items FROM stock`).Scan(&items)
		fmt.Println("left in stock:", items)
		return err
	})
	// Output:
	// left in stock: 9
}

// Targets may be read in the transaction that fires: who subscribes in it is told already.
func ExampleStore_Fire_targets() {
	shop(func(ctx context.Context, pool *pgxpool.Pool, schema string) error {
		reg := waybill.NewRegistry()
		waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
		waybill.On(reg, "webhook", func(ctx context.Context, order OrderPlaced) error {
			fmt.Printf("order %d to %s\n", order.ID, waybill.DeliveryFrom(ctx).Target)
			return nil
		}, waybill.Options{
			Targets: waybill.TargetsOfTx(func(ctx context.Context, tx postgres.DB, _ OrderPlaced) ([]string, error) {
				rows, err := tx.Query(ctx, `SELECT url FROM subscriber ORDER BY url`)
				if err != nil {
					return nil, err
				}
				return pgx.CollectRows(rows, pgx.RowTo[string])
			}),
		})

		store, err := postgres.New(postgres.Config{Pool: pool, Registry: reg, Schema: schema})
		if err != nil {
			return err
		}
		err = store.InTx(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO subscriber VALUES ('https://a.example.com/hook'), ('https://b.example.com/hook')`)
			if err != nil {
				return err
			}
			_, err = store.Fire(ctx, tx, OrderPlaced{ID: 7})
			return err
		})
		if err != nil {
			return err
		}
		return deliver(ctx, store, 2) // a relay and a worker
	})
	// Output:
	// order 7 to https://a.example.com/hook
	// order 7 to https://b.example.com/hook
}

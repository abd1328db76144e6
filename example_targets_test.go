package waybill_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
)

// A receiver with targets is owed one delivery for each of them, and each succeeds
// or fails by itself.
func ExampleTargetsOf() {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "webhook", index, waybill.Options{
		Targets: waybill.TargetsOf(func(_ context.Context, order OrderPlaced) ([]string, error) {
			return []string{"https://a.example.com/hook", "https://b.example.com/hook"}, nil
		}),
	})

	plan, err := reg.Plan(context.Background(), nil, OrderPlaced{ID: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range plan.Deliveries {
		fmt.Println(d.Receiver, d.Target)
	}
	// Output:
	// webhook https://a.example.com/hook
	// webhook https://b.example.com/hook
}

// Targets may be read in the transaction that fires: who subscribes in it is told already.
func ExampleTargetsOfTx() {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "webhook", index, waybill.Options{Targets: waybill.TargetsOfTx(subscribers)})

	ctx := context.Background()
	store, err := sqlite.Open(ctx, sqlite.Memory, reg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	err = store.InTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE subscriber (url TEXT); INSERT INTO subscriber VALUES ('https://a.example.com/hook')`)
		if err != nil {
			return err
		}
		plan, err := reg.Plan(ctx, tx, OrderPlaced{ID: 7}) // what store.Fire does first
		for _, d := range plan.Deliveries {
			fmt.Println(d.Receiver, d.Target)
		}
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// webhook https://a.example.com/hook
}

func subscribers(ctx context.Context, tx *sql.Tx, _ OrderPlaced) (urls []string, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT url FROM subscriber ORDER BY url`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var url string
		if err := rows.Scan(&url); err != nil {
			return nil, err
		}
		urls = append(urls, url)
	}
	return urls, rows.Err()
}

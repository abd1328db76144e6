// Package shop is what the service and the worker of this example share: the event,
// its receivers, and the change that fires it.
package shop

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
)

// OrderPlaced is fired with the order's row.
type OrderPlaced struct {
	ID       int64  `json:"id"`
	Email    string `json:"email"`
	Quantity int    `json:"quantity"`
}

// Registry declares what both processes have to know. The service writes a row for each
// receiver, and the worker runs them.
func Registry() *waybill.Registry {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	// It calls out: it may happen twice, and says so to the one it calls by the id of
	// the delivery.
	waybill.On(reg, "mail.receipt", sendReceipt, waybill.Options{Lane: "mail", Lease: time.Minute})
	// It works in the database alone: it happens once.
	postgres.OnTx(reg, "stock.reserve", reserveStock, waybill.Options{})
	return reg
}

// Place writes an order and fires for it in one transaction, and wakes the relays.
func Place(ctx context.Context, store *postgres.Store, order OrderPlaced) (id int64, err error) {
	err = store.InTx(ctx, func(tx pgx.Tx) error {
		row := tx.QueryRow(ctx, "INSERT INTO orders (email, quantity) VALUES ($1, $2) RETURNING id", order.Email, order.Quantity)
		if err := row.Scan(&order.ID); err != nil {
			return fmt.Errorf("insert order: %w", err)
		}
		_, err := store.Fire(ctx, tx, order)
		return err
	})
	return order.ID, err
}

// Tables are the shop's own.
const Tables = `
CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email text NOT NULL, quantity integer NOT NULL);
CREATE TABLE IF NOT EXISTS stock (reserved bigint NOT NULL);
INSERT INTO stock SELECT 0 WHERE NOT EXISTS (SELECT FROM stock)`

func sendReceipt(ctx context.Context, order OrderPlaced) error {
	d := waybill.DeliveryFrom(ctx)
	waybill.LoggerFrom(ctx).Info("receipt sent", "to", order.Email, "idempotency_key", d.ID)
	return nil
}

func reserveStock(ctx context.Context, tx pgx.Tx, order OrderPlaced) error {
	if order.Quantity <= 0 {
		return waybill.Permanent(fmt.Errorf("order %d is of %d pieces", order.ID, order.Quantity))
	}
	_, err := tx.Exec(ctx, "UPDATE stock SET reserved = reserved + $1", order.Quantity)
	return err
}

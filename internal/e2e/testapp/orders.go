package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/worker/httpreceiver"
)

// orderPlaced is fired for each order, in the transaction that inserts it. It is
// owed twice: to the ledger, and as a letter.
type orderPlaced struct {
	ID int64 `json:"id"`
}

func (a *app) registry() (*waybill.Registry, error) {
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	options := waybill.Options{
		Lane: a.lane, Lease: a.lease, Backoff: waybill.Backoff{Base: 50 * time.Millisecond, Cap: 200 * time.Millisecond},
	}
	postgres.OnTx(reg, "ledger.book", a.book, options)

	post, err := httpreceiver.New(httpreceiver.Config{URL: a.sink})
	if err != nil {
		return nil, err
	}
	reg.Add(waybill.Receiver{
		Key: "mail.post", Event: "order.placed", Options: options,
		Run: func(ctx context.Context, d *waybill.Delivery) error {
			err := post(ctx, d)
			a.hooks.at("running")
			return err
		},
	})
	return reg, nil
}

// book adds a line for each run of it that is committed. Nothing but the
// protocol keeps a delivery from having two.
func (a *app) book(ctx context.Context, tx pgx.Tx, order orderPlaced) error {
	_, err := tx.Exec(ctx, `INSERT INTO app.ledger (delivery_id, order_id) VALUES ($1, $2)`,
		waybill.DeliveryFrom(ctx).ID, order.ID)
	a.hooks.at("running")
	return err
}

// ordersAtOnce is how many orders one transaction places.
const ordersAtOnce = 10

func (a *app) fire(ctx context.Context) error {
	pace := time.NewTicker(max(a.over/time.Duration(max(a.orders/ordersAtOnce, 1)), time.Microsecond))
	defer pace.Stop()
	for placed := 0; placed < a.orders; {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		room, err := a.room(ctx)
		if err != nil {
			return err
		}
		if !room {
			continue
		}
		n := min(ordersAtOnce, a.orders-placed)
		if err := a.store.InTx(ctx, func(tx pgx.Tx) error { return a.place(ctx, tx, n) }); err != nil {
			return err
		}
		placed += n
	}
	return nil
}

// room reports whether less is owed than the orders may run ahead: a machine that
// is slow is given less to do, and not a queue that outgrows its leases.
func (a *app) room(ctx context.Context) (bool, error) {
	if a.ahead == 0 {
		return true, nil
	}
	var owed int
	err := a.pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM waybill.delivery WHERE status IN ('pending', 'failed'))
		+ (SELECT count(*) FROM waybill.delivery WHERE status = 'claimed')`).Scan(&owed)
	return owed < a.ahead, err
}

// place inserts n orders and fires for each, all of it or nothing.
func (a *app) place(ctx context.Context, tx pgx.Tx, n int) error {
	rows, err := tx.Query(ctx, `INSERT INTO app.orders (placed_at) SELECT now() FROM generate_series(1, $1) RETURNING id`, n)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	events := make([]any, len(ids))
	for i, id := range ids {
		events[i] = orderPlaced{ID: id}
	}
	_, err = a.store.FireAll(ctx, tx, events)
	return err
}

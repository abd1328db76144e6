package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
)

// jobMade is owed four times: once plainly, to two targets of a fan-out in a lane
// of its own, and to a receiver that runs in the transaction of its outcome.
type jobMade struct {
	N int64 `json:"n"`
}

func (a *app) receivers(lease time.Duration) *waybill.Registry {
	reg := waybill.NewRegistry()
	waybill.Declare[jobMade](reg, "job.made", waybill.EventOptions{})
	options := waybill.Options{Lease: lease}
	waybill.On(reg, "plain.run", a.note, options)
	postgres.OnTx(reg, "tx.book", a.book, options)
	options.Lane = "fan"
	options.Targets = waybill.TargetsOf(func(context.Context, jobMade) ([]string, error) { return []string{"east", "west"}, nil })
	waybill.On(reg, "fan.run", a.note, options)
	return reg
}

// note has a side effect that no rollback undoes, and works for 50 to 100 ms.
func (a *app) note(ctx context.Context, _ jobMade) error {
	d := waybill.DeliveryFrom(ctx)
	if _, err := a.pool.Exec(ctx, `INSERT INTO app.run (delivery_id, run_by) VALUES ($1, $2)`, d.ID, d.Claim.By); err != nil {
		return err
	}
	return work(ctx, 50*time.Millisecond+rand.N(50*time.Millisecond))
}

// book adds a line for each run of it that is committed.
func (a *app) book(ctx context.Context, tx pgx.Tx, _ jobMade) error {
	d := waybill.DeliveryFrom(ctx)
	if _, err := tx.Exec(ctx, `INSERT INTO app.booking (delivery_id, run_by) VALUES ($1, $2)`, d.ID, d.Claim.By); err != nil {
		return err
	}
	return work(ctx, 20*time.Millisecond+rand.N(30*time.Millisecond))
}

func work(ctx context.Context, takes time.Duration) error {
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

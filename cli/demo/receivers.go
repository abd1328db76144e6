package demo

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// madeUpEvents are what the demo fires unless it is given events.
func madeUpEvents() []waybill.RawEvent {
	names := []string{"order.placed", "order.placed", "order.paid", "order.shipped"}
	events := make([]waybill.RawEvent, 200)
	for i := range events {
		payload, _ := json.Marshal(map[string]any{"order": 1000 + i, "amount_cents": 100 * (i%50 + 1)})
		events[i] = waybill.RawEvent{Name: names[i%len(names)], Payload: payload}
	}
	return events
}

// declareReceivers declares the five kinds of receiver. Each listens to every
// event; those that would take too long for a demo pick a few by their targets.
func declareReceivers(registry *waybill.Registry, count *counters) {
	options := waybill.Options{Lease: lease, Backoff: waybill.Backoff{Base: 100 * time.Millisecond, Cap: 200 * time.Millisecond}}
	plain := func(key string, opts waybill.Options, run func(ctx context.Context, d *waybill.Delivery) error) {
		registry.Add(waybill.Receiver{Key: key, Event: waybill.AnyEvent, Options: opts,
			Run: func(ctx context.Context, d *waybill.Delivery) error {
				defer count.enter(ctx, d)()
				return run(ctx, d)
			}})
	}

	// Transactional: its row and the acknowledgement commit together, so the
	// table has exactly one row per delivery, whatever happens.
	registry.Add(waybill.Receiver{
		Key: "stock.reserve", Event: waybill.AnyEvent, Options: options, TxKind: "*sql.Tx",
		RunTx: func(ctx context.Context, tx any, d *waybill.Delivery) error {
			defer count.enter(ctx, d)()
			_, err := tx.(*sql.Tx).ExecContext(ctx, `INSERT INTO reservation (delivery_id, payload_bytes) VALUES (?, ?)`, d.ID, len(d.Event.Payload))
			return err
		},
	})

	// Fans out: one delivery for each of two warehouses.
	fanOut := options
	fanOut.Targets = waybill.TargetsOf(func(context.Context, waybill.RawEvent) ([]string, error) {
		return []string{"warehouse-north", "warehouse-south"}, nil
	})
	plain("warehouse.tell", fanOut, func(_ context.Context, d *waybill.Delivery) error {
		if d.Target == "" {
			return errors.New("a fan-out delivery has a target")
		}
		return nil
	})

	// Fails twice, then succeeds.
	flaky := options
	flaky.Targets = oneIn(4)
	plain("mail.receipt", flaky, func(_ context.Context, d *waybill.Delivery) error {
		if d.Attempt <= 2 {
			return fmt.Errorf("the mail provider is busy (attempt %d)", d.Attempt)
		}
		return nil
	})

	// Always fails: dead after three attempts.
	hopeless := options
	hopeless.MaxAttempts = 3
	hopeless.Targets = oneIn(12)
	plain("legacy.sync", hopeless, func(context.Context, *waybill.Delivery) error {
		return errors.New("the legacy system is gone")
	})

	// Stalls past its lease once, as in a long garbage collection: another
	// worker takes the row over, and what the stalled run reports is refused.
	stalled := options
	stalled.Lane, stalled.Lease = slowLane, shortLease
	stalled.Targets = oneIn(20)
	plain("report.build", stalled, func(_ context.Context, d *waybill.Delivery) error {
		if d.Start == 1 {
			time.Sleep(shortLease + shortLease/2)
		}
		return nil
	})
}

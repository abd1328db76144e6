package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
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

// number is the header that counts the events, from 1.
const number = "demo-number"

// numbered returns the events with their numbers.
func numbered(events []waybill.RawEvent) []waybill.RawEvent {
	all := slices.Clone(events)
	for i := range all {
		headers := maps.Clone(all[i].Headers)
		if headers == nil {
			headers = map[string]string{}
		}
		headers[number] = strconv.Itoa(i + 1)
		all[i].Headers = headers
	}
	return all
}

// oneIn makes targets that pick every nth event.
func oneIn(n int) *waybill.Targets {
	return waybill.TargetsOf(func(_ context.Context, event waybill.RawEvent) ([]string, error) {
		i, err := strconv.Atoi(event.Headers[number])
		if err != nil || i%n != 0 {
			return nil, err
		}
		return []string{"demo"}, nil
	})
}

// declareReceivers declares the five kinds of receiver. Each listens to every
// event; those that would take too long for a demo pick a few by their targets.
func declareReceivers(registry *waybill.Registry, own names, reservations table, count *counters) {
	options := waybill.Options{Lane: own.lane(), Lease: lease, Backoff: waybill.Backoff{Base: 100 * time.Millisecond, Cap: 200 * time.Millisecond}}
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
		Key: "stock.reserve", Event: waybill.AnyEvent, Options: options, TxKind: reservations.txKind(),
		RunTx: func(ctx context.Context, tx any, d *waybill.Delivery) error {
			defer count.enter(ctx, d)()
			return reservations.insert(ctx, tx, d)
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
	stalled.Lane, stalled.Lease = own.slowLane(), shortLease
	stalled.Targets = oneIn(20)
	plain("report.build", stalled, func(_ context.Context, d *waybill.Delivery) error {
		if d.Start == 1 {
			time.Sleep(shortLease + shortLease/2)
		}
		return nil
	})
}

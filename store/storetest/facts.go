package storetest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

// What goes beside an event, from the fire to the run.
var factCases = []testCase{
	{"of an envelope reach the run", func(b *scene) {
		b.start("a")
		occurred := time.Date(1969, 7, 20, 20, 17, 40, 123456789, time.FixedZone("", -5*3600))
		id := b.fire(waybill.Envelope{
			Event: &Parcel{N: 7}, OccurredAt: occurred, CorrelationID: "request 1",
			Headers: map[string]string{"tenant": "ünï"},
		})[0]
		d := b.take(b.claim(1, "a")[0].Message)[0]
		equal(b, "event", d.Event.ID, id)
		equal(b, "payload", string(d.Event.Payload), `{"n":7}`)
		equal(b, "occurred_at", d.Event.OccurredAt, occurred.UTC().Truncate(time.Microsecond))
		near(b, "recorded_at", waybill.StampOf(d.Event.RecordedAt), b.now())
		equal(b, "correlation id", d.Event.CorrelationID, "request 1")
		equal(b, "causation id", d.Event.CausationID, 0)
		equal(b, "headers", d.Event.Headers, map[string]string{"tenant": "ünï"})
	}},
	{"that lie at the epoch are kept", func(b *scene) {
		b.start("a")
		b.fire(waybill.Envelope{Event: Parcel{}, OccurredAt: time.Unix(0, 0)})
		d := b.take(b.claim(1, "a")[0].Message)[0]
		equal(b, "occurred_at", d.Event.OccurredAt, time.Unix(0, 0).UTC())
	}},
	// Trap 71: a chain that is read from somewhere else than the row.
	{"of an event that a receiver fires name its cause", func(b *scene) {
		b.start("a")
		run := func() (context.Context, *waybill.Delivery) {
			d := b.take(b.claim(1, "a")[0].Message)[0]
			b.ack(waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}})
			return waybill.WithDelivery(b.ctx, d), d
		}
		root := b.fire(Parcel{N: 1})[0]
		ctx, first := run()
		equal(b, "correlation id of the root", first.Event.CorrelationID, strconv.FormatInt(root, 10))
		child := b.fireIn(ctx, Parcel{N: 2})
		ctx, second := run()
		equal(b, "cause of the child", second.Event.CausationID, root)
		equal(b, "correlation id of the child", second.Event.CorrelationID, strconv.FormatInt(root, 10))
		b.fireIn(ctx, Parcel{N: 3})
		_, third := run()
		equal(b, "cause of the grandchild", third.Event.CausationID, child)
		equal(b, "correlation id of the grandchild", third.Event.CorrelationID, strconv.FormatInt(root, 10))
	}},
	// Trap 68: targets of an event that nobody is owed.
	{"of a suppressed event are kept, and nobody is owed it", func(b *scene) {
		waybill.Declare[Parcel](b.reg, parcelEvent, waybill.EventOptions{})
		waybill.On(b.reg, "fan", func(context.Context, Parcel) error { return nil }, waybill.Options{
			Targets: waybill.TargetsOf(func(context.Context, Parcel) ([]string, error) {
				b.Error("targets of a suppressed event were asked for")
				return nil, nil
			}),
		})
		b.start("a")
		b.fireIn(waybill.Suppress(b.ctx, "import of 2019 "+strings.Repeat("x", 300)), Parcel{})
		equal(b, "rows", len(b.rows()), 0)
		equal(b, "suppressed events", b.count("SELECT count(*) FROM event WHERE suppressed_reason LIKE 'import of 2019 x%%' AND length(suppressed_reason) < 256"), 1)
		b.fire(waybill.RawEvent{Name: "other", Payload: []byte("{}")})
		equal(b, "events that are owed", b.count("SELECT count(*) FROM event WHERE suppressed_reason IS NULL"), 1)
	}},
	// Trap 60: what was promised when the event was fired.
	{"of its retention are frozen", func(b *scene) {
		waybill.Declare[kept](b.reg, "kept", waybill.EventOptions{Retention: waybill.Retention{Keep: 90 * time.Minute}})
		waybill.Declare[consumed](b.reg, "consumed", waybill.EventOptions{Retention: waybill.Retention{Consumed: waybill.OnceSucceeded}})
		b.start()
		b.fire(kept{}, consumed{}, Parcel{}, waybill.RawEvent{Name: "kept", Payload: []byte("{}")})
		for where, want := range map[string]int64{
			"name = 'kept' AND retention_seconds = 5400 AND delete_when IS NULL":                 2,
			"name = 'consumed' AND retention_seconds IS NULL AND delete_when = 'succeeded'":      1,
			"name = '" + parcelEvent + "' AND retention_seconds IS NULL AND delete_when IS NULL": 1,
		} {
			equal(b, "events where "+where, b.count("SELECT count(*) FROM event WHERE %s", where), want)
		}
	}},
	{"of many events stay with their own", func(b *scene) {
		b.start("a")
		var events []any
		for i := range 600 {
			envelope := waybill.Envelope{Event: Parcel{N: i}}
			if i%3 == 0 {
				envelope.CorrelationID = fmt.Sprintf("chain %d", i)
			}
			if i%5 == 0 {
				envelope.DedupeKey = fmt.Sprintf("key %d", i)
			}
			events = append(events, envelope)
		}
		ids := b.fire(events...)
		for i, id := range ids {
			correlation, key := "correlation_id IS NULL", "dedupe_key IS NULL"
			if i%3 == 0 {
				correlation = fmt.Sprintf("correlation_id = 'chain %d'", i)
			}
			if i%5 == 0 {
				key = fmt.Sprintf("dedupe_key = 'key %d'", i)
			}
			if i%50 < 4 {
				equal(b, fmt.Sprintf("event %d", i), b.count("SELECT count(*) FROM event WHERE id = %d AND %s AND %s", id, correlation, key), 1)
			}
		}
		equal(b, "keys", b.count("SELECT count(*) FROM event WHERE dedupe_key IS NOT NULL"), 120)
		equal(b, "rows", len(b.rows()), 600)
	}},
}

type (
	kept     struct{}
	consumed struct{}
)

// fireIn fires one event under a context of its own.
func (b *scene) fireIn(ctx context.Context, event any) int64 {
	b.Helper()
	var ids []int64
	b.must(b.InTx(ctx, func(tx any) (err error) {
		ids, err = b.Fire(ctx, tx, event)
		return err
	}))
	return ids[0]
}

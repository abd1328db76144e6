package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

var fireCases = []testCase{
	{"writes one event and a row for each receiver", func(b *scene) {
		b.start("a", "b", "c")
		ids := b.fire(Parcel{N: 7})
		rows := b.rows()
		equal(b, "rows", len(rows), 3)
		now := b.now()
		for i, key := range []string{"a", "b", "c"} {
			row := rows[i]
			near(b, "available_at", row.AvailableAt, now)
			want := Row{
				ID: row.ID, EventID: ids[0], Receiver: key, TargetDigest: waybill.TargetDigest(""),
				Status: waybill.Pending, MaxAttempts: waybill.DefaultMaxAttempts,
				AvailableAt: row.AvailableAt, DueAt: row.AvailableAt,
			}
			equal(b, "row of "+key, row, want)
		}
		equal(b, "events", b.count("SELECT count(*) FROM event WHERE id = %d AND name = '%s' AND version = 1", ids[0], parcelEvent), 1)
	}},
	// Trap 49: an event that is written beside the transaction it belongs to.
	{"writes nothing when the transaction is rolled back", func(b *scene) {
		b.start("a")
		err := b.InTx(b.ctx, func(tx any) error {
			if _, err := b.Fire(b.ctx, tx, Parcel{}, Parcel{}); err != nil {
				return err
			}
			return errRollBack
		})
		if !errors.Is(err, errRollBack) {
			b.Fatalf("InTx returned %v, want what the function returned", err)
		}
		equal(b, "events", b.count("SELECT count(*) FROM event"), 0)
		equal(b, "rows", len(b.rows()), 0)
	}},
	{"returns the ids in the order of the events", func(b *scene) {
		b.start("a")
		events := make([]any, 50)
		for i := range events {
			events[i] = Parcel{N: i}
		}
		ids := b.fire(events...)
		for _, d := range b.take(messagesOf(b.claim(100, "a"))...) {
			var parcel Parcel
			b.must(json.Unmarshal(d.Event.Payload, &parcel))
			equal(b, fmt.Sprintf("id of parcel %d", parcel.N), d.Event.ID, ids[parcel.N])
		}
	}},
	{"of nothing is nothing", func(b *scene) {
		b.start("a")
		equal(b, "ids", len(b.fire()), 0)
	}},
	{"of an event without receivers keeps the event", func(b *scene) {
		b.start()
		b.fire(Parcel{})
		equal(b, "events", b.count("SELECT count(*) FROM event"), 1)
		equal(b, "rows", len(b.rows()), 0)
	}},
	{"refuses an undeclared event and writes nothing", func(b *scene) {
		b.start("a")
		err := b.InTx(b.ctx, func(tx any) error {
			_, err := b.Fire(b.ctx, tx, Parcel{}, struct{ X int }{1})
			return err
		})
		wantErr(b, "fire", err)
		equal(b, "events", b.count("SELECT count(*) FROM event"), 0)
	}},
	// Trap 78: a digest kept as its text.
	{"writes one row for each distinct target", func(b *scene) {
		fanOut(b, func() []string { return []string{"x", "y", "x", "ünïcode", "y"} })
		b.fire(Parcel{})
		rows := b.rows()
		equal(b, "rows", len(rows), 3)
		for i, target := range []string{"x", "y", "ünïcode"} {
			equal(b, "target", rows[i].Target, target)
			equal(b, "digest", rows[i].TargetDigest, waybill.TargetDigest(target))
		}
	}},
	{"writes no row without targets", func(b *scene) {
		fanOut(b, func() []string { return nil })
		b.fire(Parcel{})
		equal(b, "rows", len(b.rows()), 0)
	}},
	{"writes 20,000 targets", func(b *scene) {
		targets := make([]string, 20_000)
		for i := range targets {
			targets[i] = fmt.Sprintf("https://example.test/hooks/%d?%s", i, strings.Repeat("x", i%300))
		}
		fanOut(b, func() []string { return targets })
		b.fire(Parcel{})
		rows := b.rows()
		equal(b, "rows", len(rows), len(targets))
		for i, row := range rows {
			if row.Target != targets[i] || row.TargetDigest != waybill.TargetDigest(targets[i]) {
				b.Fatalf("row %d: target %q, want %q", i, row.Target, targets[i])
			}
		}
	}},
	{"resolves targets in the firing transaction", func(b *scene) {
		waybill.Declare[Parcel](b.reg, parcelEvent, waybill.EventOptions{})
		waybill.On(b.reg, "fan", func(context.Context, Parcel) error { return nil }, waybill.Options{
			Targets: waybill.TargetsOfTx(func(ctx context.Context, tx any, p Parcel) ([]string, error) {
				return []string{"x"}, b.ExecTx(ctx, tx, "INSERT INTO effect VALUES (1)")
			}),
		})
		b.start()
		b.exec("CREATE TABLE effect (n bigint)")
		if err := b.InTx(b.ctx, func(tx any) error {
			if _, err := b.Fire(b.ctx, tx, Parcel{}); err != nil {
				return err
			}
			return errRollBack
		}); !errors.Is(err, errRollBack) {
			b.Fatal(err)
		}
		equal(b, "effects after the rollback", b.count("SELECT count(*) FROM effect"), 0)
		b.fire(Parcel{})
		equal(b, "effects after the commit", b.count("SELECT count(*) FROM effect"), 1)
	}},
	// Trap 68: a change that is committed without what it owes.
	{"fails with the error of the targets", func(b *scene) {
		waybill.Declare[Parcel](b.reg, parcelEvent, waybill.EventOptions{})
		broken := errors.New("no address book")
		waybill.On(b.reg, "fan", func(context.Context, Parcel) error { return nil }, waybill.Options{
			Targets: waybill.TargetsOf(func(context.Context, Parcel) ([]string, error) { return nil, broken }),
		})
		b.start()
		err := b.InTx(b.ctx, func(tx any) error {
			_, err := b.Fire(b.ctx, tx, Parcel{})
			return err
		})
		if !errors.Is(err, broken) {
			b.Fatalf("got %v, want the targets' error", err)
		}
	}},
	// Trap 72: a payload that does not come back as it was fired.
	{"keeps the payload byte for byte", func(b *scene) {
		waybill.OnAny(b.reg, "any", func(context.Context, *waybill.Delivery) error { return nil }, waybill.Options{})
		b.start()
		events := make([]any, len(payloads))
		for i, payload := range payloads {
			events[i] = waybill.RawEvent{Name: "raw", Payload: json.RawMessage(payload.json)}
		}
		ids := b.fire(events...)
		got := map[int64]string{}
		for _, d := range b.take(messagesOf(b.claim(100, "any"))...) {
			got[d.Event.ID] = string(d.Event.Payload)
		}
		for i, payload := range payloads {
			if got[ids[i]] != payload.json {
				b.Errorf("%s: got %.200q, want %.200q", payload.name, got[ids[i]], payload.json)
			}
		}
	}},
	{"keeps headers and version", func(b *scene) {
		waybill.OnAny(b.reg, "any", func(context.Context, *waybill.Delivery) error { return nil }, waybill.Options{})
		b.start()
		headers := map[string]string{"trace": "00-ab", "Ünïcode \"x\"": "line\nbreak\t\\ 😀", "empty": ""}
		b.fire(
			waybill.RawEvent{Name: "raw.one", Version: 3, Payload: json.RawMessage(`1`), Headers: headers},
			waybill.RawEvent{Name: "raw.two", Payload: json.RawMessage(`2`)},
		)
		got := b.take(messagesOf(b.claim(10, "any"))...)
		equal(b, "deliveries", len(got), 2)
		for _, d := range got {
			if d.Event.Name == "raw.one" {
				equal(b, "headers", d.Event.Headers, headers)
				equal(b, "version", d.Event.Version, 3)
			} else {
				equal(b, "headers", len(d.Event.Headers), 0)
				equal(b, "version", d.Event.Version, 1)
			}
		}
	}},
	{"freezes max attempts", func(b *scene) {
		waybill.Declare[Parcel](b.reg, parcelEvent, waybill.EventOptions{})
		waybill.On(b.reg, "stubborn", func(context.Context, Parcel) error { return nil }, waybill.Options{MaxAttempts: 17})
		b.start()
		equal(b, "max attempts of the row", b.parcels(1)[0].MaxAttempts, 17)
		got := b.take(messagesOf(b.claim(1, "stubborn"))...)
		equal(b, "max attempts of the delivery", got[0].MaxAttempts, 17)
	}},
	{"takes the store's clock", func(b *scene) {
		b.start("a")
		real := b.now()
		b.SetClock(3 * day)
		near(b, "now", b.now(), real.Add(3*day))
		row := b.parcels(1)[0]
		near(b, "available_at", row.AvailableAt, real.Add(3*day))
		b.SetClock(0)
		equal(b, "claimed before it is due", len(b.claim(10, "a")), 0)
	}},
}

const day = 24 * time.Hour

// payloads are texts that a parsed form of JSON would not give back.
var payloads = []struct{ name, json string }{
	{"null escape", `{"a":"\u0000","b":"\ud83d\ude00"}`},
	{"lone surrogate", `"\ud800"`},
	{"big numbers", `{"n":123456789012345678901234567890,"f":1.10,"e":1E400,"z":-0.0}`},
	{"spaces and order", "{ \"z\" : 1,\n\t\"a\" : [ ] , \"z\":2 }\n"},
	{"slashes", `{"u":"https:\/\/example.test\/","q":"\"\\"}`},
	{"unicode", `{"grüße":"日本語 😀 \u2028"}`},
	{"null", `null`},
	{"large", `"` + strings.Repeat("0123456789abcdef", 1<<16) + `"`},
	{"deep", strings.Repeat("[", 900) + strings.Repeat("]", 900)},
}

func fanOut(b *scene, targets func() []string) {
	waybill.Declare[Parcel](b.reg, parcelEvent, waybill.EventOptions{})
	waybill.On(b.reg, "fan", func(context.Context, Parcel) error { return nil }, waybill.Options{
		Targets: waybill.TargetsOf(func(context.Context, Parcel) ([]string, error) { return targets(), nil }),
	})
	b.start()
}

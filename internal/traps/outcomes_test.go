package traps

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/poll"
)

var (
	errBroken = errors.New("connection refused")
	sent      = waybill.RawEvent{Name: "parcel.sent", Payload: json.RawMessage(`{"n":1}`)}
)

type parcel struct {
	N int `json:"n"`
}

// receive declares a receiver of what is sent, and opens the rig.
func (r *rig) receive(options waybill.Options, run func(context.Context, *waybill.Delivery) error) {
	r.Helper()
	r.reg.Add(waybill.Receiver{Key: "a", Event: sent.Name, Options: options, Run: run})
	r.open()
}

var outcomeCases = []testCase{
	// Trap 20: a backoff that no claim ever heeds. Each wait is waited out by the claims of
	// a relay, and ended by them.
	{"failures wait out their backoff", func(r *rig) {
		const longest = 1000 * time.Hour // a random share of it is not over in a moment
		r.receive(waybill.Options{MaxAttempts: 3, Backoff: waybill.Backoff{Base: longest, Cap: longest}},
			func(context.Context, *waybill.Delivery) error { return errBroken })
		r.fire(sent)
		each := r.serve()
		for attempt := 1; attempt < 3; attempt++ {
			r.round(each, 1)
			failed := r.only()
			if wait := failed.Available.Time().Sub(failed.Taken.Time()); failed.Status != waybill.Failed || failed.Attempts != attempt ||
				wait <= time.Minute || wait > longest {
				r.Fatalf("row %+v waits %s after attempt %d, want a share of %s", failed, wait, attempt, longest)
			}
			r.round(each, 0)
			r.at(failed.Available.Add(-30 * time.Second))
			r.round(each, 0)
			r.at(failed.Available.Add(time.Second))
		}
		r.round(each, 1)
		if dead := r.only(); dead.Status != waybill.Dead || dead.Attempts != 3 || dead.Starts != 3 {
			r.Errorf("row %+v, want it dead after three runs", dead)
		}
		r.round(each, 0)
	}},
	// Traps 24 and 25: deferrals that have no end, or end by the age of the event. They go
	// on for as long as the debt is young, whatever the event is, spend no attempt, and
	// then end.
	{"deferrals end by the age of the debt", func(r *rig) {
		var runs atomic.Int64
		r.receive(waybill.Options{MaxAttempts: 1, GiveUpAfter: 10 * time.Minute}, func(context.Context, *waybill.Delivery) error {
			runs.Add(1)
			return waybill.Defer(4 * time.Minute)
		})
		r.clock(-30 * 24 * time.Hour)
		r.fire(sent)
		// As if it had become owed anew: the event is a month old, and its debt is not.
		owed := waybill.StampOf(time.Now())
		r.clock(0)
		r.owe(owed)
		each := r.serve()
		for deferrals := 1; ; deferrals++ {
			r.round(each, 1)
			now := r.only()
			if now.Due != owed || now.Attempts != 0 {
				r.Fatalf("row %+v, want it owed since %s as ever, and no attempt spent", now, owed)
			}
			if now.Status == waybill.Dead {
				break
			}
			if now.Status != waybill.Failed || deferrals > 3 {
				r.Fatalf("row %+v after %d deferrals of 4 to 8 minutes within 10", now, deferrals)
			}
			poll.Until(r.T, "the pause of the lane", func() bool { return len(r.log.Lines("lane paused")) == deferrals })
			r.at(now.Available.Add(time.Second))
		}
		if n := runs.Load(); n < 3 {
			r.Errorf("given up at run %d, want it at the first past ten minutes: %+v", n, r.only())
		}
		if text := r.only().Error; !strings.Contains(text, "given up after 1") {
			r.Errorf("last_error %q does not say why", text)
		}
	}},
	// Trap 21: a payload that does not decode ends its own row and no other, whatever the
	// receiver is.
	{"a payload that does not decode ends its row alone", func(r *rig) {
		var runs atomic.Int64
		waybill.Declare[parcel](r.reg, sent.Name, waybill.EventOptions{})
		waybill.On(r.reg, "plain", func(context.Context, parcel) error { runs.Add(1); return nil }, waybill.Options{})
		waybill.OnTx(r.reg, "tx", r.txKind, func(context.Context, any, parcel) error { runs.Add(1); return nil }, waybill.Options{})
		r.open()
		r.fire(parcel{1}, waybill.RawEvent{Name: sent.Name, Payload: json.RawMessage(`["no","parcel"]`)}, parcel{3})
		each := r.serve()
		r.round(each, 6)
		bad := r.rows()[2].Event
		for _, now := range r.rows() {
			want := waybill.Succeeded
			if now.Event == bad {
				want = waybill.Dead
			}
			if now.Status != want || now.Attempts != 1 || (want == waybill.Dead) != strings.Contains(now.Error, "decode payload of parcel.sent") {
				r.Errorf("row %+v, want it %s", now, want)
			}
		}
		if n := runs.Load(); n != 4 {
			r.Errorf("%d runs, want 4", n)
		}
		r.round(each, 0)
	}},
	// Trap 32: what a release changes of its receivers. What may be tried how often is
	// frozen when the event is fired; lease and backoff are those of the release that runs.
	{"a release meets older rows", func(r *rig) {
		r.receive(waybill.Options{MaxAttempts: 2, Lease: time.Minute, Backoff: waybill.Backoff{Base: 1, Cap: 1}},
			func(context.Context, *waybill.Delivery) error { return nil })
		r.fire(sent)
		released := waybill.NewRegistry()
		const longest = 1000 * time.Hour
		var during row
		released.Add(waybill.Receiver{Key: "a", Event: sent.Name,
			Options: waybill.Options{MaxAttempts: 1, Lease: 20 * time.Minute, Backoff: waybill.Backoff{Base: longest, Cap: longest}},
			Run:     func(context.Context, *waybill.Delivery) error { during = r.only(); return errBroken }})
		r.fault.SetRegistry(released)
		each := r.serve()
		r.round(each, 1)
		if lease := during.Lease.Time().Sub(during.Taken.Time()); lease != 20*time.Minute {
			r.Errorf("it ran under a lease of %s, want the 20m of the new release", lease)
		}
		failed := r.only()
		if wait := failed.Available.Time().Sub(failed.Taken.Time()); failed.Status != waybill.Failed || wait < time.Minute {
			r.Fatalf("row %+v waits %s, want a second attempt after a share of %s", failed, wait, longest)
		}
		r.at(failed.Available.Add(time.Second))
		r.round(each, 1)
		if dead := r.only(); dead.Status != waybill.Dead || dead.Attempts != 2 {
			r.Errorf("row %+v, want it dead after the two attempts it was fired with", dead)
		}
	}},
	// Trap 34: a take that is rolled back with the receiver's work. It stands, and so a copy
	// of the message runs nothing.
	{"a copy after a rollback runs nothing", func(r *rig) {
		var runs atomic.Int64
		waybill.Declare[parcel](r.reg, sent.Name, waybill.EventOptions{})
		waybill.OnTx(r.reg, "tx", r.txKind, func(context.Context, any, parcel) error { runs.Add(1); return errBroken },
			waybill.Options{Backoff: waybill.Backoff{Base: time.Hour, Cap: time.Hour}})
		r.open()
		r.fire(parcel{1})
		each := r.serve()
		r.round(each, 1)
		before := r.only()
		if before.Status != waybill.Failed || before.Attempts != 1 || before.Starts != 1 {
			r.Fatalf("row %+v, want one failed attempt", before)
		}
		_, err := r.queue.Backend.Enqueue(r.Context(), r.queue.sent)
		r.must(err)
		r.refusal("refused=taken")
		if after := r.only(); after != before || runs.Load() != 1 {
			r.Errorf("%d runs; the row changed from %+v to %+v", runs.Load(), before, after)
		}
	}},
}

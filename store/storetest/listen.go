package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
)

// ear is a listener of one lane.
type ear struct {
	woken chan struct{}
	ended chan error
	leave context.CancelFunc
}

// listen begins to listen to a lane, and returns when it hears.
func (b *scene) listen(lane string) *ear {
	b.Helper()
	ctx, cancel := context.WithCancel(b.ctx)
	e := &ear{woken: make(chan struct{}, 100), ended: make(chan error, 1), leave: cancel}
	go func() {
		defer close(e.ended)
		e.ended <- b.Store.Listen(ctx, lane, func() { e.woken <- struct{}{} })
	}()
	b.Cleanup(func() {
		cancel()
		for range e.ended {
		}
	})
	if !b.Deaf {
		b.await("the first wake", e.woken)
	}
	return e
}

// lanes starts a store with a receiver of each of two lanes, which the event by the
// same name is for.
func (b *scene) lanes() {
	b.Helper()
	for _, lane := range []string{"mail", "bulk"} {
		b.reg.Add(waybill.Receiver{
			Key: lane + ".receiver", Event: lane, Options: waybill.Options{Lane: lane},
			Run: func(context.Context, *waybill.Delivery) error { return nil },
		})
	}
	b.start()
}

func event(name string) waybill.RawEvent {
	return waybill.RawEvent{Name: name, Payload: []byte(`{}`)}
}

// quiet fails the case if f wakes the listener beside the wakes of all that follow. A
// wake has no name: of several by f, some are left when as many were heard as were
// sent of all.
func (b *scene) quiet(e *ear, what string, f func()) {
	b.Helper()
	for range 3 {
		f()
	}
	for range 2 {
		b.Wake(b.ctx)
		b.await("a wake of all after "+what, e.woken)
	}
	equal(b, "wakes by "+what, len(e.woken), 0)
}

// wakes fails the case unless f wakes the listener.
func (b *scene) wakes(e *ear, what string, f func()) {
	b.Helper()
	f()
	b.await(what, e.woken)
}

var listenCases = []testCase{
	{"ends with its context", func(b *scene) {
		b.start("a")
		e := b.listen(waybill.DefaultLane)
		if !b.Deaf {
			b.wakes(e, "a commit", func() { b.parcels(1) })
		}
		e.leave()
		select {
		case err := <-e.ended:
			if !b.Deaf || !errors.Is(err, waybill.ErrDeaf) { // it may have known that first
				b.must(err)
			}
		case <-time.After(10 * time.Second):
			b.Fatal("Listen goes on")
		}
	}},
	{"says so where it cannot hear", func(b *scene) {
		b.start("a")
		e := b.listen(waybill.DefaultLane)
		if !b.Deaf {
			return
		}
		select {
		case err := <-e.ended:
			if !errors.Is(err, waybill.ErrDeaf) {
				b.Fatalf("Listen returned %v, want ErrDeaf", err)
			}
		case <-time.After(30 * time.Second):
			b.Fatal("Listen goes on, and hears nothing")
		}
	}},
	{"hears what is fired to its lane, and to no other", func(b *scene) {
		if b.lanes(); b.Deaf {
			return
		}
		e := b.listen("mail")
		b.quiet(e, "another lane", func() { b.fire(event("bulk")) })
		b.wakes(e, "both", func() { b.fire(event("bulk"), event("mail")) })
		b.wakes(e, "its lane", func() { b.fire(event("mail")) })
	}},
	{"hears the wakes of its lane, and of all", func(b *scene) {
		if b.lanes(); b.Deaf {
			return
		}
		e := b.listen("mail")
		b.quiet(e, "another lane", func() { b.Wake(b.ctx, "bulk") })
		b.wakes(e, "its lane", func() { b.Wake(b.ctx, "mail") })
		b.wakes(e, "several", func() { b.Wake(b.ctx, "bulk", "mail") })
		b.wakes(e, "all", func() { b.Wake(b.ctx) })
	}},
	{"is not woken where nothing came to be owed", func(b *scene) {
		if b.lanes(); b.Deaf {
			return
		}
		e := b.listen("mail")
		b.quiet(e, "a transaction that fires nothing", func() {
			b.must(b.InTx(b.ctx, func(any) error { return nil }))
		})
		b.quiet(e, "an event without receivers", func() { b.fire(event("nobody's")) })
		b.quiet(e, "a transaction that is rolled back", func() {
			err := b.InTx(b.ctx, func(tx any) error {
				_, err := b.Fire(b.ctx, tx, event("mail"))
				return errors.Join(err, errRollBack)
			})
			if !errors.Is(err, errRollBack) {
				b.Fatal(err)
			}
		})
	}},
}

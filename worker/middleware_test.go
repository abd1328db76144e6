package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/worker"
)

// through is a middleware that changes nothing.
func through(next worker.RunFunc) worker.RunFunc { return next }

// inside makes a middleware of what it does in a run.
func inside(run func(ctx context.Context, d *waybill.Delivery, next worker.RunFunc) error) worker.Middleware {
	return func(next worker.RunFunc) worker.RunFunc {
		return func(ctx context.Context, d *waybill.Delivery) error { return run(ctx, d, next) }
	}
}

// diary keeps what happens, in order.
type diary struct {
	mu      sync.Mutex
	entries []string
}

func (d *diary) note(entry string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, entry)
}

// noting is a middleware that notes when it begins and ends.
func (d *diary) noting(name string) worker.Middleware {
	return inside(func(ctx context.Context, delivery *waybill.Delivery, next worker.RunFunc) error {
		d.note(name)
		defer d.note("/" + name)
		return next(ctx, delivery)
	})
}

func (d *diary) want(t *testing.T, entries ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.entries, entries) {
		t.Errorf("it went %q, want %q", d.entries, entries)
	}
}

func TestFirstMiddlewareIsOutermost(t *testing.T) {
	t.Parallel()
	var diary diary
	wraps := 0
	counting := func(next worker.RunFunc) worker.RunFunc { wraps++; return next }
	b := newBench(t, registry(t, func(context.Context, *waybill.Delivery) error {
		diary.note("run")
		return nil
	}, map[string]waybill.Options{"a": {}}))
	w := b.start(worker.Config{Slots: 1, Middleware: []worker.Middleware{diary.noting("first"), counting, diary.noting("second")}})
	wantNil(t, b.deliver(2), 2)
	b.settled()
	w.stop()
	once := []string{"first", "second", "run", "/second", "/first"}
	diary.want(t, append(once, once...)...)
	if wraps != 1 {
		t.Errorf("the middleware wrapped %d times, want once for all runs", wraps)
	}
	b.wantRow(1, waybill.Succeeded, 1, 1)
	b.wantRow(2, waybill.Succeeded, 1, 1)
}

var errSoldOut = errors.New("sold out")

// What the outermost returns is the outcome, whether the receiver was called or not.
func TestMiddlewareDecidesTheOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		receiver   func() error
		middleware func(ctx context.Context, d *waybill.Delivery, next worker.RunFunc) error
		status     waybill.Status
		says       string
		runs       int
	}{
		{"sees the error itself", func() error { return fmt.Errorf("stock: %w", errSoldOut) },
			func(ctx context.Context, d *waybill.Delivery, next worker.RunFunc) error {
				if err := next(ctx, d); !errors.Is(err, errSoldOut) {
					return fmt.Errorf("saw %w", err)
				}
				return waybill.Permanent(errors.New("made final"))
			}, waybill.Dead, "made final", 1},
		{"leaves the error as it is", func() error { return waybill.Permanent(errSoldOut) },
			func(ctx context.Context, d *waybill.Delivery, next worker.RunFunc) error {
				return fmt.Errorf("wrapped: %w", next(ctx, d))
			}, waybill.Dead, "wrapped: sold out", 1},
		{"forgives", func() error { return errSoldOut },
			func(ctx context.Context, d *waybill.Delivery, next worker.RunFunc) error {
				_ = next(ctx, d)
				return nil
			}, waybill.Succeeded, "", 1},
		{"skips with success", func() error { return errSoldOut },
			func(context.Context, *waybill.Delivery, worker.RunFunc) error { return nil }, waybill.Succeeded, "", 0},
		{"skips with an error", func() error { return nil },
			func(context.Context, *waybill.Delivery, worker.RunFunc) error { return errors.New("not today") }, waybill.Failed, "not today", 0},
		{"panics", func() error { return nil },
			func(context.Context, *waybill.Delivery, worker.RunFunc) error { panic("dropped it") }, waybill.Failed, "panic: dropped it\ngoroutine ", 0},
		{"returns a nil pointer for an error", func() error { return nil },
			func(context.Context, *waybill.Delivery, worker.RunFunc) error { return (*typedError)(nil) }, waybill.Failed, "panic: ", 0},
		{"sees a panic", func() error { panic(errSoldOut) },
			func(ctx context.Context, d *waybill.Delivery, next worker.RunFunc) error {
				err := next(ctx, d)
				var panicked *waybill.PanicError
				if !errors.As(err, &panicked) || !errors.Is(err, errSoldOut) || len(panicked.Stack) == 0 {
					return fmt.Errorf("saw %w", err)
				}
				return errors.New("saw the panic")
			}, waybill.Failed, "saw the panic", 1},
		{"ends its goroutine", func() error { return nil },
			func(context.Context, *waybill.Delivery, worker.RunFunc) error { runtime.Goexit(); return nil }, waybill.Failed, "runtime.Goexit", 0},
		{"lost the context", func() error { return nil },
			func(_ context.Context, d *waybill.Delivery, next worker.RunFunc) error {
				return next(context.Background(), d)
			}, waybill.Failed, "a context that is not made from the run's", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			runs := 0
			b := newBench(t, registry(t, func(context.Context, *waybill.Delivery) error { runs++; return c.receiver() },
				map[string]waybill.Options{"a": {}}))
			var diary diary
			w := b.start(worker.Config{Slots: 1, Middleware: []worker.Middleware{diary.noting("outer"), inside(c.middleware)}})
			wantNil(t, b.deliver(1), 1)
			b.settled()
			w.stop()
			if r := b.wantRow(1, c.status, 1, 1); !strings.Contains(r.Error, c.says) {
				t.Errorf("last_error %q does not say %q", r.Error, c.says)
			}
			if runs != c.runs {
				t.Errorf("%d runs, want %d", runs, c.runs)
			}
			diary.want(t, "outer", "/outer") // whatever happened within
		})
	}
}

type typedError struct{ text string }

func (e *typedError) Error() string { return e.text }

type tenantKey struct{}

func TestContextOfAMiddlewareReachesTheReceiver(t *testing.T) {
	t.Parallel()
	b := newBench(t, registry(t, func(ctx context.Context, d *waybill.Delivery) error {
		if ctx.Value(tenantKey{}) != "acme" || string(d.Event.Payload) != `{"plain":true}` || waybill.DeliveryFrom(ctx) != d {
			return fmt.Errorf("context value %v, payload %s, delivery %+v", ctx.Value(tenantKey{}), d.Event.Payload, waybill.DeliveryFrom(ctx))
		}
		return nil
	}, map[string]waybill.Options{"a": {}}))
	changing := inside(func(ctx context.Context, d *waybill.Delivery, next worker.RunFunc) error {
		if waybill.DeliveryFrom(ctx) != d || d.ID != 1 || d.Receiver != "a" {
			return fmt.Errorf("the context carries %+v, the call %+v", waybill.DeliveryFrom(ctx), d)
		}
		event, copied := *d.Event, *d
		event.Payload = []byte(`{"plain":true}`)
		copied.Event = &event
		copied.Claim = waybill.Claim{} // of no matter to the row
		return next(context.WithValue(ctx, tenantKey{}, "acme"), &copied)
	})
	w := b.start(worker.Config{Middleware: []worker.Middleware{changing, through}})
	wantNil(t, b.deliver(1), 1)
	b.settled()
	w.stop()
	if r := b.wantRow(1, waybill.Succeeded, 1, 1); r.Error != "" {
		t.Error(r.Error)
	}
}

// Around a transactional receiver a middleware runs within its transaction.
func TestMiddlewareOfATransactionalReceiver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		after  error // what the middleware makes of a success
		status waybill.Status
		noted  int
	}{
		{"success", nil, waybill.Succeeded, 1},
		{"error after the receiver's success", errSoldOut, waybill.Failed, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := stockBench(t, func(ctx context.Context, _ *sql.Tx) error {
				if ctx.Value(tenantKey{}) != "acme" || waybill.DeliveryFrom(ctx) == nil {
					return errors.New("the context of the middleware did not reach the receiver")
				}
				return nil
			})
			w := b.start(worker.Config{Middleware: []worker.Middleware{
				inside(func(ctx context.Context, d *waybill.Delivery, next worker.RunFunc) error {
					if d.Receiver != "stock" || waybill.DeliveryFrom(ctx) != d {
						return fmt.Errorf("delivery %+v", d)
					}
					if err := next(context.WithValue(ctx, tenantKey{}, "acme"), d); err != nil {
						return err
					}
					return c.after // with the transaction still open
				}),
			}})
			b.fire(1, "parcel.sent", `{"n":7}`)
			wantNil(t, b.queue.give(b.claim()...), 1)
			b.settled()
			w.stop()
			b.wantRow(1, c.status, 1, 1)
			if got := b.number(`SELECT count(*) FROM stock`); got != c.noted {
				t.Errorf("the receiver's table has %d rows, want %d", got, c.noted)
			}
		})
	}
}

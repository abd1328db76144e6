package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

// Whatever ends the context of a run, its cause says what that was, in plain receivers
// and in transactional ones, and within middlewares.
func TestCauseOfARunsEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		options waybill.Options
		stop    bool
		cause   error
	}{
		{"lease", waybill.Options{Lease: time.Second}, false, waybill.ErrLeaseLost},
		{"timeout", waybill.Options{Timeout: 50 * time.Millisecond}, false, waybill.ErrTimeout},
		{"stop", waybill.Options{}, true, waybill.ErrStopping},
	} {
		for _, transactional := range []bool{false, true} {
			name := c.name + ", plain"
			if transactional {
				name = c.name + ", transactional"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				begun, causes := make(chan struct{}), make(chan error, 2)
				run := func(ctx context.Context, _ parcel) error {
					close(begun)
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return ctx.Err()
				}
				reg := waybill.NewRegistry()
				waybill.Declare[parcel](reg, "parcel.sent", waybill.EventOptions{})
				if transactional {
					sqlite.OnTx(reg, "a", func(ctx context.Context, _ *sql.Tx, p parcel) error { return run(ctx, p) }, c.options)
				} else {
					waybill.On(reg, "a", run, c.options)
				}
				b := newBench(t, reg)
				w := b.start(worker.Config{Drain: time.Millisecond, Middleware: []worker.Middleware{
					inside(func(ctx context.Context, d *waybill.Delivery, next worker.RunFunc) error {
						err := next(ctx, d)
						causes <- context.Cause(ctx)
						return err
					}),
				}})
				answers := b.deliver(1)
				<-begun
				if c.stop {
					w.cancel()
				}
				wantNil(t, answers, 1)
				for range 2 {
					if cause := <-causes; !errors.Is(cause, c.cause) {
						t.Errorf("the cause is %v, want %v", cause, c.cause)
					}
				}
				w.stop()
			})
		}
	}
}

// The logger of a run is the worker's, and its lines say which run they are of.
func TestRunCarriesALogger(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	waybill.Declare[parcel](reg, "parcel.sent", waybill.EventOptions{})
	waybill.On(reg, "mail", func(ctx context.Context, _ parcel) error {
		waybill.LoggerFrom(ctx).Info("on its way")
		return nil
	}, waybill.Options{Targets: waybill.TargetsOf(func(context.Context, parcel) ([]string, error) { return []string{"ada"}, nil })})
	b := newBench(t, reg)
	w := b.start(worker.Config{Middleware: []worker.Middleware{
		inside(func(ctx context.Context, d *waybill.Delivery, next worker.RunFunc) error {
			waybill.LoggerFrom(ctx).Info("in the middle")
			return next(ctx, d)
		}),
	}})
	wantNil(t, b.deliver(1), 1)
	poll.Until(t, "the outcome", func() bool { return len(b.seen.of(waybill.ObservedAck)) == 1 })
	w.stop()
	for _, message := range []string{"on its way", "in the middle"} {
		b.log.Want(t, 1, message, "worker="+w.ID(), "delivery_id=1 receiver=mail event=parcel.sent event_id=1 attempt=1 target=ada")
	}
}

package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/worker"
)

// A receiver that ends its goroutine, as FailNow of a test does, has failed like any
// other: neither its slot nor the queue's goroutine goes with it.
func TestReceiverThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	b := newBench(t, registry(t, func(_ context.Context, d *waybill.Delivery) error {
		if d.ID < 3 {
			runtime.Goexit()
		}
		return nil
	}, map[string]waybill.Options{"a": {}}))
	w := b.start(worker.Config{Slots: 1})
	wantNil(t, b.deliver(3), 3)
	b.settled()
	w.stop()
	for id := range int64(2) {
		if r := b.wantRow(id+1, waybill.Failed, 1, 1); !strings.Contains(r.Error, "receiver ended its goroutine (runtime.Goexit") {
			t.Errorf("last_error %q does not say what happened", r.Error)
		}
	}
	b.wantRow(3, waybill.Succeeded, 1, 1)
	b.log.Want(t, 2, "level=WARN", "attempt failed", "runtime.Goexit")
	ended := 0
	for _, run := range b.seen.of(waybill.ObservedRun) {
		if errors.Is(run.Err, waybill.ErrGoexit) {
			ended++
		}
	}
	if ended != 2 {
		t.Errorf("%d runs are observed to have ended their goroutine, want 2", ended)
	}
}

func TestTransactionalReceiverThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	b := stockBench(t, func(context.Context, *sql.Tx) error { runtime.Goexit(); return nil })
	w := b.start(worker.Config{Slots: 1})
	b.fire(2, "parcel.sent", `{"n":7}`)
	wantNil(t, b.queue.give(b.claim()...), 2)
	poll.Until(t, "both outcomes", func() bool { return len(b.seen.of(waybill.ObservedAck)) == 2 })
	w.stop()
	for id := range int64(2) {
		if r := b.wantRow(id+1, waybill.Failed, 1, 1); !strings.Contains(r.Error, "runtime.Goexit") {
			t.Errorf("last_error %q does not say what happened", r.Error)
		}
	}
	if got := b.number(`SELECT count(*) FROM stock`); got != 0 {
		t.Errorf("the receiver's table has %d rows, want none: it was rolled back", got)
	}
}

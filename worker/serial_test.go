package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/worker"
)

// Trap 4: one lease over a batch whose rows run one after the other is over before the
// last of them begins. Each run begins with the whole of its receiver's lease, however
// long its message has waited for it.
func TestEachRunBeginsWithItsWholeLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rows, lease = 5, time.Minute
		var store *ledger
		var runs int
		store = newLedger(registry(t, func(ctx context.Context, d *waybill.Delivery) error {
			runs++
			if left := time.Until(store.row(d.ID).lease); left != lease {
				t.Errorf("run %d begins with %s of its lease, want %s", runs, left, lease)
			}
			time.Sleep(40 * time.Second)
			return ctx.Err()
		}, map[string]waybill.Options{"a": {Lease: lease}}))
		queue := newQueue(t)
		enqueue(t, queue, store.claimed("a", rows))
		w := start(t, worker.Config{Store: store, Backend: queue, Slots: 1})
		time.Sleep(rows * lease)
		w.stop()
		if got := store.count(waybill.Succeeded); runs != rows || got != rows {
			t.Errorf("%d runs, %d succeeded; want %d of each", runs, got, rows)
		}
	})
}

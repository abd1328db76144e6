package worker_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/worker"
)

// An outage that is waited out is no stall, however long; a call that never comes
// back is one.
func TestOnlyACallThatNeverReturnsIsAStall(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Take", "Ack"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newLedger(registry(t, func(context.Context, *waybill.Delivery) error { return nil }, map[string]waybill.Options{"a": {}}))
				queue := newQueue(t)
				logger, _ := logtest.New()
				w := start(t, worker.Config{Store: store, Backend: queue, Slots: 3, Logger: logger})
				time.Sleep(time.Hour)
				if stalled := w.Stalled(); stalled != 0 {
					t.Errorf("stalled for %s with nothing to do", stalled)
				}

				store.on(method, hang)
				enqueue(t, queue, store.claimed("a", 10))
				var longest time.Duration
				for range 600 {
					time.Sleep(time.Second)
					longest = max(longest, w.Stalled())
				}
				if longest == 0 || longest > 16*time.Second {
					t.Errorf("stalled for %s in an outage, want a try and the wait after it", longest)
				}

				release := make(chan struct{})
				store.on(method, func(context.Context) error {
					<-release
					return nil
				})
				time.Sleep(10 * time.Minute)
				if stalled := w.Stalled(); stalled < 9*time.Minute {
					t.Errorf("stalled for %s by a call that never returns", stalled)
				}
				close(release)
				store.on(method, nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				if stalled := w.Stalled(); stalled != 0 {
					t.Errorf("stalled for %s when all is done", stalled)
				}
				w.stop()
			})
		})
	}
}

package relay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/relay"
)

func TestOnceGoesOnUntilNothingIsDue(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	b.fire(120, 2*time.Hour)
	b.claim(120, time.Minute)
	b.fire(130, time.Hour)
	b.store.SetClockOffset(2 * time.Minute)
	r := b.relay(relay.Config{BatchSize: 50})
	once(t, r, 0, 250)
	wantIDs(t, "handed off", b.queue.ids(), ids(1, 250))
	if !all(b.rows(), func(row row) bool { return heldBy(row, r) }) {
		t.Error("some rows are not held by the relay")
	}
	for _, size := range b.queue.sizes() {
		if size > 50 {
			t.Errorf("batches of %v, want at most 50", b.queue.sizes())
		}
	}
	once(t, r, 0, 0)
}

func TestOnceWithALimitIsOneClaim(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}, "near": {Site: waybill.SiteRelay}})
	b.fire(1, 2*time.Hour)
	b.claim(2, time.Minute)
	b.fire(40, time.Hour)
	b.store.SetClockOffset(2 * time.Minute)
	near := &queue{}
	r := b.relay(relay.Config{BatchSize: 10, Local: near})
	for _, limit := range []int{7, 1, 50} { // the last is more than a batch
		before := len(b.queue.ids()) + len(near.ids())
		once(t, r, limit, limit)
		if got := len(b.queue.ids()) + len(near.ids()) - before; got != limit {
			t.Errorf("limit %d handed off %d", limit, got)
		}
	}
	if !contains(append(b.queue.ids()[:1], near.ids()[:1]...), 1) {
		t.Errorf("lapsed row 1 was not among the first: %v, %v", b.queue.ids(), near.ids())
	}
	once(t, r, 50, 82-58)
	once(t, r, 50, 0)
}

// Rows that lapse between two calls are due to the second, however soon it comes.
func TestOnceLooksForLapsedRowsEachTime(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	b.fire(1, time.Hour)
	r := b.relay(relay.Config{Poll: time.Hour})
	once(t, r, 0, 1)
	b.store.SetClockOffset(10 * time.Minute)
	once(t, r, 0, 1)
}

// Trap 37: a row that runs elsewhere because there is no queue for it.
func TestOnceCountsOnlyWhatTheQueuesHave(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}, "near": {Site: waybill.SiteRelay}})
	b.fire(3, time.Hour)
	r := b.relay(relay.Config{}) // nothing carries rows of site=relay
	n, err := r.Once(t.Context(), 0)
	if n != 3 || err == nil || !strings.Contains(err.Error(), "no backend for site=relay") {
		t.Errorf("Once: %d, %v; want 3 and an error that a backend is missing", n, err)
	}
}

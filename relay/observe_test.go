package relay_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/relay"
)

// A relay that waits out an outage goes round all the same, and says what is wrong.
func TestPassesAreObservedThroughOutages(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {Lane: "mail"}})
	b.fire(3, time.Hour)
	errStore := errors.New("the store is away")
	b.fault.On("ClaimLapsed", fault.Hook{Before: func(context.Context) error { return errStore }})
	b.queue.answers(down)

	var mu sync.Mutex
	var all []waybill.Observation
	count := func(is func(waybill.Observation) bool) (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, seen := range all {
			if is(seen) {
				n++
			}
		}
		return n
	}
	run(t, b.relay(relay.Config{Lane: "mail", Poll: 20 * time.Millisecond, Observer: func(seen waybill.Observation) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, seen)
	}}))
	poll.Until(t, "a pass that failed", func() bool {
		return count(func(o waybill.Observation) bool {
			return o.Kind == waybill.ObservedPass && o.Lane == "mail" && errors.Is(o.Err, errStore)
		}) > 0
	})
	b.fault.On("ClaimLapsed", fault.Hook{})
	poll.Until(t, "a queue that is not well", func() bool {
		return count(func(o waybill.Observation) bool {
			return o.Kind == waybill.ObservedEnqueue && o.Lane == "mail" && o.Site == waybill.SiteTask && o.Count == 0 && o.Err != nil
		}) > 0
	})
	b.queue.answers(nil)
	poll.Until(t, "three messages in the queue", func() bool {
		return count(func(o waybill.Observation) bool {
			return o.Kind == waybill.ObservedPass && o.Err == nil && o.Count > 0 && o.Elapsed > 0
		}) > 0 && len(b.queue.ids()) >= 3
	})
}

package e2e

import (
	"fmt"
	"testing"
	"time"
)

// While 5,000 deliveries flow, relays are killed between claim and enqueue, in
// the middle of an enqueue and after it; workers are killed in mid-run, between
// run and ack, and anywhere; and Redis loses everything. All of it is owed still,
// so all of it settles, and nothing succeeds twice.
func TestNothingIsLostOrDoneTwiceWhateverDies(t *testing.T) {
	const orders = 2500
	s := newShop(t, 3*time.Second, refuseEveryTenth)
	relay := &member{t: t, args: s.args("relay"), hooks: []string{
		"claimed:3=kill", "halfway:6=kill", "claimed:9=kill", "enqueued:6=kill", "claimed:6=kill",
	}}
	workers := []*member{
		{t: t, args: s.args("worker"), hooks: []string{"running:150=kill", "ran:200=kill", "running:300=kill", "acked:200=kill"}},
		{t: t, args: s.args("worker"), hooks: []string{"ran:300=kill"}},
	}
	steps := []step{
		{0.15, workers[1].kill},
		{0.30, relay.kill},
		{0.50, func() { s.redis.Kill(); s.redis.Start() }},
		{0.65, workers[0].kill},
		{0.80, workers[1].kill},
	}
	s.keep(orders, 0, 90*time.Second, append(workers, relay), func() {
		for len(steps) > 0 && float64(s.succeeded()) >= steps[0].share*2*orders {
			steps[0].do()
			steps = steps[1:]
		}
	})
	s.checkBooks(orders)
	repeated := s.checkLetters(orders)
	kills := workers[0].kills + workers[1].kills
	t.Logf("%d relays and %d workers were killed; %d letters came more than once", relay.kills, kills, repeated)
	if len(steps)+len(relay.hooks)+len(workers[0].hooks)+len(workers[1].hooks) > 0 {
		t.Errorf("not every fault was reached: %d steps; %v; %v; %v", len(steps), relay.hooks, workers[0].hooks, workers[1].hooks)
	}
}

// step is something that happens when this share of the deliveries has settled.
type step struct {
	share float64
	do    func()
}

// keep places the orders over some time, or as fast as they are delivered if that
// is slower, and keeps the fleet up, with faults in between, until every delivery
// is settled.
func (s *shop) keep(orders int, over, limit time.Duration, fleet []*member, faults func()) {
	s.t.Helper()
	firing := start(s.t, testappBin, s.args("fire", "-orders", fmt.Sprint(orders), "-over", over.String(), "-ahead", "500")...)
	await(s.t, limit, "every delivery is settled", func() (bool, string) {
		for _, m := range fleet {
			m.tend()
		}
		faults()
		return s.allSucceeded(2 * orders)
	})
	if code := firing.wait(patience); code != 0 {
		s.t.Errorf("firing ended with exit code %d", code)
	}
}

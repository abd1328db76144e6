//go:build soak

package e2e

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The same for minutes: 50,000 deliveries under leases of 30 s, something
// killed at random every few seconds, and Redis now and then.
func TestSoakNothingIsLostOrDoneTwice(t *testing.T) {
	const orders = 25_000
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	s := newShop(t, 30*time.Second, refuseEveryTenth)
	fleet := []*member{
		{t: t, args: s.args("relay")}, {t: t, args: s.args("relay")},
		{t: t, args: s.args("worker")}, {t: t, args: s.args("worker")}, {t: t, args: s.args("worker")},
	}
	hooks := [][]string{
		{"claimed:2=kill", "claimed:30=kill", "halfway:40=kill", "enqueued:50=kill"},
		{"running:100=kill", "running:2000=kill", "ran:1500=kill", "acked:1000=kill"},
	}
	stop := time.Now().Add(4 * time.Minute)
	next, restarts := time.Now(), 0
	s.keep(orders, 3*time.Minute, 15*time.Minute, fleet, func() {
		if now := time.Now(); now.Before(next) || now.After(stop) {
			return
		}
		next = time.Now().Add(2*time.Second + time.Duration(random.Int64N(int64(4*time.Second))))
		if random.IntN(8) == 0 {
			restarts++
			s.redis.Kill()
			s.redis.Start()
			return
		}
		m := fleet[random.IntN(len(fleet))]
		if random.IntN(2) == 0 { // the next one dies at a point of its own choice
			of := hooks[0]
			if m.args[0] == "worker" {
				of = hooks[1]
			}
			m.hooks = append(m.hooks, of[random.IntN(len(of))])
		}
		m.kill()
	})
	s.checkBooks(orders)
	repeated, kills := s.checkLetters(orders), 0
	for _, m := range fleet {
		kills += m.kills
	}
	t.Logf("%d processes were killed, redis lost everything %d times; %d letters came more than once", kills, restarts, repeated)
}

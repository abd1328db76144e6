//go:build soak

package e2e

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"
)

// soaks are the queues that processes are killed over, and for how long.
var soaks = []struct {
	name, backend string
	lasts         time.Duration
}{
	{"asynq", "redis", 10 * time.Minute},
	{"river", "river", 4 * time.Minute},
	{"rabbitmq", "amqp", 4 * time.Minute},
}

// Four relays and four workers, and about every second one of them, whichever, is
// killed and started again, under load. Trap 5, and the reference's measure of a
// kill test: what is repeated is what was running in a worker that was killed, and
// of receivers in the outcome's transaction nothing is.
func TestSoakKilledAndStartedAgain(t *testing.T) {
	for _, soak := range soaks {
		t.Run(soak.name, func(t *testing.T) {
			random, seed := seeded()
			s := newTeam(t, soak.backend, 10*time.Second)
			places := s.fleet(4)
			load := s.load(20, 1000, soak.lasts)
			relays, workers := 0, 0
			for end := time.Now().Add(soak.lasts); time.Now().Before(end); {
				time.Sleep(500*time.Millisecond + time.Duration(random.Int64N(int64(time.Second))))
				for _, p := range places {
					p.alive()
				}
				p := anyOf(random, places)
				p.kill()
				p.start()
				if strings.HasPrefix(p.name, "relay") {
					relays++
				} else {
					workers++
				}
			}
			deliveries := load.settle(places, 5*time.Minute)
			killed, repeated := s.checkRuns(deliveries)
			t.Logf("%s, seed %d: %d deliveries in %s; %d relays and %d workers were killed, and %d runs with them; %d side effects were repeated, %d leases lapsed",
				soak.name, seed, deliveries, soak.lasts, relays, workers, killed, repeated, s.lapses())
			if repeated > killed {
				t.Errorf("%d side effects were repeated by %d killed runs", repeated, killed)
			}
			if relays == 0 || workers == 0 || killed == 0 {
				t.Errorf("nothing was killed: %d relays, %d workers, %d runs", relays, workers, killed)
			}
		})
	}
}

// The same fleet, told to stop one after the other instead: then nothing lapses and
// nothing is repeated at all.
func TestSoakRollingRestarts(t *testing.T) {
	for _, soak := range soaks {
		t.Run(soak.name, func(t *testing.T) {
			s := newTeam(t, soak.backend, 5*time.Second)
			s.env = []string{"WAYBILL_LOG_LEVEL=info"}
			places := s.fleet(2)
			const lasts = 3 * time.Minute
			load := s.load(20, 200, lasts)
			restarts := 0
			for end := time.Now().Add(lasts); time.Now().Before(end); restarts++ {
				p := places[restarts%len(places)]
				p.awaitWork(load)
				stopped(t, p.run)
				p.start()
				time.Sleep(time.Second)
			}
			deliveries := load.settle(places, time.Minute)
			_, repeated := s.checkRuns(deliveries)
			lapses := s.lapses()
			t.Logf("%s: %d deliveries, %d restarts", soak.name, deliveries, restarts)
			if repeated+lapses > 0 {
				t.Errorf("%d side effects were repeated and %d leases lapsed, want none", repeated, lapses)
			}
			s.none("a delivery that was begun twice", `SELECT id, receiver, starts FROM waybill.delivery WHERE starts <> 1`)
			for _, p := range places {
				p.run.signal(syscall.SIGTERM)
			}
			for _, p := range places {
				p.run.wait(patience)
			}
		})
	}
}

func seeded() (*rand.Rand, uint64) {
	seed := uint64(time.Now().UnixNano())
	return rand.New(rand.NewPCG(seed, 0)), seed
}

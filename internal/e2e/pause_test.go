package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// throttle is a destination whose answers to /crm a test gives itself, while it is
// busy. Everything else is welcome.
type throttle struct {
	*httptest.Server
	waiting chan chan string // what comes in, to be answered with a Retry-After

	mu    sync.Mutex
	busy  bool
	calls map[string]int // of /crm, by idempotency key
	total int
}

func newThrottle(t *testing.T) *throttle {
	s := &throttle{busy: true, waiting: make(chan chan string, 1000), calls: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *throttle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/crm" {
		return
	}
	s.mu.Lock()
	busy := s.busy
	s.calls[r.Header.Get("Idempotency-Key")]++
	s.total++
	s.mu.Unlock()
	if !busy {
		return
	}
	answer := make(chan string, 1)
	s.waiting <- answer
	select {
	case retryAfter := <-answer:
		w.Header().Set("Retry-After", retryAfter)
		w.WriteHeader(http.StatusTooManyRequests)
	case <-r.Context().Done():
	}
}

func (s *throttle) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

func (s *throttle) idle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
}

// above returns the deliveries that came more than so many times.
func (s *throttle) above(times int) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.calls {
		if n > times {
			ids = append(ids, id)
		}
	}
	return ids
}

const twoLanes = `
receivers:
  - key: crm.notify
    event: '*'
    lane: crm
    lease: 60s
    give_up_after: 24h
    http: {url: %[1]s/crm}
  - key: audit
    event: '*'
    http: {url: %[1]s/audit}
`

// lane is a lane of `bridge lanes --json`.
type lane struct {
	Lane  string
	Owed  int
	Pause *struct {
		LeftSeconds *float64 `json:"left_seconds"`
		By, Reason  string
	}
}

func (d *deployment) lane(name string) lane {
	d.t.Helper()
	var all []lane
	text := d.run(bridgeBin, "lanes", "--json").succeed()
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		d.t.Fatalf("bridge lanes --json: %v: %s", err, text)
	}
	for _, l := range all {
		if l.Lane == name {
			return l
		}
	}
	d.t.Fatalf("there is no lane %s: %s", name, text)
	return lane{}
}

// One 429 with Retry-After stops every relay of the lane, and the worker, for as long
// as it asks for; a second one that asks for longer prolongs that, and one that asks
// for less does not shorten it. Another lane goes on. When the lane goes on, nothing
// is lost, and no start was counted for what waited (traps 14, 18, 24, 26 and 27).
func TestOneThrottledAnswerStopsItsLane(t *testing.T) {
	t.Parallel()
	const more = 200
	s := newThrottle(t)
	d := deploy(t, fmt.Sprintf(twoLanes, s.URL))
	d.run(bridgeBin, "migrate").succeed()
	relays := []*process{
		d.run(bridgeBin, "relay", "--lane", "crm", "--poll", "100ms"),
		d.run(bridgeBin, "relay", "--lane", "crm", "--poll", "100ms"),
		d.run(bridgeBin, "relay", "--poll", "100ms"),
	}
	d.run(workerBin, "--slots", "5")

	d.fire(3)
	var calls []chan string
	for range 3 { // they run at the same time, and are answered one after the other
		select {
		case call := <-s.waiting:
			calls = append(calls, call)
		case <-time.After(patience):
			t.Fatalf("%d calls of three came in", len(calls))
		}
	}
	paused := func(seconds float64) {
		t.Helper()
		await(t, patience, fmt.Sprintf("a pause of %.0f s", seconds), func() (bool, string) {
			pause := d.lane("crm").Pause
			ok := pause != nil && pause.LeftSeconds != nil && *pause.LeftSeconds > seconds-90 && *pause.LeftSeconds <= seconds
			return ok, fmt.Sprintf("%+v", pause)
		})
	}
	calls[0] <- "600"
	paused(600)
	calls[1] <- "1200"
	paused(1200)
	calls[2] <- "300"
	await(t, patience, "every deferral is recorded", func() (bool, string) {
		return d.count(`SELECT count(*) FROM waybill.delivery WHERE last_error <> ''`) == 3, d.statuses()
	})
	time.Sleep(200 * time.Millisecond) // the pause comes after the outcome
	paused(1200)

	d.fire(more)
	await(t, patience, "the other lane goes on", func() (bool, string) {
		return d.count(`SELECT count(*) FROM waybill.delivery WHERE receiver = 'audit' AND status = 'succeeded'`) == more+3, d.statuses()
	})
	for i, relay := range relays[:2] {
		await(t, patience, fmt.Sprintf("relay %d knows of the pause", i), func() (bool, string) {
			return strings.Count(relay.err.String(), "lane is paused") == 1, relay.err.String()
		})
	}
	if n := s.count(); n != 3 {
		t.Errorf("%d calls of the destination that throttles, want the three from before the pause", n)
	}
	if n := d.count(`SELECT sum(starts + attempts) FROM waybill.delivery WHERE receiver = 'crm.notify'`); n != 0 {
		t.Errorf("%d starts and attempts of the lane are counted, want none", n)
	}
	await(t, patience, "what was handed off is given back", func() (bool, string) {
		return d.count(`SELECT count(*) FROM waybill.delivery WHERE receiver = 'crm.notify' AND handed_off_at IS NOT NULL AND status = 'claimed'`) == 0, d.statuses()
	})

	s.idle()
	d.run(bridgeBin, "resume", "crm").succeed()
	await(t, patience, "the lane goes on", func() (bool, string) {
		return d.count(`SELECT count(*) FROM waybill.delivery WHERE receiver = 'crm.notify' AND status = 'succeeded'`) == more, d.statuses()
	})
	d.exec(`UPDATE waybill.delivery SET available_at = now() WHERE status = 'failed'`) // no test waits for ten minutes
	await(t, patience, "every delivery is settled", func() (bool, string) {
		return d.count(`SELECT count(*) FROM waybill.delivery WHERE status <> 'succeeded'`) == 0, d.statuses()
	})
	d.none("a delivery whose counts are not those of one run", `SELECT id, attempts, starts FROM waybill.delivery WHERE attempts <> 1 OR starts <> 1`)
	if n := s.count(); n != more+6 || len(s.above(2)) > 0 {
		t.Errorf("%d calls, want one for each delivery and one more for each deferral; more than that: %v", n, s.above(2))
	}
	for _, relay := range relays[:2] {
		if strings.Count(relay.err.String(), "lane goes on") != 1 {
			t.Errorf("the relay does not say once that its lane goes on: %s", relay.err.String())
		}
	}
}

// An operator pauses and resumes a lane under load, again and again. Nothing runs
// meanwhile, nothing is lost, every delivery is made once, and no start is counted but
// that of its run.
func TestOperatorPausesUnderLoad(t *testing.T) {
	t.Parallel()
	const rounds, each = 4, 150
	s := newThrottle(t)
	s.idle()
	d := deploy(t, fmt.Sprintf(twoLanes, s.URL))
	d.run(bridgeBin, "migrate").succeed()
	for range 2 {
		d.run(bridgeBin, "relay", "--lane", "crm", "--poll", "100ms", "--batch-size", "20")
		d.run(workerBin, "--slots", "5")
	}
	d.run(bridgeBin, "relay")
	for range rounds {
		before := s.count()
		d.fire(each)
		await(t, patience, "some of it is delivered", func() (bool, string) { return s.count() > before, d.statuses() })
		d.run(bridgeBin, "pause", "crm", "--reason", "a drill").succeed()
		await(t, patience, "runs that had begun are over", func() (bool, string) {
			return d.count(`SELECT count(*) FROM waybill.delivery WHERE receiver = 'crm.notify' AND status = 'claimed' AND taken_at IS NOT NULL`) == 0, d.statuses()
		})
		quiet := s.count()
		d.fire(10)
		time.Sleep(300 * time.Millisecond) // some polls
		if n := s.count(); n != quiet {
			t.Errorf("%d calls while the lane was paused", n-quiet)
		}
		d.run(bridgeBin, "resume", "crm").succeed()
	}
	await(t, patience, "every delivery is settled", func() (bool, string) {
		return d.count(`SELECT count(*) FROM waybill.delivery WHERE status <> 'succeeded'`) == 0, d.statuses()
	})
	d.none("a delivery that was not run exactly once", `SELECT id, attempts, starts FROM waybill.delivery WHERE attempts <> 1 OR starts <> 1`)
	if n := s.count(); n != rounds*(each+10) || len(s.above(1)) > 0 {
		t.Errorf("%d calls, want %d; more than once: %v", n, rounds*(each+10), s.above(1))
	}
}

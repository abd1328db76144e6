package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/services"
)

// stopCase is a process that is told to stop while something it rests on is in a
// bad state.
type stopCase struct {
	program string // relay or worker
	backend string // asynq, rabbitmq or river
	busy    bool   // in mid-work, or idle
	state   string // what is broken, and how
	// within is how long docs/operations.md says that the stop takes, after the
	// drain if that is needed.
	within time.Duration
}

// The states.
const (
	well            = "all-well"
	databaseRefuses = "database-refuses" // connections are reset, and no new one is accepted
	databaseSilent  = "database-silent"  // connections are accepted, and nothing is answered
	queueRefuses    = "queue-refuses"
	queueSilent     = "queue-silent"
)

// stopCases are the table of docs/operations.md.
var stopCases = []stopCase{
	{"relay", "asynq", false, well, time.Second},
	{"relay", "asynq", true, well, time.Second},
	{"relay", "asynq", false, databaseRefuses, time.Second},
	{"relay", "asynq", true, databaseRefuses, time.Second},
	{"relay", "asynq", false, databaseSilent, 21 * time.Second},
	{"relay", "asynq", true, databaseSilent, 21 * time.Second},
	{"relay", "asynq", true, queueRefuses, time.Second},
	{"relay", "asynq", true, queueSilent, 13 * time.Second},
	{"relay", "rabbitmq", true, queueSilent, 13 * time.Second},
	{"relay", "river", true, queueSilent, 13 * time.Second},
	{"worker", "asynq", false, well, 2 * time.Second},
	{"worker", "asynq", true, well, 2 * time.Second},
	{"worker", "asynq", true, databaseRefuses, 2 * time.Second},
	{"worker", "asynq", false, databaseSilent, 5 * time.Second},
	{"worker", "asynq", true, databaseSilent, 5 * time.Second},
	{"worker", "asynq", true, queueRefuses, 2 * time.Second},
	{"worker", "asynq", false, queueSilent, 9 * time.Second},
	{"worker", "asynq", true, queueSilent, 9 * time.Second},
	{"worker", "rabbitmq", true, queueSilent, 5 * time.Second},
	{"worker", "river", true, queueSilent, 21 * time.Second},
}

// lane is the case's own.
func (c stopCase) lane() string {
	work := "idle"
	if c.busy {
		work = "busy"
	}
	return strings.Join([]string{c.program, c.backend, work, c.state}, "-")
}

const (
	stopDrain = time.Second // of the workers here
	// slack is for a machine with other things to do. The bounds are promises, and
	// what breaks one is a wait for something that does not come.
	slack = 5 * time.Second
)

// How long a stop takes, whatever is down, and what it leaves behind. Traps 41 to
// 44: the errors of a database that went away, and the silence of one that does not
// answer, end no process and keep none, not in its wait for the next try either.
// All of them stop at the same time: most of it is waiting.
func TestStopIsBoundedWhateverIsDown(t *testing.T) {
	t.Parallel()
	shared := newStops(t)
	all := make([]*stop, len(stopCases))
	for i, c := range stopCases {
		all[i] = &stop{stops: shared, c: c}
		all[i].start()
	}
	for _, s := range all {
		up(t, s.process)
	}
	shared.fireWork("relay.work", 400)
	for _, s := range all {
		s.awaitWork()
		s.breakIt()
	}
	for _, s := range all {
		s.noticed()
	}
	time.Sleep(500 * time.Millisecond) // so that each asks what is silent, and waits for an answer
	for _, s := range all {
		if s.c.state != well { // that one was told in the middle of its work
			s.tell()
		}
	}
	for _, s := range all {
		t.Run(s.c.lane(), s.check)
	}
}

// stops is what the cases share: a database, a queue of each kind, and a destination
// that never answers.
type stops struct {
	*deployment
	queues map[string]string // URLs, by backend
	asked  sync.Map          // lanes whose receiver was begun
}

func newStops(t *testing.T) *stops {
	t.Helper()
	s := &stops{}
	hang := make(chan struct{})
	sink := newSink(t, func(r *request) int {
		s.asked.Store(strings.TrimPrefix(r.path, "/"), true)
		<-hang
		return 200
	})
	t.Cleanup(func() { close(hang) }) // the sink's end waits for its answers
	var receivers strings.Builder
	receivers.WriteString("receivers:\n")
	handOff := map[string][]string{} // lanes to be handed off for a worker, by backend
	for _, c := range stopCases {
		event := "never"
		if c.busy {
			event = c.program + ".work"
		}
		if c.busy && c.program == "worker" {
			handOff[c.backend] = append(handOff[c.backend], c.lane())
		}
		fmt.Fprintf(&receivers, "  - {key: %[1]s, event: %[2]s, lane: %[1]s, lease: 60s, http: {url: %[3]s/%[1]s}}\n", c.lane(), event, sink.URL)
	}
	s.deployment = deploy(t, receivers.String())
	s.queues = map[string]string{"asynq": s.backend, "rabbitmq": services.RabbitMQ(t), "river": "river+" + s.url}
	s.run(bridgeBin, "migrate").succeed()
	s.run(bridgeBin, "migrate", "--backend", s.queues["river"]).succeed()
	s.fireWork("worker.work", 15)
	for backend, lanes := range handOff {
		s.run(bridgeBin, "relay", "--once", "--backend", s.queues[backend], "--lane", strings.Join(lanes, ",")).succeed()
	}
	return s
}

// fireWork fires so many events of that name.
func (s *stops) fireWork(name string, n int) {
	s.t.Helper()
	s.run(bridgeBin, "fire", "--file", s.file("work.jsonl", strings.Repeat(fmt.Sprintf("{\"name\":%q,\"payload\":{}}\n", name), n))).succeed()
}

// stop is one process, which sees its database and its queue through proxies.
type stop struct {
	*stops
	c               stopCase
	database, queue *fault.Proxy
	process         *process
	took            chan time.Duration // the stop, once it is over
}

func (s *stop) start() {
	s.t.Helper()
	var store, queue string
	s.database, store = through(s.t, s.url)
	s.queue, queue = through(s.t, s.queues[s.c.backend])
	env := []string{"WAYBILL_STORE=" + store, "WAYBILL_BACKEND=" + queue, "WAYBILL_RECEIVERS=" + s.receivers, "WAYBILL_LANE=" + s.c.lane()}
	if s.c.program == "relay" {
		args := []string{"relay", "--batch-size", "1"}
		if s.c.busy { // nobody takes what it hands off, and it is not to wait for that
			args = append(args, "--window", "off")
		}
		s.process = startIn(s.t, env, bridgeBin, args...)
	} else {
		s.process = startIn(s.t, env, workerBin, "--drain", stopDrain.String())
	}
}

// awaitWork waits until a process that is to be busy is.
func (s *stop) awaitWork() {
	s.t.Helper()
	switch {
	case !s.c.busy:
	case s.c.program == "relay":
		await(s.t, patience, "the relay hands off", func() (bool, string) { return s.rows(`status = 'claimed'`) > 5, "" })
	default:
		await(s.t, patience, "receivers run", func() (bool, string) {
			_, asked := s.asked.Load(s.c.lane())
			return asked && s.rows(`taken_at IS NOT NULL`) == 10, s.statuses()
		})
	}
}

// tell tells the process to stop, and has a look at when it does.
func (s *stop) tell() {
	s.t.Helper()
	began := time.Now()
	s.process.signal(syscall.SIGTERM)
	s.took = make(chan time.Duration, 1)
	go func() {
		<-s.process.ended
		s.took <- time.Since(began)
	}()
}

// check waits for the end of the process.
func (s *stop) check(t *testing.T) {
	drain := time.Duration(0)
	if s.c.program == "worker" && s.c.busy {
		drain = stopDrain
	}
	code := s.process.wait(patience)
	took := <-s.took
	t.Logf("stopped in %s, %s of it the drain", took.Round(10*time.Millisecond), drain)
	if code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if took > drain+s.c.within+slack {
		t.Errorf("it took longer than %s, and the drain of %s", s.c.within, drain)
	}
	s.checkRows(t)
}

// through returns a proxy to the server of a URL, and the URL by way of it.
func through(t *testing.T, text string) (*fault.Proxy, string) {
	t.Helper()
	prefix, server := "", text
	if kind, other, ok := strings.Cut(text, "+"); ok {
		prefix, server = kind+"+", other
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := fault.NewProxy(t, u.Host)
	u.Host = proxy.Addr()
	return proxy, prefix + u.String()
}

// rows counts rows of the case's lane.
func (s *stop) rows(where string) int {
	s.t.Helper()
	return s.count(`SELECT count(*) FROM waybill.delivery WHERE receiver = $1 AND (`+where+`)`, s.c.lane())
}

// breakIt breaks what the case says, or else tells the process to stop: it has work.
func (s *stop) breakIt() {
	s.t.Helper()
	switch s.c.state {
	case well:
		s.tell()
	case databaseRefuses:
		s.database.Cut()
	case databaseSilent:
		s.database.Hold()
	case queueRefuses:
		s.queue.Cut()
	case queueSilent:
		s.queue.Hold()
	}
}

// noticed waits until a relay whose database or queue refuses waits for its next try.
func (s *stop) noticed() {
	s.t.Helper()
	says, times := "", 0
	switch {
	case s.c.program == "relay" && s.c.state == databaseRefuses:
		says, times = "pass did not succeed", 3 // it waits 3 to 4 s for the fourth
	case s.c.program == "relay" && s.c.state == queueRefuses:
		says, times = "queue is not well", 1
	}
	await(s.t, patience, s.process.name+" notices", func() (bool, string) {
		said := s.process.err.String()
		return strings.Count(said, says) >= times, said
	})
}

// checkRows looks at what the stop left behind.
func (s *stop) checkRows(t *testing.T) {
	t.Helper()
	if n := s.rows(`attempts <> 0`); n > 0 {
		t.Errorf("%d rows have spent an attempt on the stop", n)
	}
	if !s.c.busy {
		return
	}
	if s.c.program == "relay" {
		if s.c.state != well && s.rows(`status = 'pending'`) == 0 {
			t.Error("nothing is left to hand off: the relay was not stopped in mid-work")
		}
		return
	}
	if s.c.state == databaseRefuses || s.c.state == databaseSilent {
		return // they wait for their leases
	}
	// Whatever the worker had begun is given back as if it had never been.
	if n := s.rows(`taken_at IS NOT NULL OR starts <> 0`); n > 0 {
		t.Errorf("%d rows are still with the worker, or count a start", n)
	}
	// The next relay has them at once and before all others. Traps 12 and 13.
	const back = `handed_off_at IS NULL AND status = 'claimed'`
	given := s.rows(back)
	if given < 10 {
		t.Errorf("%d rows are given back, want the 10 that ran at least", given)
	}
	s.run(bridgeBin, "relay", "--once", "--limit", fmt.Sprint(given), "--backend", s.queues[s.c.backend], "--lane", s.c.lane()).succeed()
	if n := s.rows(back); n > 0 {
		t.Errorf("%d of %d rows that were given back are not the first to be claimed", n, given)
	}
}

// Package backendtest is the suite that every queue passes. It asks two things of
// one: that it keeps the ports' promises (waybill.TaskBackend, waybill.Consumer),
// and that whatever it does beside them, losing, repeating, delaying, reordering,
// stopping, crashing, harms no row: each runs once and none stays behind.
//
// It needs no store: rows are kept in memory, by the same rules.
package backendtest

import (
	"log/slog"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// Backend is a queue under test.
type Backend interface {
	waybill.TaskBackend
	waybill.Consumer
	waybill.BacklogReader
}

// Harness is one queue, empty, that belongs to one case, with the means to trouble
// it. A nil function is something that cannot happen to this kind of queue; the
// cases about it are then not run.
type Harness struct {
	Backend Backend
	// FIFO: with one handler call at a time, messages come in the order in
	// which they were enqueued.
	FIFO bool
	// Redelivers: a message comes again, though nobody enqueued it again, when
	// its handler returned an error or its consumer's process died.
	Redelivers bool
	// Large is the size of the large batch. Defaults to 5000.
	Large int

	// Inject puts a body into the queue that is no message, in every other
	// respect like one.
	Inject func(t *testing.T, body []byte)
	// Refuse makes the queue refuse messages of that delivery, until healed.
	Refuse func(t *testing.T, deliveryID int64) (heal func())
	// Crash lets another process receive n messages, and kills it in the midst
	// of handling them. It returns the messages. See CrashConsumer.
	Crash func(t *testing.T, n int) []waybill.Message
	// Hang lets the server take connections and bytes and answer nothing, until
	// released.
	Hang func(t *testing.T) (release func())
	// Down cuts every connection and lets nobody connect, until up again. The
	// queue keeps its messages.
	Down func(t *testing.T) (up func())
	// Restart kills the server and starts it again, empty. It is called only in
	// a case that was announced with Setup.Restarts.
	Restart func(t *testing.T)
}

// Setup says what a case wants of its queue.
type Setup struct {
	// Log gets what the backend logs.
	Log *slog.Logger
	// Restarts: the case restarts the server, so it must be nobody else's.
	Restarts bool
}

// lease is the lease of every row in the suite. Nothing waits for it: the rows'
// clock is moved on instead.
const lease = time.Minute

// Run runs the suite. open returns an empty queue for each case, with the same
// functions set each time, and cleans up by t.Cleanup.
func Run(t *testing.T, open func(t *testing.T, setup Setup) Harness) {
	var able Harness
	t.Run("open", func(t *testing.T) {
		able = open(t, Setup{Log: slog.New(new(logCounter)), Restarts: true})
	})
	if able.Backend == nil {
		return // and open has said why
	}
	for _, c := range cases {
		if c.needs != nil && !c.needs(able) {
			continue // it cannot happen to this queue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			log := new(logCounter)
			h := open(t, Setup{Log: slog.New(log), Restarts: c.restarts})
			if h.Large == 0 {
				h.Large = 5000
			}
			c.run(t, newScene(t, h, log))
		})
	}
}

type testCase struct {
	name     string
	run      func(t *testing.T, s *scene)
	needs    func(h Harness) bool // nil: every queue is asked
	restarts bool
}

var cases = []testCase{
	{name: "healthy", run: healthy},
	// Trap 39: a moment that the queue cannot carry.
	{name: "verbatim", run: verbatim},
	{name: "empty batch", run: emptyBatch},
	{name: "large batch", run: largeBatch},
	{name: "order", run: order, needs: func(h Harness) bool { return h.FIFO }},
	{name: "many senders and consumers", run: many},
	{name: "shared by consumers", run: shared},
	{name: "bounded", run: bounded, needs: isBounded},
	{name: "backlog", run: backlog},
	{name: "backlog of a hung server", run: backlogHung, needs: func(h Harness) bool { return h.Hang != nil }},
	{name: "backlog without a server", run: backlogDown, needs: func(h Harness) bool { return h.Down != nil }},

	{name: "duplicate", run: duplicate},
	// Trap 40: a message that nobody can read any more is still owed.
	{name: "lost", run: lost},
	{name: "reordered", run: reordered},
	{name: "late", run: late},
	{name: "answer lost", run: answerLost},
	// Trap 40: messages of another release end the consumer.
	{name: "garbage", run: garbage, needs: func(h Harness) bool { return h.Inject != nil }},
	{name: "one refused", run: oneRefused, needs: func(h Harness) bool { return h.Refuse != nil }},

	{name: "handler error", run: handlerError},
	{name: "concurrency", run: concurrency},
	{name: "stop while running", run: stopWhileRunning},
	{name: "stopped before it began", run: stoppedBefore},
	// Trap 38: a kind of message that only the process that sends it knows.
	{name: "crash", run: crash, needs: func(h Harness) bool { return h.Crash != nil }},

	{name: "sender on a hung server", run: senderHung, needs: func(h Harness) bool { return h.Hang != nil }},
	{name: "consumer on a hung server", run: consumerHung, needs: func(h Harness) bool { return h.Hang != nil }},
	{name: "sender without a server", run: senderDown, needs: func(h Harness) bool { return h.Down != nil }},
	{name: "consumer without a server", run: consumerDown, needs: func(h Harness) bool { return h.Down != nil }},
	{name: "outage", run: outage, needs: func(h Harness) bool { return h.Down != nil }},
	{name: "restart", run: restart, needs: func(h Harness) bool { return h.Restart != nil }, restarts: true},
}

package relay_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/relay"
)

// Nobody takes anything: ten rows go out, and the others wait in the database.
func TestBacklogWaitsInTheDatabase(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Minute))
	b.fire(200, time.Second)
	l := newLine()
	b.windowed(l, relay.Config{})
	poll.Until(t, "ten rows in the queue", func() bool { return l.depth() == 10 })
	time.Sleep(500 * time.Millisecond) // ten polls
	if sent, _ := l.counts(); sent != 10 {
		t.Errorf("%d rows were handed off, want 10", sent)
	}
	b.crew(l, 1, 0)
	poll.Until(t, "all settled", func() bool {
		return all(b.rows(), func(r row) bool { return r.Status == waybill.Succeeded })
	})
}

// A burst that takes many leases goes through a short queue, oldest first, without one
// stale copy and with three writes a row.
func TestBurstOutlastsItsLease(t *testing.T) {
	t.Parallel()
	const n = 600
	b := newBench(t, mail(time.Second))
	b.fire(n, time.Second)
	l := newLine()
	var order []int64
	b.windowed(&ordered{line: l, ids: &order}, relay.Config{})
	c := b.crew(l, 4, 15*time.Millisecond) // some 250 a second at the most
	b.settles(c, n, time.Minute)
	b.noStale(t, c)
	sent, deepest := l.counts()
	if deepest > 150 {
		t.Errorf("%d rows waited at the most, want half a lease of the drain at most", deepest)
	}
	if back := b.fault.Count("GiveBack"); sent != n || back != 0 {
		t.Errorf("%d messages for %d rows, and %d times rows were given back: want a claim for each", sent, n, back)
	}
	if !slices.IsSorted(order) {
		t.Error("rows were not handed off in their order")
	}
	if !all(b.rows(), func(r row) bool { return r.Starts == 1 && r.Attempts == 1 }) {
		t.Error("a row was run twice")
	}
}

// ordered is a line that remembers the order of what it was handed.
type ordered struct {
	*line
	ids *[]int64
}

func (o *ordered) Enqueue(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	for _, m := range messages {
		*o.ids = append(*o.ids, m.DeliveryID)
	}
	return o.line.Enqueue(ctx, messages)
}

// The drain is what workers settle, also where a row runs for longer than it waits.
func TestDrainIsMeasured(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Minute))
	b.fire(400, time.Second)
	l := newLine()
	var drain atomic.Int64
	b.windowed(l, relay.Config{Observer: func(seen waybill.Observation) {
		if seen.Kind == waybill.ObservedWindow {
			drain.Store(int64(seen.Window.Drain))
		}
	}})
	c := b.crew(l, 20, 300*time.Millisecond)
	begun := time.Now()
	b.settles(c, 300, time.Minute)
	measured := 300 / time.Since(begun).Seconds()
	if got := float64(drain.Load()); got < measured/2 || got > 2*measured {
		t.Errorf("the relay knows of %.0f rows a second, %.0f were settled", got, measured)
	}
}

// Without the window the same burst makes stale copies: it is what the window is for.
func TestWindowOffClaimsAllThatIsDue(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Second))
	b.fire(600, time.Second)
	l := newLine()
	b.windowed(l, relay.Config{WindowOff: true})
	poll.Until(t, "all in the queue", func() bool { return l.depth() >= 600 })
	c := b.crew(l, 2, 5*time.Millisecond)
	poll.Until(t, "a stale copy", func() bool { _, stale := c.counts(); return stale > 0 })
	if b.fault.Count("Progress") != 0 {
		t.Error("a relay without a window looked how far its queue has come")
	}
}

// What lapsed in the queue is left alone as long as the queue has not come to it: its
// own message takes it.
func TestLapsedRowIsKeptForItsMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(4*time.Second))
	b.fire(5, time.Second)
	l := newLine()
	b.windowed(l, relay.Config{})
	poll.Until(t, "all in the queue", func() bool { return l.depth() == 5 })
	b.store.SetClockOffset(time.Minute)
	time.Sleep(500 * time.Millisecond) // ten sweeps
	if sent, _ := l.counts(); sent != 5 {
		t.Fatalf("%d messages were sent, want 5: a copy of a row whose message waits is stale", sent)
	}
	c := b.crew(l, 1, 0)
	b.settles(c, 5, 5*time.Second)
	b.noStale(t, c)
}

// Messages that the queue has lost are overtaken by later ones, and their rows are
// claimed anew once their leases are over.
func TestOvertakenRowIsClaimedAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(2*time.Second))
	b.fire(3, time.Second)
	l := newLine()
	b.windowed(l, relay.Config{WindowMargin: 50 * time.Millisecond})
	poll.Until(t, "all in the queue", func() bool { return l.depth() == 3 })
	l.lose()
	time.Sleep(100 * time.Millisecond)
	c := b.crew(l, 1, 0)
	begun := time.Now()
	b.fire(1, 0)
	b.settles(c, 4, 20*time.Second)
	b.noStale(t, c)
	if took := time.Since(begun); took < 1500*time.Millisecond {
		t.Errorf("all settled after %s: rows were claimed before their leases were over", took)
	}
}

// Nothing overtakes the rows of an idle lane: a probe finds out that workers are there.
func TestProbe(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Second))
	b.fire(8, time.Second)
	l := newLine()
	var probes atomic.Int64
	b.windowed(l, relay.Config{Observer: func(seen waybill.Observation) {
		if seen.Kind == waybill.ObservedProbe {
			probes.Add(int64(seen.Count))
		}
	}})
	poll.Until(t, "all in the queue", func() bool { return l.depth() == 8 })
	l.lose()
	c := b.crew(l, 1, 0)
	b.settles(c, 8, 15*time.Second)
	b.noStale(t, c)
	if n := probes.Load(); n < 1 || n > 2 {
		t.Errorf("%d probes, want one", n)
	}
}

// While no worker is there, probes are all that is sent: one, and the next after a
// gap that doubles.
func TestWorkersAreAway(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Second))
	b.fire(60, time.Second)
	l := newLine()
	var stalled atomic.Bool
	b.windowed(l, relay.Config{Observer: func(seen waybill.Observation) {
		if seen.Kind == waybill.ObservedWindow {
			stalled.Store(seen.Window.Stalled)
		}
	}})
	poll.Until(t, "a lane that stands still", stalled.Load)
	time.Sleep(4 * time.Second) // four leases
	sent, _ := l.counts()
	if sent < 11 || sent > 15 {
		t.Errorf("%d messages were sent to nobody, want the first window and a probe a lease", sent)
	}
	c := b.crew(l, 2, time.Millisecond)
	b.settles(c, 60, 15*time.Second)
	poll.Until(t, "a lane that goes on", func() bool { return !stalled.Load() })
	if _, stale := c.counts(); stale > sent-10 {
		t.Errorf("%d stale copies, want one for a probe of a row whose message waited, %d", stale, sent-10)
	}
}

// One event on an idle lane, and its relay dies between claim and enqueue: its row is
// settled within the lease, the gap before a probe, and a few polls.
func TestRelayDiesBeforeItEnqueues(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	for _, c := range []struct {
		name   string
		queue  func(l *line) waybill.TaskBackend
		within time.Duration
	}{
		{"a queue that tells nothing", func(l *line) waybill.TaskBackend { return l }, 2*lease + 5*time.Second},
		{"a queue that says it is empty", func(l *line) waybill.TaskBackend { return toldLine{l} }, lease + 5*time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, mail(lease))
			b.fire(1, time.Second)
			b.claim(1, lease+lease/10)
			begun := time.Now()
			l := newLine()
			crew := b.crew(l, 1, 0)
			b.windowed(c.queue(l), relay.Config{})
			b.settles(crew, 1, c.within)
			if took := time.Since(begun); took < lease {
				t.Errorf("settled after %s, before its lease was over", took)
			}
		})
	}
}

// What a relay gives back as it stops is claimed at the next pass of another.
func TestPeerClaimsWhatWasGivenBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Minute))
	b.fire(4, time.Second)
	held := b.claim(4, time.Minute)
	l := newLine()
	c := b.crew(l, 1, 0)
	b.windowed(l, relay.Config{Poll: 100 * time.Millisecond})
	back := make([]waybill.GiveBack, len(held))
	for i, m := range held {
		back[i] = waybill.GiveBack{Message: m}
	}
	if _, err := b.store.GiveBack(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	b.settles(c, 4, 2*time.Second)
}

// A queue that has lost all it had says so: the relay does not wait for its leases
// before it goes on.
func TestQueueThatLostItsMessagesHasRoom(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Minute))
	b.fire(100, time.Second)
	l := newLine()
	b.windowed(toldLine{l}, relay.Config{})
	poll.Until(t, "ten rows in the queue", func() bool { return l.depth() == 10 })
	l.lose()
	c := b.crew(l, 2, 0)
	b.settles(c, 90, 10*time.Second)
	b.noStale(t, c)
}

// In a queue without an order nothing is overtaken: what lapses there is claimed anew
// at once, and leaves the window.
func TestUnorderedQueue(t *testing.T) {
	t.Parallel()
	for _, unsorted := range []bool{false, true} {
		b := newBench(t, mail(time.Second))
		b.fire(10, time.Second)
		l := newLine()
		l.unsorted = unsorted
		b.windowed(l, relay.Config{})
		c := b.crew(l, 1, 250*time.Millisecond)
		b.settles(c, 10, 20*time.Second)
		if sent, _ := l.counts(); unsorted != (sent > 10) {
			t.Errorf("unordered %t: %d messages for ten rows, most of which lapsed in the queue", unsorted, sent)
		}
	}
}

// Several relays share a lane without a word.
func TestRelaysShareALane(t *testing.T) {
	t.Parallel()
	const n = 400
	b := newBench(t, mail(time.Second))
	b.fire(n, time.Second)
	l := newLine()
	for range 3 {
		b.windowed(l, relay.Config{})
	}
	c := b.crew(l, 4, 10*time.Millisecond)
	b.settles(c, n, time.Minute)
	b.noStale(t, c)
	if _, deepest := l.counts(); deepest > 3*150 {
		t.Errorf("%d rows waited at the most", deepest)
	}
}

// That nobody took anything while the database was away tells nothing of the workers.
func TestOutageDoesNotStall(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Minute))
	b.fire(200, time.Second)
	l := newLine()
	var stalled, passed atomic.Bool
	b.windowed(l, relay.Config{Observer: func(seen waybill.Observation) {
		if seen.Window.Stalled {
			stalled.Store(true)
		}
		if seen.Kind == waybill.ObservedPass && seen.Err == nil {
			passed.Store(true)
		}
	}})
	c := b.crew(l, 1, 15*time.Millisecond) // the drain is known after eight rows and half a second
	b.settles(c, 60, 10*time.Second)
	c.stop()
	time.Sleep(300 * time.Millisecond) // all that was taken is seen
	b.fault.On("Pauses", fault.Hook{Before: func(context.Context) error { return errDown }})
	time.Sleep(2 * time.Second) // longer than the lane may stand still
	passed.Store(false)
	b.fault.On("Pauses", fault.Hook{})
	poll.Until(t, "a pass that succeeds", passed.Load)
	b.settles(b.crew(l, 1, 0), 100, 10*time.Second)
	if stalled.Load() {
		t.Error("the relay took an outage for workers that are away")
	}
}

// A small window is topped up at once, however long the poll.
func TestTopUpDoesNotWaitForThePoll(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Minute))
	b.fire(300, time.Second)
	l := newLine()
	b.windowed(l, relay.Config{Poll: 4 * time.Second, PollOnly: true, WakeInterval: -1})
	b.settles(b.crew(l, 4, 0), 300, 12*time.Second)
}

// The frontier does not outlive a clock that is set back: rows would all count as
// overtaken.
func TestClockIsSetBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Minute))
	b.fire(20, time.Second)
	b.store.SetClockOffset(time.Hour)
	l := newLine()
	b.windowed(l, relay.Config{})
	c := b.crew(l, 1, 0)
	b.settles(c, 20, 10*time.Second)
	c.stop()
	b.store.SetClockOffset(0)
	b.fire(200, time.Second)
	poll.Until(t, "a window in the queue", func() bool { return l.depth() >= 2 })
	time.Sleep(2 * time.Second)
	if n := l.depth(); n > 100 {
		t.Errorf("%d rows in the queue: the window has no bound", n)
	}
	b.settles(b.crew(l, 1, 0), 200, 20*time.Second)
}

// Once claims all that is due, whatever the window, and whatever was done before.
func TestOnceHasNoWindow(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Minute))
	b.fire(50, time.Second)
	r := newWindowed(t, relay.Config{Store: b.fault, Backend: newLine(), Passes: 1})
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	once(t, r, 0, 40)
	b.fire(30, time.Second)
	once(t, r, 25, 25)
}

func TestWindowHorizon(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"slow": {Lease: time.Hour}, "fast": {Lease: 20 * time.Second}, "mail": {Lane: "mail", Lease: time.Minute}, "deep": {Lane: "deep", Lease: time.Second}})
	b.reg.AddLane("deep", waybill.LaneOptions{HandOffLease: 8 * time.Minute})
	_, err := relay.New(relay.Config{Store: b.store, Backend: newLine(), WindowHorizon: 6 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "window horizon 6s of lane default is more than a quarter of its shortest hand-off lease, 20s: lower it to 5s") {
		t.Errorf("a horizon of more than a quarter of the lease: %v", err)
	}
	for _, config := range []relay.Config{
		{WindowHorizon: 5 * time.Second}, {WindowHorizon: 15 * time.Second, Lane: "mail"}, {WindowHorizon: 2 * time.Minute, Lane: "deep"}, {WindowHorizon: 6 * time.Second, WindowOff: true},
	} {
		config.Store, config.Backend = b.store, newLine()
		newWindowed(t, config)
	}
}

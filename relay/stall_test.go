package relay_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/relay"
)

// lossyLine loses its first message, and does not know whether it has it.
type lossyLine struct {
	*line
	lost atomic.Bool
}

func (l *lossyLine) Enqueue(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	if l.lost.CompareAndSwap(false, true) {
		return waybill.AllResults(len(messages), waybill.EnqueueUnknown, errDown), errDown
	}
	return l.line.Enqueue(ctx, messages)
}

// On an idle lane nothing else is there to find out that the queue is well again: the
// row itself is what tries it, once its lease is over.
func TestAnswerIsLostOnAnIdleLane(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Second))
	b.fire(1, time.Second)
	l := newLine()
	b.windowed(&lossyLine{line: l}, relay.Config{})
	b.settles(b.crew(l, 1, 0), 1, 10*time.Second)
}

// Slots that are busy for longer than the lease are no workers that are away: as long
// as the queue has messages, those find out.
func TestLongRunsAreNoStall(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"mail": {Lane: "deep", Lease: time.Minute}})
	b.reg.AddLane("deep", waybill.LaneOptions{HandOffLease: 500 * time.Millisecond})
	b.fire(5, time.Second)
	l := newLine()
	b.windowed(toldLine{l}, relay.Config{Lane: "deep"})
	c := b.crew(l, 1, 1500*time.Millisecond)
	b.settles(c, 3, 30*time.Second)
	b.noStale(t, c)
	if sent, _ := l.counts(); sent != 5 {
		t.Errorf("%d messages were sent for five rows", sent)
	}
}

// slowLine takes so long for each batch.
type slowLine struct {
	*line
	takes time.Duration
}

func (l slowLine) Enqueue(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	time.Sleep(l.takes)
	return l.line.Enqueue(ctx, messages)
}

// A queue that is slow to answer is no relay that was away: the window grows all the
// same.
func TestSlowQueueHasAWindow(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Minute))
	b.fire(150, time.Second)
	l := newLine()
	b.windowed(slowLine{l, 1100 * time.Millisecond}, relay.Config{Poll: 100 * time.Millisecond})
	b.settles(b.crew(l, 4, 0), 150, 12*time.Second) // ten rows a batch would be 16 s
}

// A run that began before the clock was set back tells nothing of how far the queue
// has come.
func TestClockIsSetBackUnderARun(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Minute))
	b.fire(1, time.Second)
	b.store.SetClockOffset(time.Hour)
	l := newLine()
	b.windowed(l, relay.Config{})
	m, _ := l.next(t.Context())
	if taken, err := waybill.Take(t.Context(), b.store, "long", []waybill.Message{m}); err != nil || taken[0].Refused != "" {
		t.Fatalf("take: %+v, %v", taken, err)
	}
	b.store.SetClockOffset(0)
	b.fire(400, time.Second)
	poll.Until(t, "a window in the queue", func() bool { return l.depth() >= 2 })
	time.Sleep(3 * time.Second)
	if n := l.depth(); n > 100 {
		t.Errorf("%d rows in the queue: the window has no bound", n)
	}
}

// droppingLine takes messages and has none.
type droppingLine struct{ *line }

func (l droppingLine) Enqueue(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	results, err := l.line.Enqueue(ctx, messages)
	l.lose()
	return results, err
}

func (l droppingLine) Backlog(context.Context) (waybill.Backlog, error) {
	return waybill.Backlog{Ready: waybill.Known[int64](0)}, nil
}

// A queue that keeps nothing, and says so, gets probes and no more.
func TestQueueThatKeepsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Minute))
	b.fire(100, time.Second)
	l := newLine()
	b.windowed(droppingLine{l}, relay.Config{})
	poll.Until(t, "the first window", func() bool { sent, _ := l.counts(); return sent >= 10 })
	time.Sleep(8 * time.Second)
	if sent, _ := l.counts(); sent > 15 {
		t.Errorf("%d messages in eight seconds, want the first window, and probes after 1, 2, 4 and 8 s", sent)
	}
}

// A lane whose rows wait and are not taken is looked at four times a second.
func TestQuietLaneIsLookedAtSeldom(t *testing.T) {
	t.Parallel()
	b := newBench(t, mail(time.Minute))
	b.fire(100, time.Second)
	l := newLine()
	b.windowed(l, relay.Config{})
	poll.Until(t, "the first window", func() bool { return l.depth() == 10 })
	time.Sleep(1100 * time.Millisecond)
	before := b.fault.Count("Look")
	time.Sleep(2 * time.Second)
	if n := b.fault.Count("Look") - before; n > 10 {
		t.Errorf("%d looks in two seconds, want eight", n)
	}
}

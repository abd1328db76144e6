package outages

import (
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/fault"
)

// bed is what a queue rests on: a server, behind a proxy that relay and worker go
// through.
type bed struct {
	// store is the URL of the store's database, as relay and worker reach it.
	store string
	// direct is the same database for everybody else.
	direct string
	// open opens one end of the queue.
	open  func() queue
	proxy *fault.Proxy
	// restart kills the server and starts it again.
	restart func()
	// lose takes all that the queue holds.
	lose func()
}

// trial is how hard a bed is tried.
type trial struct {
	deliveries int // in each fault
	lease      time.Duration
	outage     time.Duration // how long a connection is cut or held
	recovery   time.Duration // the longest that all may take to settle after it; 0 is not measured
	windowOff  bool          // the queue holds all that is due
}

// faults are what happens to the server, in turn. Each returns when it is over.
var faults = []struct {
	name string
	hits func(b *bed, outage time.Duration)
}{
	{"cut connections", func(b *bed, outage time.Duration) {
		b.proxy.Cut()
		time.Sleep(outage)
		b.proxy.Restore()
	}},
	{"blackhole", func(b *bed, outage time.Duration) {
		b.proxy.Hold()
		time.Sleep(outage)
		b.proxy.Restore()
	}},
	// Not at first: RabbitMQ 3.10 forgets a quorum queue that was declared seconds
	// before it is killed, and cannot be told to make it anew.
	{"restart", func(b *bed, _ time.Duration) { b.restart() }},
	{"loss of all data", func(b *bed, _ time.Duration) { b.lose() }},
}

// through lets deliveries flow through every fault. At each, some of them are
// running, some wait in the queue, and some are fired while it lasts.
func (tr trial) through(t *testing.T, b *bed) {
	t.Helper()
	l := newLine(t, b.direct, tr.lease)
	l.windowOff = tr.windowOff
	l.relay(b.store, b.open())
	l.work(b.store, b.open())
	l.fire(slots)
	l.settled() // both ends are up
	for _, f := range faults {
		l.gate.close()
		l.fire(tr.deliveries / 2)
		waiting := int64(5)
		if tr.windowOff {
			waiting = int64(min(tr.deliveries/4, 100))
		}
		l.await("messages wait in the queue", func() (bool, string) {
			n, err := l.waiting()
			return err == nil && n >= waiting, "too few do"
		})
		over := make(chan struct{})
		go func() {
			defer close(over)
			f.hits(b, tr.outage)
		}()
		l.gate.open()
		l.fire(tr.deliveries / 2)
		<-over
		healed := time.Now()
		l.settled()
		took := time.Since(healed)
		t.Logf("%-16s  all settled %6.2f s after it was over", f.name, took.Seconds())
		if tr.recovery > 0 && took > tr.recovery {
			t.Errorf("that is more than %s", tr.recovery)
		}
		if t.Failed() {
			return
		}
	}
}

// deep is the trial with a queue that holds all that is due.
func (tr trial) deep() trial {
	tr.windowOff = true
	return tr
}

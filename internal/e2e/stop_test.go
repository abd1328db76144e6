package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/fault"
)

// The standalone binaries are told to stop in the middle of everything, and
// again others take over: each ends well and at once, no delivery waits for the
// lease of a minute, and none has spent an attempt or a start on it.
func TestStopUnderLoadLosesNoTimeAndNoAttempt(t *testing.T) {
	t.Parallel()
	s := newSink(t, func(*request) int {
		time.Sleep(20 * time.Millisecond) // a destination that takes its time
		return 200
	})
	d := deploy(t, fmt.Sprintf(`
receivers:
  - key: archive
    event: '*'
    lease: 60s
    http: {url: %s}
`, s.URL))
	d.run(bridgeBin, "migrate").succeed()

	const rounds, burst = 3, 500
	began := time.Now()
	for round := 1; round <= rounds; round++ {
		worker, relay := d.run(workerBin), d.run(bridgeBin, "relay", "--batch-size", "10")
		d.fire(burst)
		await(t, patience, "the relay is at work", func() (bool, string) {
			// Rows may be claimed since the last round.
			begun := strings.Contains(relay.err.String(), "relay started")
			return begun && d.count(`SELECT count(*) FROM waybill.delivery WHERE status = 'claimed'`) > 0, d.statuses()
		})
		stopped(t, relay)
		relay = d.run(bridgeBin, "relay")
		await(t, patience, "the worker is at work", func() (bool, string) {
			return d.count(`SELECT count(*) FROM waybill.delivery WHERE status = 'succeeded'`) >= (round-1)*burst+burst/5, d.statuses()
		})
		stopped(t, worker)
		stopped(t, relay)
		t.Logf("round %d: %s", round, d.statuses())
	}
	d.run(bridgeBin, "relay")
	d.run(workerBin)
	await(t, patience, "every delivery is settled", func() (bool, string) {
		return d.count(`SELECT count(*) FROM waybill.delivery WHERE status = 'succeeded'`) == rounds*burst, d.statuses()
	})
	if took := time.Since(began); took > 45*time.Second {
		t.Errorf("it took %s: deliveries have waited for a lease", took)
	}
	d.none("a delivery that was not run exactly once", `SELECT id, attempts, starts FROM waybill.delivery WHERE attempts <> 1 OR starts <> 1`)
	if n := len(s.received()); n != rounds*burst {
		t.Errorf("%d requests arrived, want %d", n, rounds*burst)
	}
}

// stopped tells a process to stop, which it does well and in bounded time.
func stopped(t *testing.T, p *process) {
	t.Helper()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	if code := p.wait(10 * time.Second); code != 0 {
		t.Errorf("%s ended with exit code %d", p.name, code)
	}
	t.Logf("%s stopped in %s", p.name, time.Since(began).Round(time.Millisecond))
}

// A second signal ends a process that still waits for something at once, with 128
// and the number of the signal.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	asked, hang := make(chan struct{}, 100), make(chan struct{})
	s := newSink(t, func(*request) int {
		asked <- struct{}{}
		<-hang
		return 200
	})
	t.Cleanup(func() { close(hang) }) // the sink's end waits for its answers
	d := deploy(t, fmt.Sprintf("receivers:\n  - {key: archive, event: '*', http: {url: %s}}\n", s.URL))
	d.run(bridgeBin, "migrate").succeed()
	d.fire(1)

	// The worker waits for a destination.
	worker := d.run(workerBin)
	proxy := fault.NewProxy(t, d.redis.Addr)
	d.backend = strings.Replace(d.redis.URL, d.redis.Addr, proxy.Addr(), 1)
	relay := d.run(bridgeBin, "relay")
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatalf("the destination was not asked: %s", d.statuses())
	}
	// The relay waits for Redis.
	proxy.Hold()
	d.fire(1)
	await(t, patience, "the relay has claimed the second delivery", func() (bool, string) {
		return d.count(`SELECT count(*) FROM waybill.delivery WHERE status = 'claimed'`) == 2, d.statuses()
	})
	endsAtOnce(t, relay, syscall.SIGTERM, 143)
	endsAtOnce(t, worker, syscall.SIGINT, 130)
}

// endsAtOnce sends a signal again and again: the first may not have been seen
// when the second comes, and two of a kind that nobody has seen are one.
func endsAtOnce(t *testing.T, p *process, s syscall.Signal, code int) {
	t.Helper()
	began := time.Now()
	await(t, patience, "the process ends", func() (bool, string) {
		_ = p.cmd.Process.Signal(s) // it may have ended since
		return !p.running(), "it runs"
	})
	if got := p.wait(time.Second); got != code {
		t.Errorf("%s ended with exit code %d, want %d", p.name, got, code)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("%s ended after %s, want at once", p.name, took)
	}
}

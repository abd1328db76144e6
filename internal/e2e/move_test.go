package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/services"
)

// A lane moves from Asynq to River and on to RabbitMQ, by the steps of
// docs/backends.md, while deliveries flow. Leases are too long to help: whatever a
// move lost would be late, and a row that was handed off twice would show it.
func TestALaneMovesFromBackendToBackend(t *testing.T) {
	t.Parallel()
	const burst = 300
	s := newSink(t, func(*request) int {
		time.Sleep(20 * time.Millisecond) // so that there is a backlog
		return 200
	})
	d := deploy(t, fmt.Sprintf(`
receivers:
  - key: archive
    event: '*'
    lease: 1h
    http: {url: %s}
`, s.URL))
	backends := []string{d.backend, "river:", services.RabbitMQ(t)}
	d.run(bridgeBin, "migrate").succeed()
	relay, worker := d.run(bridgeBin, "relay", "--batch-size", "20"), d.run(workerBin)
	for i, backend := range backends[1:] {
		d.fire(burst)
		await(t, patience, "deliveries flow", func() (bool, string) {
			return d.count(`SELECT count(*) FROM waybill.delivery WHERE status = 'succeeded'`) >= i*burst+burst/10, d.statuses()
		})
		d.run(bridgeBin, "migrate", "--backend", backend).succeed() // or has nothing to do
		next := d.run(workerBin, "--backend", backend)
		stopped(t, relay)
		relay = d.run(bridgeBin, "relay", "--backend", backend)
		d.fire(burst)
		await(t, patience, "nothing is left in the old queue", func() (bool, string) {
			ready, running := d.backlog(backends[i])
			return ready+running == 0, fmt.Sprintf("%d ready, %d running", ready, running)
		})
		stopped(t, worker)
		worker = next
	}
	await(t, patience, "every delivery is settled", func() (bool, string) {
		return d.count(`SELECT count(*) FROM waybill.delivery WHERE status = 'succeeded'`) == 4*burst, d.statuses()
	})
	d.none("a delivery that was not run exactly once", `SELECT id, attempts, starts FROM waybill.delivery WHERE attempts <> 1 OR starts <> 1`)
	if n := len(s.received()); n != 4*burst {
		t.Errorf("%d requests arrived, want %d", n, 4*burst)
	}
	if n := d.count(`SELECT count(*) FROM waybill_river.river_job WHERE state = 'completed'`); n == 0 {
		t.Error("nothing went through River")
	}
}

// backlog is what `bridge status` says that a backend's queue of the default lane
// has in it.
func (d *deployment) backlog(backend string) (ready, running int64) {
	d.t.Helper()
	text := d.run(bridgeBin, "status", "--json", "--backend", backend).succeed()
	var report struct {
		Lanes []struct {
			Queue struct{ Ready, Running *int64 }
		}
	}
	if err := json.Unmarshal([]byte(text), &report); err != nil || len(report.Lanes) != 1 {
		d.t.Fatalf("bridge status --json: %v: %s", err, text)
	}
	queue := report.Lanes[0].Queue
	if queue.Ready == nil || queue.Running == nil {
		return -1, -1 // not known now
	}
	return *queue.Ready, *queue.Running
}

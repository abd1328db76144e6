package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Events go from a file through the standalone binaries to three http receivers,
// one of them for every event, and each body that arrives is, byte for byte, the
// payload that stood in the file.
func TestWebhooksArriveAsTheyWereFired(t *testing.T) {
	t.Parallel()
	file, events := eventsFile(t)
	s := newSink(t, always(200))
	d := deploy(t, fmt.Sprintf(`
receivers:
  - key: archive
    event: '*'
    http: {url: %[1]s/archive}
  - key: ci.build
    event: github.push
    lane: github
    http: {url: %[1]s/build}
  - key: triage
    event: github.issues.opened
    lane: github
    http: {url: %[1]s/triage}
`, s.URL))
	d.run(bridgeBin, "migrate").succeed()
	d.run(bridgeBin, "fire", "--file", file).succeed()

	want := map[string]int{} // how often each path is to get each event
	for _, e := range events {
		want[mark("/archive", e.Name, e.Payload)]++
		switch e.Name {
		case "github.push":
			want[mark("/build", e.Name, e.Payload)]++
		case "github.issues.opened":
			want[mark("/triage", e.Name, e.Payload)]++
		}
	}
	deliveries := 0
	for _, n := range want {
		deliveries += n
	}
	if owed := d.status().Owed; owed != deliveries {
		t.Fatalf("%d deliveries are owed, want %d", owed, deliveries)
	}

	d.run(bridgeBin, "relay")
	d.run(bridgeBin, "relay", "--lane", "github")
	d.run(workerBin)
	await(t, patience, "every delivery is settled", func() (bool, string) {
		return d.count(`SELECT count(*) FROM waybill.delivery WHERE settled_at IS NULL`) == 0, d.statuses()
	})
	if diff := cmp.Diff(status{Succeeded: deliveries}, d.status()); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}

	got, ids := map[string]int{}, map[string]int{}
	for _, r := range s.received() {
		got[mark(r.path, r.header.Get("Waybill-Event"), r.body)]++
		ids[r.id()]++
		checkHeaders(t, r)
	}
	for key := range want {
		if got[key] != want[key] {
			t.Errorf("arrived %d times, want %d: %.300s", got[key], want[key], key)
		}
	}
	for key := range got {
		if want[key] == 0 {
			t.Errorf("arrived and was never fired so: %.300s", key)
		}
	}
	for id, n := range ids {
		if n != 1 {
			t.Errorf("delivery %s arrived %d times", id, n)
		}
	}
	if len(ids) != deliveries {
		t.Errorf("%d deliveries arrived, want %d", len(ids), deliveries)
	}
}

// mark tells requests apart by all that matters of them.
func mark(path, name string, payload []byte) string { return path + " " + name + " " + string(payload) }

func checkHeaders(t *testing.T, r *request) {
	t.Helper()
	want := map[string]string{
		"Content-Type": "application/json", "Waybill-Attempt": "1", "Waybill-Delivery-Id": r.id(),
		"Waybill-Receiver": map[string]string{"/archive": "archive", "/build": "ci.build", "/triage": "triage"}[r.path],
	}
	for name, value := range want {
		if got := r.header.Get(name); got != value {
			t.Errorf("delivery %q: header %s is %q, want %q", r.id(), name, got, value)
		}
	}
	if r.id() == "" || r.header.Get("Waybill-Event-Id") == "" {
		t.Errorf("a request without the id of its delivery or its event: %v", r.header)
	}
}

// The same events through the demo, which runs everything in one process.
func TestDemoBalancesOnEventsFromAFile(t *testing.T) {
	t.Parallel()
	file, events := eventsFile(t)
	// A SQLite in Go and a Redis in Go, both under the race detector, are slow.
	text := start(t, bridgeBin, "demo", "--json", "--file", file).succeedWithin(5 * patience)
	var ledger struct {
		Events, Deliveries, Succeeded, Dead, Owed, Runs int
		DoubleRuns                                      *int `json:"double_runs"`
	}
	if err := json.Unmarshal([]byte(strings.TrimSpace(text)), &ledger); err != nil {
		t.Fatalf("bridge demo --json: %v: %s", err, text)
	}
	if ledger.Events != len(events) || ledger.Owed != 0 || ledger.Succeeded+ledger.Dead != ledger.Deliveries ||
		ledger.Deliveries < len(events) || ledger.Runs < ledger.Deliveries || ledger.DoubleRuns == nil {
		t.Errorf("the ledger of %d events does not balance: %s", len(events), text)
	}
}

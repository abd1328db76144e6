package ops_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/metrics"
	"github.com/waybill-go/waybill/ops"
)

// process is a relay or worker that has seen those things happen.
func process(t *testing.T, name string, config metrics.Config, seen ...waybill.Observation) ops.Process {
	t.Helper()
	config.Registry, config.Logger = registry(t), slog.New(slog.DiscardHandler)
	collector, err := metrics.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(collector.Close)
	for _, observation := range seen {
		collector.Observe(observation)
	}
	gatherer := prometheus.NewRegistry()
	gatherer.MustRegister(collector, collectors.NewGoCollector())
	return ops.Process{Admin: name, Metrics: func(context.Context) ([]byte, error) {
		families, err := gatherer.Gather()
		var text bytes.Buffer
		for _, family := range families {
			_, writeErr := expfmt.MetricFamilyToText(&text, family)
			err = errors.Join(err, writeErr)
		}
		return text.Bytes(), err
	}}
}

// says is a process that answers this text.
func says(name, text string) ops.Process {
	return ops.Process{Admin: name, Metrics: func(context.Context) ([]byte, error) { return []byte(text), nil }}
}

func window(w waybill.Window) waybill.Observation {
	return waybill.Observation{Kind: waybill.ObservedWindow, Lane: "mail", Site: waybill.SiteTask, Window: w}
}

func take(receiver string, after time.Duration) waybill.Observation {
	return waybill.Observation{Kind: waybill.ObservedTake, Receiver: receiver, Elapsed: after}
}

func refusal(receiver string, why waybill.Refusal, cost time.Duration) waybill.Observation {
	return waybill.Observation{Kind: waybill.ObservedRefusal, Receiver: receiver, Refusal: why, Elapsed: cost}
}

// crew are two relays of mail, one of the default lane, two workers, and one that is
// away.
func crew(t *testing.T) []ops.Process {
	relay := func(lane string) metrics.Config { return metrics.Config{Relays: []string{lane}} }
	worker := metrics.Config{Worker: true}
	return []ops.Process{
		process(t, "relay-1:9090", relay("mail"), window(waybill.Window{Size: 120, Waiting: 83, Drain: 11.5})),
		process(t, "relay-2:9090", relay("mail"), window(waybill.Window{Size: 4, Waiting: 4, Stalled: true}),
			waybill.Observation{Kind: waybill.ObservedProbe, Lane: "mail", Count: 1}),
		process(t, "relay-3:9090", relay(waybill.DefaultLane)),
		process(t, "worker-1:9090", worker, take("mail", 90*time.Millisecond), take("audit", 10*time.Hour),
			refusal("mail", waybill.RefusedReclaimed, 1500*time.Millisecond), refusal("audit", waybill.RefusedReclaimed, 0), refusal("", waybill.RefusedNoRow, time.Millisecond)),
		process(t, "worker-2:9090", worker, take("mail", 90*time.Millisecond),
			refusal("mail", waybill.RefusedReclaimed, time.Second), refusal("mail", waybill.RefusedTaken, 0)),
		{Admin: "gone:9090", Metrics: func(context.Context) ([]byte, error) { return nil, errors.New("nobody\x1b listens") }},
	}
}

// liveReport is a report of everything with what those processes tell.
func liveReport(t *testing.T, processes ...ops.Process) ops.Report {
	t.Helper()
	report, err := ops.Status(context.Background(), everything(), registry(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	report.SetLive(ops.AskProcesses(context.Background(), processes))
	return report
}

func text(t *testing.T, report ops.Report) string {
	t.Helper()
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestLiveTextOfSeveralProcesses(t *testing.T) {
	t.Parallel()
	_, got, _ := strings.Cut(text(t, liveReport(t, crew(t)...)), "  order.renamed to mail: 1\n")
	want := `
Asked relay-1:9090 (relay of mail), relay-2:9090 (relay of mail), relay-3:9090 (relay of default), worker-1:9090 (worker), worker-2:9090 (worker)
Could not ask gone:9090: nobody  listens
LANE     OWED  | relays:  WINDOW  WAITING  DRAIN/S  STALLED  PROBES  | workers:  TAKES  WAIT P50  WAIT P99  LEASE USED  HEADROOM
default     3  |            none        -        -        -       0  |               1   >1h0m0s   >1h0m0s       >200%      none
mail        8  |             124       87     11.5      yes       1  |               2     ~75ms    ~100ms         ~1%      ~99%
~ is about, over all takes since the workers started; 99 of 100 rows used no more of their lease in the queue than LEASE USED.

Stale copies, refused by their rows since the workers started:
LANE         REFUSED AS  COPIES  WORKER TIME
(not known)  no_row           1          1ms
default      reclaimed        1           0s
mail         reclaimed        2         2.5s
mail         taken            1           0s
  no_row: the rows are gone, or were never in this database. Give each database queues of its own with --backend, and delete settled rows only
  reclaimed in default: the lease lapsed while the message was in the queue. Take --window=off from the lane's relays, or raise the lane's handoff_lease, or add workers or slots
  reclaimed in mail: the lease lapsed while the message was in the queue. The lane has a window already: raise the lane's handoff_lease, or add workers or slots
  taken in mail: the queue brought a message twice, or a worker missed the answer to its take. A few come with each worker that is killed or cut off: let --drain cover the longest run, and look for lost connections in the logs
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// What nobody told has no column: a relay knows nothing of waits, and a worker nothing
// of windows.
func TestLiveTextOfOneKind(t *testing.T) {
	t.Parallel()
	all := crew(t)
	relay := text(t, liveReport(t, all[0]))
	if !strings.Contains(relay, "\nmail        8  |             120       83     11.5       no       0\n") || !strings.Contains(relay, "\ndefault     3  |               -        -        -        -       -\n") {
		t.Errorf("a relay alone: %s", relay)
	}
	young := text(t, liveReport(t, process(t, "a:1", metrics.Config{Relays: []string{"mail"}}, window(waybill.Window{Size: 10}))))
	if !strings.Contains(young, "10        0        ?       no       0\n") {
		t.Errorf("a relay that does not know the drain yet: %s", young)
	}
	worker := text(t, liveReport(t, process(t, "a:1", metrics.Config{Worker: true})))
	if !strings.Contains(worker, "| workers:") || strings.Contains(worker, "WINDOW") || !strings.HasSuffix(worker, "\nNo stale copies.\n") {
		t.Errorf("a worker alone: %s", worker)
	}
	nobody := text(t, liveReport(t, all[5]))
	if !strings.HasSuffix(nobody, "\n\nCould not ask gone:9090: nobody  listens\n") {
		t.Errorf("nobody: %s", nobody)
	}
}

// The keys are always there, and null is what nobody knows.
func TestLiveJSON(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		processes []ops.Process
		want      string
	}{
		"nobody": {[]ops.Process{{Admin: "a:1", Metrics: func(context.Context) ([]byte, error) { return nil, errDown }}}, `{` +
			`"processes":[{"admin":"a:1","relays":[],"worker":false,"error":"the database is down"}],"lanes":[` +
			`{"lane":"default","owed":3,"relays":0,"window":null,"window_waiting":null,"drain_per_second":null,"stalled":null,"probes":null,` +
			`"takes":null,"queue_wait_p50_seconds":null,"queue_wait_p99_seconds":null,"lease_used_p99":null,"lease_headroom":null},` +
			`{"lane":"mail","owed":8,"relays":0,"window":null,"window_waiting":null,"drain_per_second":null,"stalled":null,"probes":null,` +
			`"takes":null,"queue_wait_p50_seconds":null,"queue_wait_p99_seconds":null,"lease_used_p99":null,"lease_headroom":null}],` +
			`"stale_copies":null}`},
		"one of everything, and a lane that is not declared": {[]ops.Process{says("a:1", "waybill_passes_total{lane=\"mail\"} 7\nwaybill_window_rows{lane=\"mail\"} 9\n"+
			"waybill_window_waiting_rows{lane=\"mail\"} 2\nwaybill_drain_rows_per_second{lane=\"mail\"} 1.23456\nwaybill_stalled{lane=\"mail\"} 0\n"+
			"waybill_takes_total{lane=\"old\",receiver=\"x\"} 1\nwaybill_takes_total{lane=\"old\",receiver=\"y\"} 2\n"+
			"waybill_refusals_total{lane=\"mail\",refusal=\"paused\"} 0\nwaybill_refusals_total{refusal=\"unclear\"} 1\n")}, `{` +
			`"processes":[{"admin":"a:1","relays":["mail"],"worker":true,"error":null}],"lanes":[` +
			`{"lane":"default","owed":3,"relays":0,"window":null,"window_waiting":null,"drain_per_second":null,"stalled":null,"probes":null,` +
			`"takes":null,"queue_wait_p50_seconds":null,"queue_wait_p99_seconds":null,"lease_used_p99":null,"lease_headroom":null},` +
			`{"lane":"mail","owed":8,"relays":1,"window":9,"window_waiting":2,"drain_per_second":1.235,"stalled":false,"probes":null,` +
			`"takes":null,"queue_wait_p50_seconds":null,"queue_wait_p99_seconds":null,"lease_used_p99":null,"lease_headroom":null},` +
			`{"lane":"old","owed":null,"relays":0,"window":null,"window_waiting":null,"drain_per_second":null,"stalled":null,"probes":null,` +
			`"takes":3,"queue_wait_p50_seconds":null,"queue_wait_p99_seconds":null,"lease_used_p99":null,"lease_headroom":null}],` +
			`"stale_copies":[{"lane":"","refusal":"unclear","copies":1,"worker_seconds":null,"remedy":"the store did not answer when it was asked why. ` +
			`Look for what is wrong with the database in the workers' logs"},` +
			`{"lane":"mail","refusal":"paused","copies":0,"worker_seconds":null,"remedy":null}]}`},
	} {
		got, err := json.Marshal(liveReport(t, test.processes...).Live)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, string(got)); diff != "" {
			t.Errorf("%s: JSON (-want +got):\n%s", name, diff)
		}
	}
}

// An answer that makes no sense costs its own figures, and no more: the report can be
// written.
func TestLiveOfNonsense(t *testing.T) {
	t.Parallel()
	const relay = "waybill_passes_total{lane=\"mail\"} 1\n"
	for answer, failure := range map[string]string{
		"":                         "not those of a relay or worker",
		"go_goroutines 7\n":        "not those of a relay or worker",
		"<html><body>":             "cannot be read",
		relay + "waybill_stalled{": "cannot be read",
		relay + "waybill_window_rows{lane=\"mail\"} NaN\nwaybill_drain_rows_per_second{lane=\"mail\"} +Inf\nwaybill_probes_total{lane=\"mail\"} -3\nwaybill_window_waiting_rows{lane=\"mail\"} 1e300\n": "",
		relay + "# TYPE waybill_queue_wait_seconds histogram\nwaybill_queue_wait_seconds_bucket{lane=\"mail\",le=\"NaN\"} 7\nwaybill_queue_wait_seconds_count{lane=\"mail\"} 7\n":                       "",
		relay + "# TYPE waybill_queue_wait_seconds histogram\nwaybill_queue_wait_seconds_bucket{lane=\"mail\",le=\"+Inf\"} 7\nwaybill_queue_wait_seconds_count{lane=\"mail\"} 7\n":                      "",
		relay + "# TYPE waybill_queue_wait_seconds gauge\nwaybill_queue_wait_seconds{lane=\"mail\"} 7\n":                                                                                                "",
	} {
		report := liveReport(t, says("a:1", answer))
		if _, err := json.Marshal(report); err != nil {
			t.Errorf("answer %q: %v", answer, err)
		}
		text(t, report)
		got := report.Live.Processes[0].Error
		if failure == "" && got != nil || failure != "" && (got == nil || !strings.Contains(*got, failure)) {
			t.Errorf("answer %q: error %v, want %q", answer, got, failure)
		}
		for _, lane := range report.Live.Lanes {
			_, window := lane.Window.Value()
			_, waiting := lane.Waiting.Value()
			_, drain := lane.Drain.Value()
			_, probes := lane.Probes.Value()
			_, wait := lane.WaitP50.Value()
			if window || waiting || drain || probes || wait {
				t.Errorf("answer %q: known of lane %s: %+v", answer, lane.Lane, lane)
			}
		}
	}
}

func TestQuantilesAreAsPrometheusHasThem(t *testing.T) {
	t.Parallel()
	histogram := func(buckets ...string) string {
		lines := []string{`waybill_refusals_total{refusal="paused"} 0`, "# TYPE waybill_queue_wait_seconds histogram"}
		for _, bucket := range buckets {
			bound, count, _ := strings.Cut(bucket, ":")
			lines = append(lines, `waybill_queue_wait_seconds_bucket{lane="mail",le="`+bound+`"} `+count)
		}
		return strings.Join(lines, "\n") + "\n"
	}
	for _, test := range []struct {
		answers []string
		want    string // P50 and P99
	}{
		{[]string{histogram("1:10", "2:10", "+Inf:10")}, "0.5 0.99"},
		{[]string{histogram("1:0", "2:100", "+Inf:100")}, "1.5 1.99"},
		{[]string{histogram("1:50", "2:50", "4:100", "+Inf:100")}, "1 3.96"},
		{[]string{histogram("1:50", "2:50", "+Inf:100")}, "1 2"}, // beyond the last bound
		{[]string{histogram("1:0", "2:0", "+Inf:0")}, "unknown unknown"},
		{[]string{histogram("1:100", "2:100", "+Inf:100"), histogram("1:0", "2:100", "+Inf:100")}, "1 1.98"},
		{[]string{histogram("1:100", "2:100", "+Inf:100"), histogram("1:0", "3:100", "+Inf:100")}, "unknown unknown"}, // of two releases
		{[]string{histogram("1:100", "2:100", "+Inf:100"), `waybill_refusals_total{refusal="paused"} 0` + "\n"}, "0.5 0.99"},
	} {
		var processes []ops.Process
		for _, answer := range test.answers {
			processes = append(processes, says("a:1", answer))
		}
		for _, lane := range liveReport(t, processes...).Live.Lanes {
			if got := lane.WaitP50.String() + " " + lane.WaitP99.String(); lane.Lane == "mail" && got != test.want {
				t.Errorf("of %q: %s, want %s", test.answers, got, test.want)
			}
		}
	}
}

func TestAskingIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := ops.Process{Admin: "hung:9090", Metrics: func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		began := time.Now()
		live := ops.AskProcesses(context.Background(), []ops.Process{hangs, says("a:1", "waybill_passes_total{lane=\"mail\"} 1\n"), hangs})
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("asked for %s, want 5s", took)
		}
		if live.Processes[0].Error == nil || live.Processes[1].Error != nil || live.Processes[2].Error == nil || len(live.Lanes) != 1 {
			t.Errorf("live %+v, want the answer of the one that answers", live)
		}
	})
}

// A class that somebody adds needs a remedy, and no two kinds of trouble have the same.
func TestEveryRefusalHasARemedy(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../take.go")
	if err != nil {
		t.Fatal(err)
	}
	classes := regexp.MustCompile(`(?m)^\tRefused\w+ +Refusal = "(\w+)"`).FindAllSubmatch(source, -1)
	if len(classes) < 8 {
		t.Fatalf("found %d classes in take.go", len(classes))
	}
	for _, class := range append(classes, [][]byte{nil, []byte("new")}) {
		live := liveReport(t, process(t, "a:1", metrics.Config{Worker: true}, refusal("mail", waybill.Refusal(class[1]), time.Second))).Live
		for _, stale := range live.StaleCopies {
			known := stale.Remedy != nil && !strings.Contains(*stale.Remedy, "another release")
			if (stale.Copies > 0) != (stale.Remedy != nil) || stale.Copies > 0 && known != (string(class[1]) != "new") {
				t.Errorf("stale copies %+v, of class %s", stale, class[1])
			}
		}
	}
}

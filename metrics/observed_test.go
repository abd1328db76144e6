package metrics_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/metrics"
)

var twoReceivers = map[string]waybill.Options{"a": {Lane: "mail", Lease: time.Minute}, "b": {}}

// movements are, for every kind of observation, what moves by it.
var movements = map[waybill.ObservationKind][]struct {
	seen waybill.Observation
	want map[string]float64
}{
	waybill.ObservedPass: {
		{waybill.Observation{Lane: "mail", Count: 3}, map[string]float64{`waybill_passes_total{lane="mail"}`: 1}},
		{waybill.Observation{Lane: "mail", Err: errDown}, map[string]float64{
			`waybill_passes_total{lane="mail"}`: 1, `waybill_pass_errors_total{lane="mail"}`: 1,
		}},
	},
	waybill.ObservedPause: {
		{waybill.Observation{Lane: "mail"}, map[string]float64{`waybill_lane_paused{lane="mail"}`: 1}},
	},
	waybill.ObservedResume: {
		{waybill.Observation{Lane: "mail"}, map[string]float64{`waybill_lane_paused{lane="mail"}`: 0}},
	},
	waybill.ObservedListen: {
		{waybill.Observation{Lane: "mail"}, map[string]float64{`waybill_listening{lane="mail"}`: 1}},
		{waybill.Observation{Lane: "mail", Err: waybill.ErrDeaf}, map[string]float64{`waybill_listening{lane="mail"}`: 0}},
	},
	waybill.ObservedWake: {
		{waybill.Observation{Lane: "mail", Wake: waybill.WakeNotify}, map[string]float64{`waybill_wakes_total{by="notify",lane="mail"}`: 1}},
		{waybill.Observation{Lane: "mail", Wake: waybill.WakePoll}, map[string]float64{`waybill_wakes_total{by="poll",lane="mail"}`: 1}},
	},
	waybill.ObservedWindow: {
		{waybill.Observation{Lane: "mail", Site: waybill.SiteTask, Window: waybill.Window{Size: 4, Waiting: 4, Stalled: true}}, map[string]float64{
			`waybill_window_rows{lane="mail"}`: 4, `waybill_window_waiting_rows{lane="mail"}`: 4, `waybill_stalled{lane="mail"}`: 1,
		}},
		{waybill.Observation{Lane: "mail", Site: waybill.SiteTask, Window: waybill.Window{Size: 120, Waiting: 83, Drain: 11.5}}, map[string]float64{
			`waybill_window_rows{lane="mail"}`: 120, `waybill_window_waiting_rows{lane="mail"}`: 83,
			`waybill_drain_rows_per_second{lane="mail"}`: 11.5, `waybill_stalled{lane="mail"}`: 0,
		}},
	},
	waybill.ObservedProbe: {
		{waybill.Observation{Lane: "mail", Count: 1}, map[string]float64{`waybill_probes_total{lane="mail"}`: 1}},
	},
	waybill.ObservedClaim: {
		{waybill.Observation{Lane: "mail", Count: 3}, map[string]float64{`waybill_claims_total{lane="mail"}`: 3}},
	},
	waybill.ObservedEnqueue: {
		{waybill.Observation{Lane: "mail", Site: waybill.SiteTask, Count: 3}, map[string]float64{`waybill_enqueued_total{lane="mail",site="task"}`: 3}},
		{waybill.Observation{Lane: "mail", Site: waybill.SiteRelay, Err: errDown}, map[string]float64{
			`waybill_enqueued_total{lane="mail",site="relay"}`: 0, `waybill_enqueue_errors_total{lane="mail",site="relay"}`: 1,
		}},
	},
	waybill.ObservedGiveBack: {
		{waybill.Observation{Lane: "mail", Count: 3}, map[string]float64{`waybill_given_back_total{lane="mail"}`: 3}},
		{waybill.Observation{Count: 2}, map[string]float64{`waybill_given_back_total{lane=""}`: 2}},
	},
	waybill.ObservedTake: {
		{waybill.Observation{Receiver: "a", DeliveryID: 7, Elapsed: 30 * time.Second}, map[string]float64{
			`waybill_takes_total{lane="mail",receiver="a"}`: 1,
			`waybill_queue_wait_seconds_count{lane="mail"}`: 1, `waybill_queue_wait_seconds_sum{lane="mail"}`: 30,
			`waybill_lease_used_ratio_count{lane="mail"}`: 1, `waybill_lease_used_ratio_sum{lane="mail"}`: 0.5,
		}},
	},
	waybill.ObservedRefusal: {
		{waybill.Observation{DeliveryID: 7, Receiver: "a", Refusal: waybill.RefusedReclaimed, Elapsed: 50 * time.Millisecond}, map[string]float64{
			`waybill_refusals_total{lane="mail",refusal="reclaimed"}`: 1, `waybill_refusal_seconds_total{lane="mail",refusal="reclaimed"}`: 0.05,
		}},
		{waybill.Observation{DeliveryID: 7, Refusal: waybill.RefusedNoRow, Elapsed: time.Second}, map[string]float64{
			`waybill_refusals_total{lane="",refusal="no_row"}`: 1, `waybill_refusal_seconds_total{lane="",refusal="no_row"}`: 1,
		}},
		{waybill.Observation{DeliveryID: 7, Receiver: "gone", Refusal: waybill.RefusedReceiver}, map[string]float64{
			`waybill_refusals_total{lane="",refusal="unknown_receiver"}`: 1, `waybill_refusal_seconds_total{lane="",refusal="unknown_receiver"}`: 0,
		}},
	},
	waybill.ObservedRun: {
		{waybill.Observation{Receiver: "b", DeliveryID: 7, Elapsed: 2 * time.Second, Err: errDown}, map[string]float64{
			`waybill_run_seconds_count{lane="default",receiver="b"}`: 1, `waybill_run_seconds_sum{lane="default",receiver="b"}`: 2,
		}},
	},
	waybill.ObservedExtend: {
		{waybill.Observation{Receiver: "a", DeliveryID: 7}, map[string]float64{`waybill_lease_extensions_total{lane="mail",receiver="a"}`: 1}},
		{waybill.Observation{Receiver: "a", DeliveryID: 7, Err: errDown}, map[string]float64{`waybill_lease_extension_errors_total{lane="mail",receiver="a"}`: 1}},
	},
	waybill.ObservedLost: {
		{waybill.Observation{Receiver: "a", DeliveryID: 7}, map[string]float64{`waybill_leases_lost_total{lane="mail",receiver="a"}`: 1}},
	},
	waybill.ObservedAck: {
		{waybill.Observation{Receiver: "a", DeliveryID: 7, Status: waybill.Succeeded, Elapsed: 4 * time.Second}, map[string]float64{
			`waybill_acks_total{lane="mail",receiver="a",status="succeeded"}`: 1,
			`waybill_delivery_seconds_count{lane="mail"}`:                     1, `waybill_delivery_seconds_sum{lane="mail"}`: 4,
		}},
		{waybill.Observation{Receiver: "a", DeliveryID: 7, Status: waybill.Failed, Elapsed: time.Second, Err: errDown}, map[string]float64{
			`waybill_acks_total{lane="mail",receiver="a",status="failed"}`: 1,
		}},
		{waybill.Observation{Receiver: "a", Status: waybill.Failed, Deferred: true}, map[string]float64{
			`waybill_acks_total{lane="mail",receiver="a",status="deferred"}`: 1,
		}},
		{waybill.Observation{Receiver: "a", Status: waybill.Dead, Deferred: true}, map[string]float64{
			`waybill_acks_total{lane="mail",receiver="a",status="dead"}`: 1,
		}},
		{waybill.Observation{Lane: "mail", Receiver: "gone", Status: waybill.Orphaned}, map[string]float64{
			`waybill_acks_total{lane="mail",receiver="(undeclared)",status="orphaned"}`: 1,
		}},
	},
}

func TestEveryObservationMovesItsMetrics(t *testing.T) {
	t.Parallel()
	for kind, cases := range movements {
		for i, test := range cases {
			t.Run(fmt.Sprint(kind, i), func(t *testing.T) {
				t.Parallel()
				c := newCollector(t, metrics.Config{Registry: declare(t, twoReceivers)})
				test.seen.Kind = kind
				c.Observe(test.seen)
				if diff := cmp.Diff(test.want, scrape(t, c)); diff != "" {
					t.Errorf("what moved (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A wait in the queue is judged by what the row was handed off under, and not by the
// lease of the run that follows.
func TestLeaseUsedIsTheHandOffs(t *testing.T) {
	t.Parallel()
	reg := declare(t, twoReceivers)
	reg.AddLane("mail", waybill.LaneOptions{HandOffLease: 10 * time.Minute})
	c := newCollector(t, metrics.Config{Registry: reg})
	c.Observe(waybill.Observation{Kind: waybill.ObservedTake, Receiver: "a", DeliveryID: 7, Elapsed: 5 * time.Minute})
	if used := scrape(t, c)[`waybill_lease_used_ratio_sum{lane="mail"}`]; used != 0.5 {
		t.Errorf("5m of a hand-off lease of 10m count as %v, want 0.5", used)
	}
}

// A kind that somebody adds has to be counted, and tested above.
func TestNoKindOfObservationIsLeftOut(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../observe.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`(?m)^\tObserved\w+ +ObservationKind = "(\w+)"`).FindAllSubmatch(source, -1)
	if len(kinds) < 10 {
		t.Fatalf("found %d kinds in observe.go", len(kinds))
	}
	for _, kind := range kinds {
		if len(movements[waybill.ObservationKind(kind[1])]) == 0 {
			t.Errorf("observations of kind %s move no metric", kind[1])
		}
	}
}

// A drain that is not known any more has no sample, rather than the last one.
func TestADrainThatIsForgotten(t *testing.T) {
	t.Parallel()
	c := newCollector(t, metrics.Config{Registry: declare(t, twoReceivers)})
	for _, window := range []waybill.Window{{Size: 9, Waiting: 2, Drain: 3}, {Size: 1, Waiting: 2}} {
		c.Observe(waybill.Observation{Kind: waybill.ObservedWindow, Lane: "mail", Window: window})
	}
	if drain := of(scrape(t, c), "waybill_drain"); len(drain) > 0 {
		t.Errorf("the relay does not know the drain any more, and there is %v", drain)
	}
}

// What a process is there for is counted from zero, and nothing else is.
func TestCountersBeginAtZero(t *testing.T) {
	t.Parallel()
	zeros := func(config metrics.Config) map[string]float64 {
		config.Registry = declare(t, twoReceivers)
		return scrape(t, newCollector(t, config))
	}
	want := map[string]float64{
		`waybill_lane_paused{lane="mail"}`: 0, `waybill_listening{lane="mail"}`: 0,
		`waybill_wakes_total{by="notify",lane="mail"}`: 0, `waybill_wakes_total{by="look",lane="mail"}`: 0,
		`waybill_wakes_total{by="poll",lane="mail"}`: 0, `waybill_wakes_total{by="room",lane="mail"}`: 0,
		`waybill_passes_total{lane="mail"}`: 0, `waybill_pass_errors_total{lane="mail"}`: 0, `waybill_probes_total{lane="mail"}`: 0,
		`waybill_claims_total{lane="mail"}`: 0, `waybill_given_back_total{lane="mail"}`: 0,
		`waybill_enqueued_total{lane="mail",site="task"}`: 0, `waybill_enqueue_errors_total{lane="mail",site="task"}`: 0,
	}
	if diff := cmp.Diff(want, zeros(metrics.Config{Relays: []string{"mail"}})); diff != "" {
		t.Errorf("a relay of mail (-want +got):\n%s", diff)
	}
	worker := zeros(metrics.Config{Worker: true})
	for _, name := range []string{
		`waybill_takes_total{lane="mail",receiver="a"}`, `waybill_leases_lost_total{lane="default",receiver="b"}`,
		`waybill_acks_total{lane="mail",receiver="a",status="dead"}`, `waybill_refusals_total{lane="mail",refusal="reclaimed"}`,
		`waybill_refusal_seconds_total{lane="default",refusal="settled"}`, `waybill_refusals_total{lane="",refusal="no_row"}`,
	} {
		if value, ok := worker[name]; !ok || value != 0 {
			t.Errorf("a worker's %s is %v, there: %t", name, value, ok)
		}
	}
	if passes := of(worker, "waybill_passes"); len(passes) > 0 {
		t.Errorf("a worker has %v", passes)
	}
	if none := zeros(metrics.Config{}); len(none) > 0 {
		t.Errorf("a process that does nothing has %v", none)
	}
}

// Whatever is in the rows, the number of series is bounded by the declarations.
func TestSeriesAreBoundedByWhatIsDeclared(t *testing.T) {
	t.Parallel()
	s := newStore()
	c := newCollector(t, metrics.Config{Registry: declare(t, twoReceivers), Store: s, Relays: []string{"default", "mail"}, Worker: true})
	var before map[string]float64
	for n := range 10_000 {
		key := "a"
		if n >= 100 {
			key = fmt.Sprint("gone.", n)
		}
		if n == 200 {
			before = scrape(t, c)
		}
		for kind, cases := range movements {
			for _, test := range cases {
				test.seen.Kind, test.seen.DeliveryID = kind, int64(n)
				if test.seen.Receiver != "" {
					test.seen.Receiver = key
				}
				c.Observe(test.seen)
			}
		}
	}
	after := scrape(t, c)
	if len(before) == 0 || len(after) != len(before) {
		t.Errorf("%d series after 200 deliveries and %d after 10,000", len(before), len(after))
	}
	for _, label := range []string{"gone.", "9999"} {
		for sample := range maps.Keys(after) {
			if regexp.MustCompile(regexp.QuoteMeta(label)).MatchString(sample) {
				t.Errorf("the series %s names a row", sample)
			}
		}
	}
}

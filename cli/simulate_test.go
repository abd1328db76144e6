package cli_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The case of the operations page. Its figures do not say what a stale copy costs; so
// both ends are shown, and what fits exactly.
func TestSimulateIncident(t *testing.T) {
	t.Parallel()
	const want = `incident: 28,000 rows at 20 a second, a lease of 900s (15m), window off

      RATE  A STALE COPY COSTS  STALE COPIES  WORKED OUT  ALL DONE  DEEPEST QUEUE  LONGEST WAIT  WRITES A ROW
      20/s             nothing        10,000      10,000     1401s         28,000          900s          4.71
      20/s         a full slot        12,000      12,000     2001s         28,000          900s          4.86
  19.745/s         a full slot        12,917      12,918     2073s         28,000          900s          4.92

The figures of the report give 10,000 to 12,000 stale copies, by what a stale copy costs.
The 12,918 that were reported come out exactly at 19.745/s and a full slot: a fit, and no measurement.
28,000 rows, 900s and 20/s were reported; a relay that sends at once and even runs are assumed.
`
	if diff := cmp.Diff(want, succeeds(t, "simulate", "--scenario", "incident").out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	answer := ask(t, "simulate", "--scenario", "incident")
	checkKeys(t, answer, map[string]any{"stale_copies": 10_000, "deepest_queue": 28_000, "window": "off", "converges": true})
	var stale, predicted []any
	for _, reading := range answer["reported"].([]any) {
		stale = append(stale, reading.(map[string]any)["stale_copies"])
		predicted = append(predicted, reading.(map[string]any)["predicted_stale_copies"])
	}
	if diff := cmp.Diff([]any{10_000.0, 12_000.0, 12_917.0}, stale); diff != "" {
		t.Errorf("stale copies of the readings (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{10_000.0, 12_000.0, 12_918.0}, predicted); diff != "" {
		t.Errorf("predicted stale copies of the readings (-want +got):\n%s", diff)
	}
	// With a figure of one's own it is that case, and nothing is said of the report.
	answer = ask(t, "simulate", "--scenario", "incident", "--backlog", "2800", "--lease", "90s", "--stale-cost", "full")
	checkKeys(t, answer, map[string]any{"stale_copies": 820})
	if _, ok := answer["reported"]; ok {
		t.Error("the report's readings come with a case that was not reported")
	}
}

// Where the queue never gets done it says so, and stops.
func TestSimulateCollapse(t *testing.T) {
	t.Parallel()
	args := []string{"simulate", "--scenario", "incident", "--backlog", "4100", "--lease", "90s", "--stale-cost", "full"}
	got := bridge(t, args...)
	want := `incident: 4,100 rows at 20 a second, a lease of 90s (1m30s), window off
Never done: collapsed: 2120 rows are left, and in three leases workers reached 5941 messages, every one stale.
Stopped after 397s (6m37s): 1,980 of 4,100 rows settled, `
	if got.code != 5 || got.err != "" || !strings.HasPrefix(got.out, want) || strings.Contains(got.out, "warning") {
		t.Errorf("exit code %d, want 5:\n%s%s", got.code, got.out, got.err)
	}
	got = bridge(t, append(args, "--json")...)
	var answer map[string]any
	if err := json.Unmarshal([]byte(got.out), &answer); err != nil || got.code != 5 {
		t.Fatalf("exit code %d, want 5; %v", got.code, err)
	}
	checkKeys(t, answer, map[string]any{"converges": false, "settled_rows": 1980})
	if got := bridge(t, append(args, "--window", "auto")...); got.code != 0 {
		t.Errorf("with a window: exit code %d:\n%s", got.code, got.out)
	}
	got = bridge(t, "simulate", "--window", "off", "--lease", "5s", "--max-events", "20000")
	if got.code != 6 || !strings.Contains(got.out, "\nStopped after ") || !strings.Contains(got.out, "Not done: after 20000 events.\n") {
		t.Errorf("exit code %d, want 6:\n%s%s", got.code, got.out, got.err)
	}
}

func TestSimulateScenarios(t *testing.T) {
	t.Parallel()
	keys := []string{
		"converges", "deepest_queue", "events", "finish_seconds", "hit_rows", "inputs", "longest_wait_seconds", "recovery_seconds", "rows",
		"scenario", "settled_rows", "stale_copies", "warnings", "window", "writes_per_row",
	}
	for _, test := range []struct {
		scenario, args string
		hit            bool
	}{
		{"burst", "", false},
		{"steady", "--arrivals 15", false},
		{"workers-down", "--fault-at 30s --fault-for 1m --fault-share 0.5", true},
		{"slow", "--fault-at 30s --fault-for 1m --slowdown 3", false},
		{"broker-loss", "--fault-at 30s", true},
		{"relay-loss", "--fault-at 30s", false},
		{"incident", "--window auto", false},
	} {
		args := append([]string{"simulate", "--scenario", test.scenario, "--backlog", "2000"}, strings.Fields(test.args)...)
		answer := ask(t, args...)
		if diff := cmp.Diff(keys, slices.Sorted(maps.Keys(answer))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.scenario, diff)
		}
		checkKeys(t, answer, map[string]any{"scenario": test.scenario, "rows": 2000, "settled_rows": 2000, "converges": true, "window": "auto"})
		if hit := answer["hit_rows"].(float64) > 0; hit != test.hit {
			t.Errorf("%s hit %v rows", test.scenario, answer["hit_rows"])
		}
		text := succeeds(t, args...).out
		if !strings.HasPrefix(text, test.scenario+": 2,000 rows at 20 a second, ") || strings.Contains(text, "rows hit") != test.hit {
			t.Errorf("%s says:\n%s", test.scenario, text)
		}
	}
}

// The flags of the lane count, each.
func TestSimulateFlags(t *testing.T) {
	t.Parallel()
	burst := []string{"simulate", "--backlog", "2000", "--window", "off", "--lease", "60s"}
	first := ask(t, burst...)
	for _, flag := range []string{
		"--window auto", "--seed 3", "--backlog 1500", "--rate 25", "--workers 10", "--run 900ms", "--cv 0.5", "--arrivals 5", "--lease 50s",
		"--stale-cost full", "--relays 3",
	} {
		other := ask(t, append(slices.Clone(burst), strings.Fields(flag)...)...)
		if other["finish_seconds"] == first["finish_seconds"] && other["stale_copies"] == first["stale_copies"] && other["deepest_queue"] == first["deepest_queue"] {
			t.Errorf("%s changes nothing", flag)
		}
	}
	windowed := []string{"simulate", "--backlog", "2000", "--lease", "60s"}
	if a, b := ask(t, windowed...), ask(t, append(windowed, "--window-horizon", "4s")...); a["deepest_queue"] == b["deepest_queue"] {
		t.Error("--window-horizon changes nothing")
	}
	if diff := cmp.Diff(first, ask(t, burst...)); diff != "" {
		t.Errorf("the same seed makes another simulation (-want +got):\n%s", diff)
	}
}

func TestSimulateRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"--scenario flood", 2, "--scenario flood: must be one of burst, steady, workers-down, slow, broker-loss, relay-loss, incident"},
		{"--window on", 2, "--window on: must be off or auto"},
		{"--window=", 2, "--window : must be off or auto"},
		{"--rate 0", 1, "--rate is 0; start workers"},
		{"--arrivals 20", 1, "arrivals of 20/s are not below the drain of 20/s"},
		{"--workers 5 --run 1s --rate 20", 2, "5 workers with runs of 1s do 5 rows a second, and the drain is 20/s; leave one of them out"},
		{"--workers 5 --run 2m --lease 1m", 1, "a run takes 120s on average and its lease is 1m0s"},
		{"--backlog 3000000", 1, "--backlog is 3000000; simulate 2000000 at most, at a smaller rate, or ask bridge size"},
		{"--scenario steady --arrivals 0", 2, "arrivals are 0"},
		{"--backlog 0", 2, "must be 1 or more"},
		{"--lease 900", 2, "900 has no unit; write 900s or 15m"},
		{"--lease 60s --window-horizon 30s", 2, "lower the horizon, or leave it out"},
		{"--window-horizon 5s --window off", 2, "--window-horizon does nothing here: it is for --window auto"},
		{"--window-horizon 5s --scenario incident", 2, "--window-horizon does nothing here"},
		{"--fault-at 5m", 2, "--fault-at does nothing here: it is for the scenarios workers-down, slow, broker-loss, relay-loss"},
		{"--scenario steady --fault-for 5m", 2, "--fault-for does nothing here"},
		{"--scenario slow --fault-share 0.5", 2, "--fault-share does nothing here"},
		{"--scenario relay-loss --fault-share 2", 2, "must be more than 0 and at most 1, as in 0.5"},
		{"--scenario broker-loss --slowdown 3", 2, "--slowdown does nothing here: it is for the scenario slow"},
		{"--scenario slow --slowdown 0.5", 2, "must be 1 or more"},
		{"--arrivals-from=", 2, "--arrivals-from is empty: name a file, or store"},
		{"--arrivals-from outbox", 1, "--arrivals-from: open outbox: no such file"},
		{"--arrivals-from store", 2, "no store: set --store or WAYBILL_STORE"},
		{"--arrivals-from store --lane mail", 2, `unknown lane "mail"; declared: default`},
		{"--arrivals-from x --backlog 5", 2, "leave out --backlog and --arrivals"},
		{"--arrivals-from x --arrivals 5", 2, "leave out --backlog and --arrivals"},
		{"--arrivals-from x --scenario steady", 2, "the scenario steady would do nothing"},
		{"--arrivals-from x --lane mail", 2, "--lane is for --arrivals-from store"},
		{"--arrivals-from x --newest 5", 2, "--newest is for --arrivals-from store"},
		{"--newest 5", 2, "--newest is for --arrivals-from store"},
		{"--arrivals-from store --newest 3000000", 2, "--newest 3000000: must be at most 2000000"},
	} {
		checkFailure(t, bridge(t, append([]string{"simulate"}, strings.Fields(test.args)...)...), test.code, test.want)
	}
}

// The relay has no window yet, and the help does not say that it had.

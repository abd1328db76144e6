package cli_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
)

// ask runs a command whose answer is JSON.
func ask(t *testing.T, args ...string) (answer map[string]any) {
	t.Helper()
	got := succeeds(t, append(args, "--json")...)
	if err := json.Unmarshal([]byte(got.out), &answer); err != nil {
		t.Fatalf("bridge %s: %v in\n%s", strings.Join(args, " "), err, got.out)
	}
	return answer
}

// checkKeys compares some of an answer.
func checkKeys(t *testing.T, answer, want map[string]any) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		got, ok := answer[key]
		if number, is := want[key].(int); is {
			want[key] = float64(number)
		}
		if !ok || got != want[key] {
			t.Errorf("%s = %v, want %v", key, got, want[key])
		}
	}
}

// The operations page's burst, and the figures around it.
func TestSize(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args string
		want map[string]any
	}{
		{"--backlog 28000 --rate 20", map[string]any{
			"min_lease_seconds": 1400, "lease_seconds": 1590, "judged_lease_seconds": 1590, "confidence": 0.99, "max_backlog": 28_209,
			"workers_needed": nil, "stale_copies": 0, "converges": true,
		}},
		{"--backlog 28000 --workers 20 --run 1s", map[string]any{
			"min_lease_seconds": 1400, "lease_seconds": 1590, "workers_needed": 20, "collapse_backlog": 6_391_800,
		}},
		{"--backlog 28000 --workers 20 --run 1s --lease 900s", map[string]any{
			"lease_seconds": 1590, "judged_lease_seconds": 900, "max_backlog": 15_886, "workers_needed": 36,
			"stale_copies": 10_000, "stale_copies_at_low_drain": 11_800, "converges": true, "verdict": "lapses",
		}},
		{"--backlog 28000 --workers 20 --run 1s --lease 900s --stale-cost 0s", map[string]any{"stale_copies": 10_000, "collapse_backlog": 0}},
		{"--backlog 28000 --rate 20 --lease 900s --stale-cost full", map[string]any{"stale_copies": 12_000, "collapse_backlog": 36_000}},
		{"--backlog 28000 --workers 20 --run 1s --lease 900s --stale-cost 1s", map[string]any{"stale_copies": 12_000, "collapse_backlog": 36_000}},
		{"--backlog 28000 --rate 19.745 --lease 900s --stale-cost full", map[string]any{"stale_copies": 12_918}},
		{"--backlog 36000 --rate 20 --lease 900s --stale-cost full", map[string]any{"converges": false, "verdict": "lapses"}},
		{"--backlog 28000 --rate 20 --lease 1400s", map[string]any{"stale_copies": 0, "verdict": "lapses"}},
		{"--backlog 28000 --rate 20 --lease 33m", map[string]any{"stale_copies": 0, "verdict": "fine"}},
		{"--backlog 2000 --workers 4 --run 200ms --cv 2 --arrivals 8", map[string]any{"lease_seconds": 125}},
		{"--workers 20 --run 1s --arrivals 16 --confidence 0.999", map[string]any{"min_lease_seconds": 0, "lease_seconds": 5, "confidence": 0.999}},
		{"--lease 60s --run 1s", map[string]any{
			"batch_inside_lease": 66, "batch_without_extension": 7, "batch_recommended": 5, "judged_lease_seconds": 60, "lease_seconds": nil, "converges": nil,
		}},
		{"--lease 60s --run 700ms", map[string]any{"batch_inside_lease": 94, "batch_without_extension": 9}},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			checkKeys(t, ask(t, append([]string{"size"}, strings.Fields(test.args)...)...), test.want)
		})
	}
}

// Who reads the JSON finds the same keys whatever was asked.
func TestSizeKeys(t *testing.T) {
	t.Parallel()
	want := []string{
		"batch_inside_lease", "batch_recommended", "batch_without_extension", "collapse_backlog", "confidence", "converges", "cost", "inputs",
		"judged_lease_seconds", "lease_seconds", "max_backlog", "min_lease_seconds", "stale_copies", "stale_copies_at_low_drain",
		"wait_seconds", "warnings", "workers_needed",
	}
	burst := ask(t, "size", "--backlog", "28000", "--rate", "20")
	for name, answer := range map[string]map[string]any{"a burst": burst, "a batch": ask(t, "size", "--lease", "60s", "--run", "1s")} {
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(answer))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	inputs := burst["inputs"].(map[string]any)
	for name, want := range map[string]any{
		"ahead_rows":         map[string]any{"value": 28_000.0, "source": "typed"},
		"drain_per_second":   map[string]any{"value": 20.0, "source": "typed"},
		"stale_cost_seconds": map[string]any{"value": 0.005, "source": "default"},
	} {
		if diff := cmp.Diff(want, inputs[name]); diff != "" {
			t.Errorf("inputs.%s (-want +got):\n%s", name, diff)
		}
	}
	if warnings := burst["warnings"].([]any); len(warnings) != 2 || !strings.Contains(warnings[0].(string), "workers are not known") {
		t.Errorf("warnings = %v", warnings)
	}
	const oneWorker = "a stale copy is counted as 500% of a run, as if one worker did it all: give --workers, or stale copies come out too many"
	fast := []string{"size", "--backlog", "100000", "--rate", "1000", "--lease", "60s"}
	if warnings := ask(t, fast...)["warnings"].([]any); !slices.Contains(warnings, oneWorker) {
		t.Errorf("warnings = %v, want %q among them", warnings, oneWorker)
	}
	for _, more := range [][]string{{"--workers", "50"}, {"--stale-cost", "full"}, {"--lease", "5m"}} {
		if warnings := ask(t, append(slices.Clone(fast), more...)...)["warnings"].([]any); slices.ContainsFunc(warnings, func(warning any) bool { return strings.Contains(warning.(string), "one worker") }) {
			t.Errorf("%v: warnings = %v", more, warnings)
		}
	}
	table := ask(t, "size", "--backlog", "28000", "--rate", "20", "--lease", "15m", "--table")
	want = slices.Sorted(slices.Values(append(want, "table", "verdict")))
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(table))); diff != "" {
		t.Errorf("a table (-want +got):\n%s", diff)
	}
}

// The answer comes first, then what it rests on, then what to watch out for.
func TestSizeText(t *testing.T) {
	t.Parallel()
	const figures = `typed    backlog 28,000 rows; workers 20; run 1s; lease 15m
default  rate 20/s (workers ÷ run); cv 1; arrivals 0/s; confidence 0.99; poll 1s; batch 100 rows; send 1ms;
         stale copy 5ms (0.5% of a run); standard lease 5m
warning: a lease of 15m0s lapses before the last of 28000 rows starts: about 10000 stale copies; raise it to 26m30s, or use the window
warning: a claim stamps at most 5m30s: each row costs a fourth write, which gives it its 15m0s at the hand-off
`
	const judged = `A lease of 900s (15m) lapses: about 10,000 stale copies.
Declare 1590s (26m30s), or run 36 workers.
The last of 28,000 rows waits up to 1579s for a worker, in 99 of 100 such bursts.
The rule of thumb, backlog ÷ rate, is 1400s.
`
	question := []string{"size", "--backlog", "28000", "--workers", "20", "--run", "1s", "--lease", "15m"}
	for _, test := range []struct {
		args []string
		want string
	}{
		{question, judged + `
Under a lease of 15m
  15,886 rows fit; the backlog needs 36 workers
  about 10,000 stale copies, 11,800 at nine tenths of the rate; never done from 3,618,000 rows on
  4.71 writes a row; a row waits up to 15m for a dead worker, 15m for a lost broker

` + figures},
		{append(slices.Clone(question), "--table"), judged + `
   LEASE   HOLDS  STALE AT 1%  STALE AT 10%  STALE AT FULL  COLLAPSES FROM  DEAD WORKER  LOST BROKER
      1m   1,200      368,211    never done     never done           2,400           1m         1m6s
      5m   6,000       53,088        68,006     never done          12,000           5m        5m30s
     10m  12,000       20,160        21,600     never done          24,000          10m          10m
     15m  18,000       10,000        10,000         12,000          36,000          15m          15m  yours
     20m  24,000        4,000         4,000          4,000          48,000          20m          20m
  23m20s  28,000            0             0              0          56,000       23m20s       23m20s  backlog ÷ rate
  26m30s  31,800            0             0              0          63,600       26m30s       26m30s  to declare
HOLDS: rows that start within the lease. STALE: copies, if one costs a worker so much of a run, or a full slot.
COLLAPSES FROM: rows with which it is never done, at a full slot. Then how long a row waits for the lost.

` + figures},
		{[]string{"size", "--workers", "20", "--run", "1s", "--arrivals", "16", "--confidence", "0.999"}, `Declare a lease of 5s.
A row waits up to 4.3s for a worker, in 999 of 1000 cases.

Under a lease of 5s
  6 rows fit; the backlog needs 20 workers
  no stale copies; never done from 20,100 rows on
  3 writes a row; a row waits up to 5s for a dead worker, 5.5s for a lost broker

typed    workers 20; run 1s; arrivals 16/s; confidence 0.999
default  backlog 0 rows (arrivals only); rate 20/s (workers ÷ run); cv 1; poll 1s; batch 100 rows; send 1ms;
         stale copy 5ms (0.5% of a run); standard lease 5m
`},
		{[]string{"size", "--lease", "60s", "--run", "1s"}, `66 rows of a batch start inside a lease of 1m, where the relay runs receivers itself, 1s each.
7 of them need no write to have their lease extended. Take batches of 5: that leaves room for slower rows.
A relay that hands off to a queue only sends its batch: there its size has nothing to do with how long runs take.

typed    lease 1m; run 1s
`},
	} {
		got := succeeds(t, test.args...).out
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("bridge %s (-want +got):\n%s", strings.Join(test.args, " "), diff)
		}
	}
}

// The first line, by how it stands with the lease.
func TestSizeVerdicts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"--rate 20 --lease 33m", 0, "A lease of 1980s (33m) is fine.\n"},
		{"--rate 20 --lease 1973s", 0, "A lease of 1973s (32m53s) is fine.\n"},
		{"--rate 20 --lease 1972s", 4, "A lease of 1972s (32m52s) is tight: 80% of it may be spent waiting. 1973s (32m53s) would leave a fifth to spare.\n"},
		{"--rate 20 --lease 1590s", 4, "A lease of 1590s (26m30s) is tight: 99% of it may be spent waiting."},
		{"--rate 20 --lease 1500s", 5, "A lease of 1500s (25m) may lapse: it holds at the full rate, and that was not measured.\nDeclare 1590s (26m30s).\n"},
		{"--rate 20 --lease 900s --stale-cost full", 5, "A lease of 900s (15m) lapses: about 12,000 stale copies.\nDeclare 1590s (26m30s).\n"},
		{"--rate 20 --lease 60s --stale-cost full", 5, "A lease of 60s (1m) lapses, and the queue never gets done: from 2,400 rows on every copy is stale when a worker reaches it.\n"},
	} {
		args := append([]string{"size", "--backlog", "28000"}, strings.Fields(test.args)...)
		got := bridge(t, append(args, "--check")...)
		if got.code != test.code || got.err != "" || !strings.HasPrefix(got.out, test.want) || strings.Contains(got.out, "typed") {
			t.Errorf("%s --check: exit code %d, want %d; it says %s%s", test.args, got.code, test.code, got.out, got.err)
		}
		if got := succeeds(t, args...); !strings.HasPrefix(got.out, test.want) {
			t.Errorf("%s says %s", test.args, got.out)
		}
		if got := bridge(t, append(args, "--check", "--json")...); got.code != test.code || !json.Valid([]byte(got.out)) {
			t.Errorf("%s --check --json: exit code %d, want %d", test.args, got.code, test.code)
		}
	}
}

// A question without an answer is a failure, and one that cannot be meant wrong usage;
// for a check, both that no lease holds and that nothing can be told are an answer.
func TestSizeRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args        string
		code, check int
		want        string
	}{
		{"--backlog 28000 --rate 0", 1, 5, "--rate is 0 with 28000 rows ahead; workers are down or do not read this queue: start them, no lease outlasts that"},
		{"--backlog 28000 --rate 20 --arrivals 22", 1, 5, "arrivals of 22/s are not below the drain of 20/s: the queue grows without end; no lease is long enough: give more drain"},
		{"--backlog 9 --workers 20 --run 1s --arrivals 22", 1, 5, "no lease is long enough: give at least 25 workers"},
		{"--backlog 9 --workers 20 --run 1s --arrivals 19", 1, 6, "arrivals of 19/s are not below the 18/s that can be counted on: the queue may grow without end"},
		{"--backlog 9 --workers 2 --run 70s --lease 60s", 1, 5, "a run takes 70s on average and its lease is 1m0s; raise the lease above the longest run, or have the receiver declare heartbeat"},
		{"--backlog 1000000000 --rate 0.0001", 1, 6, "seconds are more than a hundred years; add workers, or spread the work"},
		{"--lease 60s --run 70s", 1, 2, "a row of 1m10s does not fit a lease of 1m0s; raise the lease above that, or make the row faster"},
		{"--backlog 28000 --rate 20 --lease 900", 2, 2, `for "--lease" flag: 900 has no unit; write 900s or 15m: see 'bridge size --help'`},
		{"--backlog 28000 --workers 4 --run 5", 2, 2, `for "--run" flag: 5 has no unit; write 5s or 5m`},
		{"--backlog 9 --rate 20 --stale-cost 5", 2, 2, `5 has no unit; write 5s or 5m; or full, for as much as a run`},
		{"--backlog 9 --rate 20 --stale-cost half", 2, 2, "want a number and a unit, as in 900s or 15m; or full"},
		{"--backlog 9 --rate 20 --stale-cost -1s", 2, 2, "must not be negative"},
		{"--backlog 9 --rate 20 --lease 0s", 2, 2, "must be longer than nothing"},
		{"--backlog 28,000 --rate 20", 2, 2, `for "--backlog" flag: want a whole number, as in 28000`},
		{"--backlog 99999999999999999999 --rate 20", 2, 2, "it is too large"},
		{"--backlog -1 --rate 20", 2, 2, "must be 0 or more"},
		{"--backlog 9 --workers 0 --run 1s", 2, 2, `for "--workers" flag: must be 1 or more`},
		{"--backlog 9 --rate fast", 2, 2, "want a number, as in 19.5"},
		{"--backlog 9 --rate NaN", 2, 2, "want a number, as in 19.5"},
		{"--backlog 9 --rate -3", 2, 2, "must not be negative"},
		{"--backlog 9 --rate 20 --confidence 99", 2, 2, "must be between 0 and 1, as in 0.99"},
		{"", 2, 2, "--backlog is missing: give the largest burst that you expect, or --lease and --run alone"},
		{"--lease 900s", 2, 2, "--backlog is missing"},
		{"--backlog 28000", 2, 2, "the rate is missing: give --rate, or both --workers and --run"},
		{"--backlog 28000 --run 1s", 2, 2, "the rate is missing"},
		{"--arrivals 5 --rate 20 --table", 2, 2, "--table is about a burst: give --backlog"},
		{"--arrivals 5 --rate 20 --plot x.svg", 2, 2, "--plot is about a burst: give --backlog"},
		{"--backlog 9 --rate 20 --plot x.pdf", 2, 2, "--plot x.pdf: must end in .svg or .png"},
		{"--lease 60s --run 1s --table", 2, 2, "--table needs --backlog: without one the question is how many rows of a batch fit"},
		{"--backlog 9 --rate 20 --lane mail", 2, 2, "--lane is for --live"},
		{"--backlog 9 --rate 20 --live", 2, 2, "no store: set --store or WAYBILL_STORE"},
		{"--live --lane mail", 2, 2, `unknown lane "mail"; declared: default`},
	} {
		args := append([]string{"size"}, strings.Fields(test.args)...)
		checkFailure(t, bridge(t, args...), test.code, test.want)
		if !strings.Contains(test.args, "--lease ") {
			args = append(args, "--lease", "60s")
		}
		// With the lease that a check needs, what was missing may be asked otherwise.
		if got := bridge(t, append(args, "--check")...); got.code != test.check || got.out != "" || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%s --check: exit code %d, want %d: %s%s", test.args, got.code, test.check, got.out, got.err)
		}
	}
	checkFailure(t, bridge(t, "size", "--backlog", "9", "--rate", "20", "--check"), 2, "--check needs --lease: the lease to judge")
}

// The examples of the help, each with something that its output says: none is wrong, and
// none is forgotten.
func TestExamplesOfTheCalculator(t *testing.T) {
	t.Chdir(t.TempDir())
	said := map[string]string{
		"size --backlog 28000 --rate 20":                                          "Declare a lease of 1590s (26m30s).",
		"size --backlog 28000 --workers 20 --run 1s --cv 2 --arrivals 10":         "Declare a lease of 1620s (27m).",
		"size --backlog 28000 --rate 20 --lease 900s --stale-cost full":           "A lease of 900s (15m) lapses: about 12,000 stale copies.",
		"size --backlog 28000 --workers 20 --run 1s --table":                      "23m20s  28,000            0",
		"size --backlog 28000 --workers 20 --run 1s --lease 15m --plot lease.svg": "picture: lease.svg",
		"size --backlog 28000 --rate 20 --lease 30m --check":                      "A lease of 1800s (30m) is tight: 88% of it",
		"size --lease 60s --run 1s":                                               "66 rows of a batch start inside a lease of 1m",
		// What needs a store or a file is told what it lacks here.
		"size --live --lane mail":                                                   `unknown lane "mail"`,
		"size --live --lane mail --backlog 28000 --check":                           `unknown lane "mail"`,
		"simulate --arrivals-from store --lane mail --workers 20 --run 1s":          `unknown lane "mail"`,
		"simulate --arrivals-from arrivals.txt --scenario workers-down":             "arrivals.txt: no such file",
		"simulate --scenario incident":                                              "give 10,000 to 12,000 stale copies",
		"simulate --scenario incident --stale-cost full --window auto":              "stale copies    0\n",
		"simulate --backlog 5000 --workers 10 --run 500ms --lease 60s --window off": "(worked out: 7,066)",
		"simulate --scenario broker-loss --json":                                    `"scenario": "broker-loss"`,
		"simulate --scenario steady --backlog 10000 --arrivals 15 --seed 7":         "steady: 10,000 rows at 20 a second",
	}
	seen := 0
	for _, cmd := range cli.Bridge(waybill.NewRegistry()).Commands() {
		if cmd.Name() != "size" && cmd.Name() != "simulate" {
			continue
		}
		for example := range strings.Lines(cmd.Example) {
			line := strings.TrimPrefix(strings.TrimSpace(example), "bridge ")
			want, ok := said[line]
			if !ok {
				t.Errorf("nothing is known of the example %q", line)
				continue
			}
			seen++
			if strings.Contains(line, "--live") || strings.Contains(line, "--arrivals-from") {
				if got := bridge(t, strings.Fields(line)...); got.code == 0 || !strings.Contains(got.err, want) {
					t.Errorf("bridge %s: exit code %d:\n%s", line, got.code, got.err)
				}
				continue
			}
			code := map[bool]int{true: 4}[strings.Contains(line, "--check")]
			if got := bridge(t, strings.Fields(line)...); got.code != code || !strings.Contains(got.out, want) {
				t.Errorf("bridge %s: exit code %d, want %d and %q:\n%s%s", line, got.code, code, want, got.out, got.err)
			}
		}
	}
	if seen != len(said) {
		t.Errorf("%d examples ran, want %d", seen, len(said))
	}
}

// The table in JSON, and that a cost that was typed has a column of its own.
func TestSizeTable(t *testing.T) {
	t.Parallel()
	args := []string{"size", "--backlog", "28000", "--workers", "20", "--run", "1s", "--stale-cost", "20ms", "--table"}
	if got := succeeds(t, args...).out; !strings.Contains(got, "  STALE AT 2%  STALE AT 1%  STALE AT 10%  STALE AT FULL  ") {
		t.Errorf("the table has no column for 20ms of a second:\n%s", got)
	}
	rows := ask(t, args...)["table"].([]any)
	if len(rows) != 7 {
		t.Fatalf("%d rows, want 7", len(rows))
	}
	row := rows[3].(map[string]any)
	stale := row["stale"].([]any)
	delete(row, "stale")
	want := map[string]any{"lease_seconds": 900.0, "holds_rows": 18_000.0, "dead_worker_wait_seconds": 900.0, "lost_broker_wait_seconds": 900.0}
	if diff := cmp.Diff(want, row); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	checkKeys(t, stale[0].(map[string]any), map[string]any{"stale_share": 0.02, "stale_copies": 10_000, "converges": true})
	checkKeys(t, stale[3].(map[string]any), map[string]any{"stale_share": 1, "stale_copies": 12_000, "collapse_backlog": 36_000, "finish_seconds": 2000})
	checkKeys(t, rows[2].(map[string]any)["stale"].([]any)[3].(map[string]any), map[string]any{"converges": false})
}

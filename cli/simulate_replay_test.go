package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
)

// The same arrivals give the same simulation, wherever they are replayed from: a file of
// times, one of seconds, standard input, and the rows of a lane.
func TestSimulateReplaysArrivals(t *testing.T) {
	t.Parallel()
	const rows = 400
	var seconds, times strings.Builder
	for i := range rows { // one each 0.1 s, the second half 100 s later
		at := 0.1*float64(i) + float64(i/(rows/2)*100)
		fmt.Fprintf(&seconds, "%.1f\n", 1000+at)
		fmt.Fprintf(&times, "2026-01-31T12:%02d:%04.1f+01:00\r\n", int(at)/60, at-float64(int(at)/60*60))
	}
	folder := t.TempDir()
	files := map[string]string{"seconds": seconds.String(), "times": times.String()}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := newPast(t)
	p.rows(rows, "status = 'succeeded', due_at = 1700000000000000 + (id - ?2) * 100000 + (id - ?2) / 200 * 100000000")
	replay := func(from string, more ...string) map[string]any {
		return ask(t, append([]string{"simulate", "--workers", "4", "--run", "500ms", "--arrivals-from", from}, more...)...)
	}
	want := replay(filepath.Join(folder, "seconds"))
	checkKeys(t, want, map[string]any{"rows": rows, "settled_rows": rows, "converges": true, "scenario": "burst"})
	// 200 rows arrive in 20 s and need 25; the last of them 5 s after 140.
	if finish := want["finish_seconds"].(float64); finish < 140 || finish > 160 {
		t.Errorf("all done after %g s", finish)
	}
	if diff := cmp.Diff(want, replay(filepath.Join(folder, "times"))); diff != "" {
		t.Errorf("times (-seconds +times):\n%s", diff)
	}
	inStore := func(args ...string) outcome {
		return execute(context.Background(), cli.Program(p.registry()), "", append([]string{"simulate", "--workers", "4", "--run", "500ms",
			"--arrivals-from", "store", "--store", "sqlite:" + p.path}, args...)...)
	}
	file := bridge(t, "simulate", "--workers", "4", "--run", "500ms", "--arrivals-from", filepath.Join(folder, "seconds"))
	if got := inStore("--lane", "mail"); got != file || !strings.HasPrefix(got.out, "burst, arrivals replayed: 400 rows at 8 a second") {
		t.Errorf("the store's rows give\n%s%s\nand the same ones in a file\n%s", got.out, got.err, file.out)
	}
	if got := inStore("--lane", "mail", "--newest", "200"); got.code != 0 || !strings.Contains(got.out, "replayed: 200 rows") {
		t.Errorf("the newest rows: exit code %d:\n%s%s", got.code, got.out, got.err)
	}
	checkFailure(t, inStore(), 1, "no rows of lane default are in the store: there is nothing to replay")
	stdin := execute(t.Context(), cli.Bridge(waybill.NewRegistry()), files["times"], "simulate", "--workers", "4", "--run", "500ms", "--arrivals-from", "-")
	if stdin != file {
		t.Errorf("standard input gives\n%s%s", stdin.out, stdin.err)
	}
	// What goes wrong in a scenario does so to these rows as well.
	if hit := replay(filepath.Join(folder, "seconds"), "--scenario", "broker-loss", "--fault-at", "15s")["hit_rows"].(float64); hit == 0 {
		t.Error("no replayed row was hit")
	}
}

func TestSimulateRefusesArrivals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"", "it is empty: there is nothing to replay"},
		{"1\n2\n\n", `line 3: "": want a time, as in 2026-01-31T12:00:00Z, or a number of seconds, as in 3.5`},
		{"1\n3\n2\n", "line 3: 2 is before the line above it: sort the lines"},
		{"2\n1\n", "line 2: 1 is before the line above it"},
		{"2026-01-31T12:00:00Z\n2026-01-31T12:00:00.5+01:00\n", "line 2: 2026-01-31T12:00:00.5+01:00 is before the line above it"},
		{"2026-01-31T12:00:00Z\n3\n", "line 2: 3: times and numbers of seconds do not go together"},
		{"1\n2026-01-31 12:00:00\n", `line 2: "2026-01-31 12:00:00": want a time`},
		{"1\nNaN\n", `line 2: "NaN": want`},
		{"0\n1e300\n", "line 2: it is more than a hundred years after the first line"},
		{"1\n" + strings.Repeat("x", 100_000), "line 2: want a time"},
	} {
		got := execute(t.Context(), cli.Bridge(waybill.NewRegistry()), test.text, "simulate", "--arrivals-from", "-")
		checkFailure(t, got, 1, "standard input: "+test.want)
	}
}

package cli_test

import (
	"path/filepath"
	"regexp"
	"testing"
)

// The demo as a newcomer meets it: its books balance, and it says what to do next.
// Its events of made-up kinds fill all five kinds of receiver.
func TestDemo(t *testing.T) {
	t.Parallel()
	got := succeeds(t, "demo", "--backend", "local")
	for _, line := range []string{
		`events fired +200 `,
		`deliveries owed for them +676 `,
		`delivered +660 `,
		`dead +16 `,
		`still owed +0 `,
		`stale copies refused +[1-9]`,
		`runs that lost their row +[1-9]`,
		`[0-9]+ runs, 0 overlapping under valid leases`,
		`200 rows +for 200 deliveries, 0 of them twice`,
		`(?m)^Next, with your own database`,
		`bridge migrate && bridge fire`,
		`bridge relay & worker & bridge status`,
	} {
		if !regexp.MustCompile(line).MatchString(got.out) {
			t.Errorf("the demo printed no %q:\n%s", line, got.out)
		}
	}
}

func TestDemoRefuses(t *testing.T) {
	t.Parallel()
	checkFailure(t, bridge(t, "demo", "--backend", "kafka"), 2, "--backend kafka: the demo runs on asynq or local")
	checkFailure(t, bridge(t, "demo", "--file", filepath.Join(t.TempDir(), "missing.jsonl")), 1, "no such file")
}

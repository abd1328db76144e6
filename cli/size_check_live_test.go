package cli_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/sqlite"
)

// past is a lane whose rows have a past that a test gives them.
type past struct {
	*testing.T
	path string
	lane waybill.LaneOptions
}

func newPast(t *testing.T) *past {
	t.Helper()
	p := &past{T: t, path: filepath.Join(t.TempDir(), "w.db")}
	succeeds(t, "migrate", "--store", "sqlite:"+p.path)
	return p
}

func (p *past) registry() *waybill.Registry {
	reg := waybill.NewRegistry()
	waybill.OnAny(reg, "mail", func(context.Context, *waybill.Delivery) error { return nil }, waybill.Options{Lane: "mail", Lease: time.Minute})
	if p.lane != (waybill.LaneOptions{}) {
		reg.AddLane("mail", p.lane)
	}
	return reg
}

// rows fires n rows and sets each as the assignments say, where ?1 is now in microseconds
// and ?2 the first row's id.
func (p *past) rows(n int, set string) {
	p.Helper()
	store, err := sqlite.New(sqlite.Config{Path: p.path, Registry: p.registry()})
	if err != nil {
		p.Fatal(err)
	}
	defer store.Close()
	events := make([]any, n)
	for i := range events {
		events[i] = waybill.RawEvent{Name: "a", Payload: []byte("1")}
	}
	err = store.InTx(p.Context(), func(tx *sql.Tx) error {
		if _, err := store.FireAll(p.Context(), tx, events); err != nil {
			return err
		}
		var last int64
		if err := tx.QueryRowContext(p.Context(), "SELECT max(id) FROM delivery").Scan(&last); err != nil {
			return err
		}
		_, err := tx.ExecContext(p.Context(), "UPDATE delivery SET claimed_at = 1, "+set+" WHERE id >= ?2", time.Now().UnixMicro(), last-int64(n)+1)
		return err
	})
	if err != nil {
		p.Fatal(err)
	}
}

// What rows may have been through.
const (
	// 20 workers settled 20 a second, of a burst of 100 seconds ago.
	burst = "status = 'succeeded', due_at = ?1 - 100e6, handed_off_at = ?1 - 100e6, taken_at = ?1 - 100000000 + (id - ?2) / 20 * 1000000, settled_at = ?1 - 99000000 + (id - ?2) / 20 * 1000000"
	// One came each 5 seconds, and was run at once.
	trickle = "status = 'succeeded', due_at = ?1 - 1000000000 + (id - ?2) * 5000000, handed_off_at = ?1 - 1000000000 + (id - ?2) * 5000000, taken_at = ?1 - 999990000 + (id - ?2) * 5000000, settled_at = ?1 - 999000000 + (id - ?2) * 5000000"
	waiting = "status = 'claimed', due_at = ?1 - 100000000, handed_off_at = ?1 - 100000000"
	lately  = "status = 'claimed', due_at = ?1 - 10000000, handed_off_at = ?1 - 10000000"
	stuck   = "status = 'claimed', due_at = ?1 - 900000000, handed_off_at = ?1 - 900000000"
	arrived = "status = 'claimed', due_at = ?1 - 100000000 + (id - ?2) * 40000, handed_off_at = ?1 - 100000000 + (id - ?2) * 40000" // 25 a second
)

func (p *past) size(args ...string) outcome {
	return execute(context.Background(), cli.Program(p.registry()), "", append([]string{"size", "--live", "--lane", "mail", "--store", "sqlite:" + p.path}, args...)...)
}

// The exit codes of a check of the running lane, and what is said where there is no
// answer.
func TestSizeLiveCheck(t *testing.T) {
	t.Parallel()
	type part struct {
		n   int
		set string
	}
	for _, test := range []struct {
		name  string
		parts []part
		args  string
		code  int
		says  string // on either output
	}{
		{"fine", []part{{1980, burst}, {200, waiting}}, "", 0, "A lease of 60s (1m) is fine."},
		{"tight", []part{{1980, burst}, {1000, waiting}}, "", 4, "A lease of 60s (1m) is tight"},
		{"lapses", []part{{1980, burst}, {2000, waiting}}, "", 5, "A lease of 60s (1m) lapses: about"},
		{"a longer lease was typed", []part{{1980, burst}, {2000, waiting}}, "--lease 10m", 0, "A lease of 600s (10m) is fine."},
		{"a smaller backlog was typed", []part{{1980, burst}, {2000, waiting}}, "--backlog 10", 0, "is fine"},
		{"twice the workers", []part{{1980, burst}, {2000, waiting}}, "--workers 60 --run 1s", 0, "is fine"},
		{"few samples", []part{{12, burst}, {200, lately}}, "", 6, "only 12 settled rows of lane mail are behind its drain, and it needs 30; measure for longer, or give --rate: nine tenths of a typed one are counted on"},
		{"few samples, and a typed rate", []part{{12, burst}, {200, waiting}}, "--rate 20", 0, "is fine"},
		{"nothing yet", nil, "", 6, "only 0 settled rows of lane mail"},
		{"stuck", []part{{812, stuck}}, "", 5, "nothing drains: no row of lane mail settled in the last 15m0s while 812 wait; workers are down or do not read its queue"},
		{"arrivals", []part{{1980, burst}, {2500, arrived}}, "", 5, "the queue grows without end; no lease is long enough: give at least"},
		{"never busy, and nothing waits", []part{{200, trickle}}, "", 0, "is fine"},
		{"never busy, and a burst to be ready for", []part{{200, trickle}}, "--backlog 28000", 6,
			"the queue of lane mail ran empty all the time, so the 0.2/s that settled are what arrives, and nobody saw what workers can do; ask while rows wait"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newPast(t)
			for _, part := range test.parts {
				p.rows(part.n, part.set)
			}
			got := p.size(append(strings.Fields(test.args), "--check")...)
			if got.code != test.code || !strings.Contains(got.out+got.err, test.says) {
				t.Errorf("exit code %d, want %d: %s%s", got.code, test.code, got.out, got.err)
			}
			// Without --check what has an answer is one, and anything else is a failure.
			want := 0
			if got.err != "" {
				want = 1
			}
			if got := p.size(strings.Fields(test.args)...); got.code != want {
				t.Errorf("without --check: exit code %d, want %d: %s%s", got.code, want, got.out, got.err)
			}
		})
	}
	p := newPast(t)
	p.path = filepath.Join(t.TempDir(), "nothing.db")
	if got := p.size("--check"); got.code != 6 || got.out != "" {
		t.Errorf("a store that has no tables: exit code %d, want 6: %s%s", got.code, got.out, got.err)
	}
	checkFailure(t, p.size(), 1, "bridge migrate")
	checkFailure(t, execute(t.Context(), cli.Program(p.registry()), "", "size", "--live", "--lane", "maill", "--check", "--store", "sqlite:x"), 2, `unknown lane "maill"; declared: default, mail`)
}

// PostgreSQL tells the same.
func TestSizeLiveOnPostgres(t *testing.T) {
	t.Parallel()
	store := services.Postgres(t)
	succeeds(t, "migrate", "--store", store)
	checkFailure(t, bridge(t, "size", "--live", "--check", "--store", store), 6, "only 0 settled rows of lane default")
	if got := succeeds(t, "size", "--live", "--rate", "20", "--arrivals", "2", "--store", store).out; !strings.Contains(got, "live     backlog 0 rows (0 wait under a claim, 0 due); lease 5m (of receivers that declare none)") {
		t.Errorf("a lane of nothing:\n%s", got)
	}
	checkFailure(t, bridge(t, "simulate", "--arrivals-from", "store", "--store", store), 1, "no rows of lane default are in the store")
	succeeds(t, "fire", "a", "--payload", "1", "--store", store, "--receivers", newSite(t, "receivers:\n- {key: a, event: '*', http: {url: 'http://127.0.0.1:9'}}\n").receivers)
	if got := succeeds(t, "simulate", "--arrivals-from", "store", "--store", store).out; !strings.Contains(got, "replayed: 1 rows") {
		t.Errorf("an arrival:\n%s", got)
	}
}

// Every figure says where it comes from, and the JSON has all keys that it has without a
// lane.
func TestSizeLiveFigures(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.lane.HandOffLease = 20 * time.Minute
	p.rows(1980, burst)
	p.rows(300, waiting)
	p.rows(50, "due_at = ?1 - 1000000, available_at = ?1 - 1000000")
	p.rows(7, "available_at = ?1 + 3600000000")
	got := p.size("--json", "--confidence", "0.9")
	var answer map[string]any
	if err := json.Unmarshal([]byte(got.out), &answer); err != nil || got.code != 0 {
		t.Fatalf("exit code %d: %v %s", got.code, err, got.err)
	}
	checkKeys(t, answer, map[string]any{"judged_lease_seconds": 1200, "verdict": "fine", "confidence": 0.9})
	inputs := answer["inputs"].(map[string]any)
	for name, want := range map[string]map[string]any{
		"ahead_rows":       {"value": 350.0, "source": "live", "note": "300 wait under a claim, 50 due"},
		"service_seconds":  {"value": 1.0, "source": "live", "note": "1980 runs, 99 of 100 up to 1s"},
		"cv":               {"value": 0.0, "source": "live", "note": "1980 runs"},
		"lease_seconds":    {"value": 1200.0, "source": "live", "note": "the lane's hand-off lease"},
		"confidence":       {"value": 0.9, "source": "typed"},
		"workers":          {"value": 20.0, "source": "default", "note": "drain × service"},
		"poll_seconds":     {"value": 1.0, "source": "default"},
		"drain_per_second": nil, "arrivals_per_second": nil,
	} {
		got := inputs[name].(map[string]any)
		if want == nil {
			if got["source"] != "live" || got["note"] == "" {
				t.Errorf("inputs.%s = %v", name, got)
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("inputs.%s (-want +got):\n%s", name, diff)
		}
	}
	if drain := inputs["drain_per_second"].(map[string]any)["value"].(float64); drain < 19 || drain > 20.5 {
		t.Errorf("a drain of %g/s, want 20", drain)
	}
	told := answer["live"].(map[string]any)
	checkKeys(t, told, map[string]any{"lane": "mail", "queued_rows": 300, "due_rows": 50, "held_back": false, "settled_rows": 1980, "drain_is_lower_bound": false, "takes": 1980})
	for key, want := range map[string]float64{"expected_wait_seconds": 17.5, "queue_wait_p99_seconds": 98, "last_queue_wait_seconds": 98, "queue_wait_p50_seconds": 49, "oldest_queue_wait_seconds": 100, "run_p99_seconds": 1} {
		if got := told[key].(float64); got < 0.9*want || got > 1.1*want {
			t.Errorf("%s = %g, want about %g", key, got, want)
		}
	}
	plain := ask(t, "size", "--backlog", "350", "--rate", "20", "--lease", "20m")
	delete(answer, "live")
	if diff := cmp.Diff(slices.Sorted(maps.Keys(plain)), slices.Sorted(maps.Keys(answer))); diff != "" {
		t.Errorf("keys (-without +with a lane):\n%s", diff)
	}
	text := p.size().out
	for _, want := range []string{"\nLane mail as it runs\n  300 rows are in the queue, and 50 more due: one that becomes due now waits about 17.", "99 of 100 had waited up to 98s in the queue, half of them up to 49s, the last one 98s\n",
		"\nlive     backlog 350 rows (300 wait under a claim, 50 due);\n         rate ", "lease 20m (the lane's hand-off lease)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

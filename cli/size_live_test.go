package cli_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/internal/wire"
)

// burstLane is a lane of its own, on Redis and SQLite, whose runs all take as long.
type burstLane struct {
	*testing.T
	lane, store, backend string
	run                  time.Duration
	asked                waybill.HistoryReader
}

func newBurstLane(t *testing.T, run time.Duration) *burstLane {
	b := &burstLane{T: t, lane: services.Unique(t), store: "sqlite:" + filepath.Join(t.TempDir(), "w.db"), backend: services.Redis(t), run: run}
	b.succeeds("migrate")
	store, err := wire.OpenStore(wire.StoreConfig{URL: b.store, Registry: waybill.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	b.asked = store.(waybill.HistoryReader)
	return b
}

func (b *burstLane) program() *cobra.Command {
	reg := waybill.NewRegistry()
	waybill.OnAny(reg, "slow", func(ctx context.Context, _ *waybill.Delivery) error {
		select {
		case <-time.After(b.run):
		case <-ctx.Done():
		}
		return ctx.Err()
	}, waybill.Options{Lane: b.lane, Lease: time.Minute})
	return cli.Program(reg)
}

func (b *burstLane) execute(args ...string) outcome {
	return execute(context.Background(), b.program(), "", append(args, "--store", b.store)...)
}

func (b *burstLane) succeeds(args ...string) outcome {
	b.Helper()
	got := b.execute(args...)
	if got.code != 0 {
		b.Fatalf("%v: exit code %d: %s", args, got.code, got.err)
	}
	return got
}

func (b *burstLane) fire(n int) {
	b.Helper()
	got := execute(context.Background(), b.program(), strings.Repeat(`{"name":"a","payload":1}`+"\n", n), "fire", "--file", "-", "--store", b.store)
	if got.code != 0 {
		b.Fatal(got.err)
	}
}

func (b *burstLane) background(args ...string) (stop func() outcome) {
	return background(b.T, func(ctx context.Context) outcome {
		return execute(ctx, b.program(), "", append(args, "--store", b.store, "--backend", b.backend)...)
	})
}

// rows are all of the lane.
func (b *burstLane) rows() []waybill.HistoryRow {
	b.Helper()
	rows, err := b.asked.History(b.Context(), waybill.HistoryRequest{Limit: 10_000})
	if err != nil {
		b.Fatal(err)
	}
	return rows
}

func (b *burstLane) settled() (n int) {
	for _, row := range b.rows() {
		if row.RanToTheEnd() {
			n++
		}
	}
	return n
}

type liveAnswer struct {
	MinLease float64 `json:"min_lease_seconds"`
	Wait     float64 `json:"wait_seconds"`
	Verdict  string
	Warnings []string
	Inputs   map[string]struct {
		Value  float64
		Source string
		Note   string
	}
	Live struct {
		Lane         string
		AsOf         time.Time `json:"as_of"`
		Queued       int       `json:"queued_rows"`
		Due          int       `json:"due_rows"`
		HeldBack     bool      `json:"held_back"`
		BusyRows     int       `json:"busy_settled_rows"`
		LowerBound   bool      `json:"drain_is_lower_bound"`
		ExpectedWait float64   `json:"expected_wait_seconds"`
		WaitP99      float64   `json:"queue_wait_p99_seconds"`
	}
}

func (b *burstLane) ask(args ...string) (answer liveAnswer) {
	b.Helper()
	got := b.succeeds(append([]string{"size", "--live", "--json", "--lane", b.lane}, args...)...)
	if err := json.Unmarshal([]byte(got.out), &answer); err != nil {
		b.Fatalf("%v in\n%s", err, got.out)
	}
	return answer
}

// since returns how long after the answer the last row was taken, and how much longer
// runs took from then on: the machine is shared.
func (b *burstLane) since(answer liveAnswer) (waited, slower float64) {
	b.Helper()
	var runs, sum float64
	for _, row := range b.rows() {
		after := row.TakenAt.Time().Sub(answer.Live.AsOf).Seconds()
		waited = max(waited, after)
		if after > 0 {
			runs, sum = runs+1, sum+row.SettledAt.Time().Sub(row.TakenAt.Time()).Seconds()
		}
	}
	return waited, sum / runs / answer.Inputs["service_seconds"].Value
}

// follows holds the answer to the rows of its moment, whatever pace the machine had: what
// was ahead are those that nobody had taken, the drain is what was settled until then, and
// the wait the one by the other.
func (b *burstLane) follows(answer liveAnswer) {
	b.Helper()
	var ahead, settled, lasted float64
	for _, row := range b.rows() {
		if row.TakenAt.Time().After(answer.Live.AsOf) {
			ahead++
		}
		if ago := answer.Live.AsOf.Sub(row.SettledAt.Time()).Seconds(); ago >= 0 {
			settled, lasted = settled+1, max(lasted, ago)
		}
	}
	if told := float64(answer.Live.Queued + answer.Live.Due); math.Abs(told/ahead-1) > 0.15 {
		b.Errorf("%.0f rows are ahead, and by the rows %.0f", told, ahead)
	}
	if told, drain := answer.Inputs["drain_per_second"].Value, settled/lasted; math.Abs(told/drain-1) > 0.25 {
		b.Errorf("the drain is %.1f a second, and by the rows %.1f", told, drain)
	}
	if want := ahead / answer.Inputs["drain_per_second"].Value; math.Abs(answer.Live.ExpectedWait/want-1) > 0.15 {
		b.Errorf("%.2f s are expected, and by the rows it is %.2f s", answer.Live.ExpectedWait, want)
	}
}

// What it says in the middle of a burst is what the last row then waits: where all of it
// is in the queue, as the queue tells, and where the relay's window keeps it back, as the
// rows do.
func TestSizeLiveTellsTheWait(t *testing.T) {
	t.Parallel()
	const rows, asked, run, slots = 240, 100, 100 * time.Millisecond, "4"
	for _, test := range []struct {
		window   []string
		backend  bool
		heldBack bool
	}{{[]string{"--window", "off"}, true, false}, {[]string{"--window-horizon", "1s"}, false, true}} {
		t.Run(strings.Join(test.window, " "), func(t *testing.T) {
			t.Parallel()
			b := newBurstLane(t, run)
			stopWorker := b.background("worker", "--lane", b.lane, "--slots", slots)
			b.fire(rows)
			stopRelay := b.background(append([]string{"relay", "--lane", b.lane, "--poll", "250ms"}, test.window...)...)
			poll.Until(t, "so many rows are settled", func() bool { return b.settled() >= asked })
			var args []string
			if test.backend {
				args = []string{"--backend", b.backend}
			}
			answer := b.ask(args...)
			poll.Until(t, "all rows are settled", func() bool { return b.settled() == rows })
			stopRelay()
			stopWorker()
			waited, slower := b.since(answer)
			t.Logf("expected %.2f s, at most %.2f s, waited %.2f s while runs took %.2f times as long", answer.Live.ExpectedWait, answer.Wait, waited, slower)
			b.follows(answer)
			// On a machine that changes its pace, takes and acknowledgements do as well as runs.
			pace := 2 * math.Abs(slower-1)
			if off := math.Abs(answer.Live.ExpectedWait/waited - 1); timed && off > 0.1+pace {
				t.Errorf("the last row waited %.2f s, and %.2f s were expected", waited, answer.Live.ExpectedWait)
			}
			if timed && !test.heldBack && answer.Wait*(1+pace) < waited {
				t.Errorf("the last row waited %.2f s, and %.2f s were the most", waited, answer.Wait)
			}
			if answer.Live.HeldBack != test.heldBack || answer.Live.LowerBound || answer.Live.BusyRows < 30 || answer.Verdict != "fine" {
				t.Errorf("%+v", answer)
			}
			for name, want := range map[string]string{
				"ahead_rows": "live", "drain_per_second": "live", "service_seconds": "live", "cv": "live", "lease_seconds": "live", "confidence": "default",
			} {
				if got := answer.Inputs[name].Source; got != want {
					t.Errorf("the source of %s is %q, want %q", name, got, want)
				}
			}
			// Without a queue to ask they are worked out, on whatever pace the machine has.
			if workers := answer.Inputs["workers"]; (workers.Source == "live") != test.backend || test.backend && workers.Value != 4 || workers.Value < 1 || workers.Value > 8 {
				t.Errorf("workers: %+v", workers)
			}
		})
	}
}

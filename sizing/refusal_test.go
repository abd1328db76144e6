package sizing

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// Every refusal says what is wrong, with the figure, and what to do.
func TestRefusals(t *testing.T) {
	t.Parallel()
	size := func(change func(*Load)) func() error {
		return func() error {
			load := burst28k()
			change(&load)
			_, err := Size(load)
			return err
		}
	}
	simulate := func(s Simulation) func() error {
		return func() error {
			_, err := Simulate(s)
			return err
		}
	}
	predict := func(change func(*Burst)) func() error {
		return func() error {
			b := Burst{Rows: 28_000, Drain: 20, Lease: 900 * time.Second, StaleShare: 1}
			change(&b)
			_, err := Predict(b)
			return err
		}
	}
	batch := func(lease, row time.Duration) func() error {
		return func() error {
			_, err := Batches(lease, row)
			return err
		}
	}
	stamps := func(standard time.Duration, needs ...time.Duration) func() error {
		return func() error {
			_, err := Stamps(standard, needs...)
			return err
		}
	}
	for _, c := range []struct {
		name   string
		ask    func() error
		reason error
		want   []string
	}{
		{"nothing ahead given", size(func(l *Load) { l.Ahead = Figure[int]{} }), ErrMissing, []string{"ahead is missing", "largest backlog"}},
		{"no drain given", size(func(l *Load) { l.Drain, l.Workers = Figure[float64]{}, Figure[int]{} }), ErrMissing, []string{"drain is missing", "workers and service"}},
		{"drain 0", size(func(l *Load) { l.Drain = Live(0.0, "") }), ErrNoDrain, []string{"drain is 0 with 28000 rows ahead", "no lease outlasts that"}},
		{"drain NaN", size(func(l *Load) { l.Drain = Typed(math.NaN()) }), ErrInvalid, []string{"drain_per_second is NaN", "more than 0"}},
		{"drain infinite", size(func(l *Load) { l.Drain = Typed(math.Inf(1)) }), ErrInvalid, []string{"drain_per_second is +Inf"}},
		{"drain negative", size(func(l *Load) { l.Drain = Typed(-20.0) }), ErrInvalid, []string{"drain_per_second is -20"}},
		{"ahead negative", size(func(l *Load) { l.Ahead = Typed(-1) }), ErrInvalid, []string{"ahead_rows is -1", "0 or more"}},
		{"workers 0", size(func(l *Load) { l.Workers = Typed(0) }), ErrInvalid, []string{"workers is 0", "1 or more"}},
		{"service 0", size(func(l *Load) { l.Service = Typed(time.Duration(0)) }), ErrInvalid, []string{"service_seconds is 0"}},
		{"service 0, no drain", size(func(l *Load) { l.Service, l.Drain = Typed(time.Duration(0)), Figure[float64]{} }), ErrInvalid, []string{"service_seconds is 0"}},
		{"cv NaN", size(func(l *Load) { l.CV = Typed(math.NaN()) }), ErrInvalid, []string{"cv is NaN"}},
		{"confidence 1", size(func(l *Load) { l.Confidence = Typed(1.0) }), ErrInvalid, []string{"confidence is 1", "between 0 and 1"}},
		{"confidence 99", size(func(l *Load) { l.Confidence = Typed(99.0) }), ErrInvalid, []string{"confidence is 99"}},
		{"dispersion below 1", size(func(l *Load) { l.Dispersion = Typed(0.5) }), ErrInvalid, []string{"dispersion is 0.5"}},
		{"poll negative", size(func(l *Load) { l.Poll = Typed(-time.Second) }), ErrInvalid, []string{"poll_seconds is -1"}},
		{"lease 0", size(func(l *Load) { l.Lease = Typed(time.Duration(0)) }), ErrInvalid, []string{"lease_seconds is 0"}},
		{"lease of centuries", size(func(l *Load) { l.Lease = Typed(time.Duration(math.MaxInt64)) }), ErrInvalid, []string{"hundred years"}},
		{"batch 0", size(func(l *Load) { l.Batch = Typed(0) }), ErrInvalid, []string{"batch_rows is 0"}},
		{"stale cost twice", size(func(l *Load) { l.StaleCost, l.StaleShare = Typed(time.Second), Typed(1.0) }), ErrConflict, []string{"costs 1s, and 1 of a run"}},
		{"few samples", size(func(l *Load) { l.Drain, l.Samples = Live(20.0, ""), Live(12, "") }), ErrFewSamples, []string{"12 settled rows", "needs 30", "measure for longer"}},
		{"live without samples", size(func(l *Load) { l.Drain = Live(20.0, "") }), ErrFewSamples, []string{"0 settled rows"}},
		{"arrivals", size(func(l *Load) { l.Arrivals = Typed(22.0) }), ErrArrivals, []string{"arrivals of 22/s", "the drain of 20/s: the queue grows without end", "at least 25 workers"}},
		{"arrivals that may be too many", size(func(l *Load) { l.Arrivals = Typed(19.0) }), ErrArrivals, []string{"18/s that can be counted on", "at least 22 workers"}},
		{"run longer than the lease", size(func(l *Load) {
			l.Drain, l.Service, l.Lease = Figure[float64]{}, Typed(70*time.Second), Typed(time.Minute)
		}), ErrRunTooLong, []string{"70s on average", "lease is 1m0s", "heartbeat"}},
		{"row longer than the lease", size(func(l *Load) { l.PerRow, l.Lease = Typed(70*time.Second), Typed(time.Minute) }), ErrRunTooLong, []string{"1m10s does not fit", "1m0s"}},
		{"thousands of years", size(func(l *Load) { l.Drain = Typed(1e-7) }), ErrTooLong, []string{"hundred years"}},

		{"batch: row longer", batch(time.Minute, 70*time.Second), ErrRunTooLong, []string{"1m10s does not fit a lease of 1m0s"}},
		{"batch: lease 0", batch(0, time.Second), ErrInvalid, []string{"lease is 0s"}},
		{"batch: row 0", batch(time.Second, 0), ErrInvalid, []string{"per row is 0s"}},
		{"stamps: lease negative", stamps(time.Minute, -1), ErrInvalid, []string{"lease is -1ns"}},
		{"stamps: standard 0", stamps(0), ErrInvalid, []string{"lease is 0s"}},

		{"predict: rows negative", predict(func(b *Burst) { b.Rows = -1 }), ErrInvalid, []string{"rows is -1"}},
		{"predict: drain 0", predict(func(b *Burst) { b.Drain = 0 }), ErrNoDrain, []string{"28000 rows"}},
		{"predict: drain NaN", predict(func(b *Burst) { b.Drain = math.NaN() }), ErrInvalid, []string{"drain is NaN"}},
		{"predict: lease 0", predict(func(b *Burst) { b.Lease = 0 }), ErrInvalid, []string{"lease is 0s"}},
		{"predict: share NaN", predict(func(b *Burst) { b.StaleShare = math.NaN() }), ErrInvalid, []string{"stale share is NaN"}},
		{"predict: relay rate", predict(func(b *Burst) { b.RelayRate = -1 }), ErrInvalid, []string{"relay rate is -1"}},

		{"scenario", simulate(Simulation{Scenario: "flood"}), ErrInvalid, []string{`scenario is "flood"`, "burst, steady", "incident"}},
		{"window", simulate(Simulation{Window: "on"}), ErrInvalid, []string{`window is "on"`, "off or auto"}},
		{"simulated drain 0", simulate(Simulation{Drain: Typed(0.0)}), ErrNoDrain, []string{"drain is 0"}},
		{"simulated drain NaN", simulate(Simulation{Drain: Typed(math.NaN())}), ErrInvalid, []string{"drain_per_second is NaN"}},
		{"contradiction", simulate(Simulation{Drain: Typed(20.0), Workers: Typed(4), Service: Typed(time.Second)}), ErrConflict, []string{"4 workers with runs of 1s do 4 rows a second", "20/s"}},
		{"many rows", simulate(Simulation{Rows: Typed(1_000_000_000)}), ErrTooLarge, []string{"rows are 1000000000", "2000000 at most", "Predict"}},
		{"many workers", simulate(Simulation{Workers: Typed(2_000_000)}), ErrTooLarge, []string{"workers is 2000000"}},
		{"simulated arrivals", simulate(Simulation{Scenario: ScenarioSteady, Arrivals: Typed(20.0)}), ErrArrivals, []string{"arrivals of 20/s", "drain of 20/s"}},
		{"no arrivals", simulate(Simulation{Scenario: ScenarioSteady, Arrivals: Typed(0.0)}), ErrInvalid, []string{"arrivals are 0"}},
		{"simulated run", simulate(Simulation{Workers: Typed(1), Service: Typed(2 * time.Minute)}), ErrRunTooLong, []string{"120s on average", "1m0s"}},
		{"target", simulate(Simulation{Target: Typed(20 * time.Second)}), ErrInvalid, []string{"horizon 20s", "quarter of the lease 1m0s"}},
		{"replay and rows", simulate(Simulation{Replay: []time.Duration{0}, Rows: Typed(1)}), ErrConflict, []string{"leave rows and arrivals out"}},
		{"replay before the beginning", simulate(Simulation{Replay: []time.Duration{-time.Second}}), ErrInvalid, []string{"from -1s"}},
		{"fault share", simulate(Simulation{Scenario: ScenarioBrokerLoss, FaultShare: Typed(1.5)}), ErrInvalid, []string{"fault_share is 1.5"}},
		{"slowdown", simulate(Simulation{Scenario: ScenarioSlow, Slowdown: Typed(0.5)}), ErrInvalid, []string{"slowdown is 0.5"}},
		{"poll 0", simulate(Simulation{Poll: Typed(time.Duration(0))}), ErrInvalid, []string{"poll_seconds is 0"}},
		{"events", simulate(Simulation{MaxEvents: -1}), ErrInvalid, []string{"events is -1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := c.ask()
			var refusal *Refusal
			if !errors.As(err, &refusal) || !errors.Is(err, c.reason) {
				t.Fatalf("%v (%T), want a refusal for: %v", err, err, c.reason)
			}
			if refusal.Hint == "" || refusal.Problem == "" || err.Error() != fmt.Sprintf("%s; %s", refusal.Problem, refusal.Hint) {
				t.Errorf("refusal %+v", refusal)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestHeartbeatLetsARunOutlastTheLease(t *testing.T) {
	t.Parallel()
	load := Load{Ahead: Typed(10), Workers: Typed(20), Service: Typed(70 * time.Second), Lease: Typed(time.Minute), Heartbeat: true}
	if _, err := Size(load); err != nil {
		t.Error(err)
	}
}

package sizing

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"
)

// vectors were worked out apart from this package.
type vectors struct {
	Batch []struct {
		Lease  float64 `json:"lease_s"`
		PerRow float64 `json:"per_row_s"`
		Fit    int64   `json:"rows_fit"`
		Skip   int64   `json:"rows_skip_extension"`
	} `json:"batch"`
	Size []struct {
		In struct {
			Ahead, Workers, Samples    int
			Mean, CV, Drain, Lambda, P float64
			Poll, Send                 float64
		} `json:"in"`
		Out struct {
			Drain, DrainLow, Bare, Noise, Steady, Wait, Lease float64
		} `json:"out"`
		Holds60       int `json:"max_ahead_60"`
		Holds900      int `json:"max_ahead_900"`
		WorkersFor900 int `json:"workers_for_900"`
	} `json:"size"`
	Stale []struct {
		Rows       int             `json:"rows"`
		Drain      float64         `json:"drain"`
		Kappa      float64         `json:"kappa"`
		Lease      float64         `json:"lease_s"`
		RelayRate  json.RawMessage `json:"relay_rate"`
		ClosedForm json.RawMessage `json:"closed_form"`
		Recursion  int             `json:"recursion"`
		Converges  bool            `json:"recursion_converges"`
		Finish     float64         `json:"recursion_finish_s"`
	} `json:"stale"`
	Stamp []struct {
		EveryLane bool      `json:"every_lane"`
		Standard  float64   `json:"lease_seconds"`
		Needs     []float64 `json:"needs_s"`
		Stamped   float64   `json:"stamped_s"`
		Why       string    `json:"why"`
	} `json:"stamp"`
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Batch) != 8 || len(v.Size) != 7 || len(v.Stale) != 13 || len(v.Stamp) != 6 {
		t.Fatalf("%d, %d, %d and %d vectors", len(v.Batch), len(v.Size), len(v.Stale), len(v.Stamp))
	}
	return v
}

// span is a number of seconds, to the nanosecond.
func span(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }

func TestBatchVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Batch {
		got := batches(span(v.Lease), span(v.PerRow))
		if got.InsideLease != v.Fit || got.WithoutExtension != v.Skip {
			t.Errorf("lease %v, %v a row: %+v, want %d and %d", v.Lease, v.PerRow, got, v.Fit, v.Skip)
		}
		if _, err := Batches(span(v.Lease), span(v.PerRow)); (err != nil) != (v.Fit == 0) {
			t.Errorf("lease %v, %v a row: %v, and %d rows fit", v.Lease, v.PerRow, err, v.Fit)
		}
	}
}

func TestSizeVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Size {
		load := Load{
			Ahead: Typed(v.In.Ahead), Workers: Typed(v.In.Workers), Service: Typed(span(v.In.Mean)), CV: Typed(v.In.CV),
			Arrivals: Typed(v.In.Lambda), Confidence: Typed(v.In.P),
			Poll: Typed(span(v.In.Poll)), Send: Typed(span(v.In.Send)), Batch: Typed(1),
		}
		if v.In.Drain > 0 {
			load.Drain = Typed(v.In.Drain)
		}
		if v.In.Samples > 0 {
			load.Samples = Typed(v.In.Samples)
		}
		m, err := load.resolve()
		if err != nil {
			t.Errorf("%+v: %v", v.In, err)
			continue
		}
		for _, c := range []struct {
			name      string
			got, want float64
		}{
			{"drain", m.drain, v.Out.Drain},
			{"low drain", m.low, v.Out.DrainLow},
			{"bare", m.bare(), v.Out.Bare},
			{"noise", m.noise(), v.Out.Noise},
			{"steady", m.steady(), v.Out.Steady},
			{"wait", m.wait(), v.Out.Wait},
			{"lease", roundLease(m.wait()), v.Out.Lease},
			{"holds at 60", float64(m.holds(60)), float64(v.Holds60)},
			{"holds at 900", float64(m.holds(900)), float64(v.Holds900)},
		} {
			if math.Abs(c.got-c.want) > 1e-9*math.Max(1, c.want) {
				t.Errorf("%+v: %s is %v, want %v", v.In, c.name, c.got, c.want)
			}
		}
		if workers, ok := m.workersFor(900); workers != v.WorkersFor900 || !ok {
			t.Errorf("%+v: %d workers for 900 s (%t), want %d", v.In, workers, ok, v.WorkersFor900)
		}
		answer, err := Size(load)
		if err != nil {
			t.Errorf("%+v: %v", v.In, err)
			continue
		}
		if got := answer.Lease.Duration().Seconds(); got != v.Out.Lease {
			t.Errorf("%+v: lease %v, want %v", v.In, got, v.Out.Lease)
		}
		if got := answer.Wait.Duration().Seconds(); math.Abs(got-v.Out.Wait) > 1e-8 {
			t.Errorf("%+v: wait %v, want %v", v.In, got, v.Out.Wait)
		}
	}
}

func TestStaleVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Stale {
		burst := Burst{Rows: v.Rows, Drain: v.Drain, StaleShare: v.Kappa, Lease: span(v.Lease)}
		if string(v.RelayRate) != `"instant"` {
			if err := json.Unmarshal(v.RelayRate, &burst.RelayRate); err != nil {
				t.Fatal(err)
			}
		}
		stale, finish, converges := burst.onePass()
		if int(stale) != v.Recursion || converges != v.Converges || math.Round(finish) != v.Finish {
			t.Errorf("%+v: %v stale, done at %v (%t), want %d, %v (%t)", burst, stale, finish, converges, v.Recursion, v.Finish, v.Converges)
		}
		if v.ClosedForm == nil {
			continue
		}
		p, err := Predict(burst)
		if err != nil {
			t.Errorf("%+v: %v", burst, err)
		}
		var want int
		if string(v.ClosedForm) == `"does not converge"` {
			if p.Converges || burst.Rows < p.CollapseBacklog {
				t.Errorf("%+v: %+v, want that it does not converge", burst, p)
			}
		} else if err := json.Unmarshal(v.ClosedForm, &want); err != nil {
			t.Fatal(err)
		} else if p.StaleCopies != want || !p.Converges {
			t.Errorf("%+v: %+v, want %d stale copies", burst, p, want)
		}
	}
}

func TestStampVectors(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t).Stamp {
		var needs []time.Duration
		for _, need := range v.Needs {
			needs = append(needs, span(need))
		}
		if v.EveryLane { // whatever its receivers need, they are of several lanes
			needs = append(needs, span(v.Standard))
		}
		stamps, err := Stamps(span(v.Standard), needs...)
		if err != nil {
			t.Fatal(err)
		}
		for _, stamp := range stamps {
			if stamp.Stamped.Duration() != span(v.Stamped) {
				t.Errorf("%s: %+v, want %v", v.Why, stamp, v.Stamped)
			}
		}
	}
	stamps, err := Stamps(5*time.Minute, 30*time.Minute)
	if want := (Stamp{Seconds(30 * time.Minute), Seconds(330 * time.Second), true, Seconds(30 * time.Minute)}); err != nil || stamps[0] != want {
		t.Errorf("a lease longer than the standard one: %+v (%v), want %+v", stamps, err, want)
	}
}

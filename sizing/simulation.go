package sizing

import "time"

// Simulation is a lane, and what happens to it. Everything has a default; the zero
// Simulation is a burst of 28,000 rows on two relays with a window and 20 workers.
type Simulation struct {
	Scenario Scenario // Defaults to ScenarioBurst.
	Window   Window   // Defaults to WindowAuto, and to WindowOff in ScenarioIncident.

	Rows Figure[int] // that are due at once, or arrive in ScenarioSteady. 28,000
	// Drain is how many rows a second the workers settle (20), Workers how many run
	// at once (20), Service how long a run takes on average. Two tell the third.
	Drain   Figure[float64]
	Workers Figure[int]
	Service Figure[time.Duration]
	CV      Figure[float64] // 1: exponential. 0: all the same. Anything else: lognormal
	// Arrivals is how many rows a second arrive, at random: all of them in
	// ScenarioSteady (0.8 of the drain), else besides the burst while the workers
	// would need for it (0).
	Arrivals Figure[float64]
	// Replay is when each row arrives, since the beginning, in place of all that.
	Replay []time.Duration

	Lease         Figure[time.Duration] // 1m, and 15m in ScenarioIncident
	StandardLease Figure[time.Duration] // 5m, see Load
	StaleCost     Figure[time.Duration] // 5ms
	StaleShare    Figure[float64]       // instead: the same as a share of a run

	Relays Figure[int]           // 2
	Poll   Figure[time.Duration] // 1s
	Batch  Figure[int]           // 100
	Send   Figure[time.Duration] // 1ms, and 0 in ScenarioIncident
	Target Figure[time.Duration] // the window's: 10s, or a quarter of the lease if that is less

	// FaultAt and FaultFor are when something goes wrong (5m) and for how long, in the
	// scenarios in which something does: workers-down 10m, slow 5m, relay-loss 1m. A
	// broker that loses its messages takes new ones at once unless FaultFor is given.
	FaultAt  Figure[time.Duration]
	FaultFor Figure[time.Duration]
	// FaultShare is the share of the workers, of the messages or of the relays that is
	// lost. Defaults to 1.
	FaultShare Figure[float64]
	// Slowdown is how many times longer a run takes in ScenarioSlow. Defaults to 20.
	Slowdown Figure[float64]

	// Seed makes other random runs: the same seed always makes the same ones.
	Seed uint64
	// MaxEvents bounds the simulation. Defaults to 5,000,000.
	MaxEvents int
}

// Result is what a simulation came to.
type Result struct {
	Scenario Scenario `json:"scenario"`
	Window   Window   `json:"window"`
	// StaleCopies is how many messages reached a worker after their rows had been
	// claimed again.
	StaleCopies int `json:"stale_copies"`
	// Finish is when the last row was settled; where it does not converge, when the
	// simulation was stopped.
	Finish Seconds `json:"finish_seconds"`
	// DeepestQueue is the most messages that the queue held, stale ones included.
	DeepestQueue int `json:"deepest_queue"`
	// LongestWait is the longest that a row waited from its hand-off to the worker
	// that took it.
	LongestWait Seconds `json:"longest_wait_seconds"`
	// WritesPerRow counts claims, extensions, takes and acknowledgements.
	WritesPerRow float64 `json:"writes_per_row"`
	// Converges is whether every row was settled. Stopped says why not.
	Converges bool   `json:"converges"`
	Stopped   string `json:"stopped,omitempty"`

	Rows    int `json:"rows"`
	Settled int `json:"settled_rows"`
	// Hit is how many rows a fault hit: whose message, run or hand-off was lost.
	// Recovery is how long after the fault's beginning the last of them was settled.
	Hit      int     `json:"hit_rows"`
	Recovery Seconds `json:"recovery_seconds"`

	// Predicted is the same by Predict, where that is about this: rows that are due at
	// once, with no fault and no window.
	Predicted *Prediction `json:"predicted,omitempty"`

	Events   int      `json:"events"`
	Inputs   Inputs   `json:"inputs"`
	Warnings []string `json:"warnings"`
}

// Simulate runs a simulation: relays that claim and send, a queue that is first in,
// first out, and workers that take, run and acknowledge, event by event. It is
// deterministic. It ends when every row is settled, when the queue has collapsed, or
// after MaxEvents, and says which. The error is a *Refusal.
func Simulate(s Simulation) (Result, error) {
	p, err := s.resolve()
	if err != nil {
		return Result{}, err
	}
	e := newEngine(p)
	e.run()
	result := e.result()
	if p.predictable() {
		prediction, err := Predict(p.burst())
		if err != nil {
			return Result{}, err
		}
		result.Predicted = &prediction
	}
	return result, nil
}

package sizing

import (
	"slices"
	"strings"
	"time"
)

// Scenario is what happens in a simulation.
type Scenario string

const (
	// ScenarioBurst is rows that are all due at once, and nothing goes wrong.
	ScenarioBurst Scenario = "burst"
	// ScenarioSteady is rows that arrive one by one.
	ScenarioSteady Scenario = "steady"
	// ScenarioWorkersDown kills the workers in the middle of a burst. They come back.
	ScenarioWorkersDown Scenario = "workers-down"
	// ScenarioSlow makes runs slower for a time, in the middle of a burst.
	ScenarioSlow Scenario = "slow"
	// ScenarioBrokerLoss loses the messages that are in the queue, in the middle of a
	// burst.
	ScenarioBrokerLoss Scenario = "broker-loss"
	// ScenarioRelayLoss kills the relays in the middle of a burst. They come back.
	ScenarioRelayLoss Scenario = "relay-loss"
	// ScenarioIncident is a burst that was reported with figures: 28,000 rows, a lease
	// of 900 s, 20 rows a second. Relays send at once and runs are perfectly even, so
	// that it can be worked out by hand.
	ScenarioIncident Scenario = "incident"
)

var scenarios = []Scenario{
	ScenarioBurst, ScenarioSteady, ScenarioWorkersDown, ScenarioSlow, ScenarioBrokerLoss, ScenarioRelayLoss, ScenarioIncident,
}

// Scenarios returns the names of all scenarios.
func Scenarios() []Scenario { return slices.Clone(scenarios) }

func (s Scenario) check() error {
	if slices.Contains(scenarios, s) {
		return nil
	}
	names := make([]string, len(scenarios))
	for i, known := range scenarios {
		names[i] = string(known)
	}
	return refuse(ErrInvalid, "give one of "+strings.Join(names, ", "), "scenario is %q", string(s))
}

// Window says whether the relays of a simulation bound what they have out.
type Window string

const (
	WindowOff  Window = "off"
	WindowAuto Window = "auto"
)

// habit is what a scenario sets where nobody says otherwise.
type habit struct {
	window   Window
	lease    time.Duration
	cv       float64
	relays   int
	send     time.Duration
	arrivals float64 // as a share of the drain
	faultAt  time.Duration
	faultFor time.Duration
	slowdown float64
}

func (s Scenario) habit() habit {
	h := habit{window: WindowAuto, lease: time.Minute, cv: DefaultCV, relays: 2, send: DefaultSend, faultAt: 5 * time.Minute, slowdown: 20}
	switch s {
	case ScenarioSteady:
		h.arrivals = 0.8
	case ScenarioWorkersDown:
		h.faultFor = 10 * time.Minute
	case ScenarioSlow:
		h.faultFor = 5 * time.Minute
	case ScenarioRelayLoss:
		h.faultFor = time.Minute
	case ScenarioIncident:
		h.window, h.lease, h.cv, h.relays, h.send = WindowOff, 15*time.Minute, 0, 1, 0
	}
	return h
}

// fault is something that goes wrong from a moment to another.
type fault struct {
	kind     Scenario // one of those that something goes wrong in
	from, to time.Duration
	share    float64 // of the workers, messages or relays
	slowdown float64
}

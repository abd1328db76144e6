package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/sizing"
)

// simulateQuestion is what `bridge simulate` is asked.
type simulateQuestion struct {
	simulation sizing.Simulation
	scenario   string
	window     string
	staleCost  staleCost
	most       sizing.Figure[int]
	asJSON     bool

	arrivalsFrom string
	lane         string
	newest       sizing.Figure[int]
}

func simulateCommand(a *app) *cobra.Command {
	var q simulateQuestion
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Play a lane through, event by event, with what goes wrong",
		Long: `Play a lane through, event by event: relays that claim and send, a queue that is
first in, first out, and workers. The same --seed always gives the same, and nothing is
asked of a store or a queue but for --arrivals-from store.

Scenarios:
  burst          rows that are all due at once
  steady         rows that arrive one by one
  workers-down   a burst; all workers die after 5m and come back 10m later
  slow           a burst; after 5m runs take 20 times as long, for 5m
  broker-loss    a burst; after 5m the queue loses its messages
  relay-loss     a burst; all relays die after 5m and come back 1m later
  incident       a burst that was reported: 28,000 tasks, a lease of 900s, 20 a second

With --window auto relays send no more than workers soon start, and claim no row again
whose message the queue has not reached, as "bridge relay" does: it is the same code
that decides. The default is auto, and off in incident.

With --arrivals-from rows arrive as they did, whatever the scenario then does to them.
"store" replays when the newest rows of --lane became due, as --store has them. Anything
else is a file, or - for standard input, with one moment on each line, none before the
line above it: RFC 3339 times, as in 2026-01-31T12:00:00.5Z, or numbers of seconds.

Exit codes: 0 every row was settled; 5 the queue collapsed, every copy was stale when
a worker reached it; 6 the simulation was stopped before it was done. 1 is a question
that has no answer and 2 wrong usage, as ever.

With --json durations are numbers of seconds. "predicted" is what "bridge size" says
of the same, where there is neither window nor fault.`,
		Example: `  bridge simulate --scenario incident
  bridge simulate --scenario incident --stale-cost full --window auto
  bridge simulate --backlog 5000 --workers 10 --run 500ms --lease 60s --window off
  bridge simulate --scenario broker-loss --json
  bridge simulate --scenario steady --backlog 10000 --arrivals 15 --seed 7
  bridge simulate --arrivals-from store --lane mail --workers 20 --run 1s
  bridge simulate --arrivals-from arrivals.txt --scenario workers-down`,
		Args: cobra.NoArgs,
		RunE: running(func(cmd *cobra.Command, _ []string) error { return q.answer(cmd, a) }),
	}
	flags, s := cmd.Flags(), &q.simulation
	flags.StringVar(&q.scenario, "scenario", string(sizing.ScenarioBurst), "what happens; see above")
	flags.StringVar(&q.window, "window", "", "off or auto (default auto, and off in incident)")
	flags.Uint64Var(&s.Seed, "seed", 0, "makes other random runs")
	flags.Var(countFlag(&s.Rows, 1), "backlog", "`rows` that are due at once, or in steady all that arrive (default 28000)")
	flags.Var(numberFlag(&s.Drain, "rows/s", mustNotBeNegative, notNegative), "rate", "`rows` a second that all workers together settle (default 20)")
	flags.Var(countFlag(&s.Workers, 1), "workers", "`runs` at once, in all worker processes together (default 20)")
	flags.Var(durationFlag(&s.Service, false), "run", "how long a run takes on average (default workers ÷ rate)")
	flags.Var(numberFlag(&s.CV, "number", mustNotBeNegative, notNegative), "cv", "standard deviation of a run's time over its average (default 1, and 0 in incident)")
	flags.Var(numberFlag(&s.Arrivals, "rows/s", mustNotBeNegative, notNegative), "arrivals", "`rows` a second that arrive besides the backlog (default 0, and 0.8 of the rate in steady)")
	flags.StringVar(&q.arrivalsFrom, "arrivals-from", "", "replay arrivals: store, or a `file` of one time or number of seconds a line")
	flags.StringVar(&q.lane, "lane", waybill.DefaultLane, "`lane` whose arrivals are replayed, with --arrivals-from store")
	flags.Var(countFlag(&q.newest, 1), "newest", "replay so many of its newest `rows` at most (default 100000)")
	flags.Var(durationFlag(&s.Lease, false), "lease", "the receivers' lease (default 1m, and 15m in incident)")
	flags.Var(&q.staleCost, "stale-cost", "how long a stale copy keeps a worker, or full (default 5ms)")
	flags.Var(countFlag(&s.Relays, 1), "relays", "relays of the lane (default 2, and 1 in incident)")
	flags.Var(durationFlag(&s.Target, false), "window-horizon", "how long the window's rows may wait for a worker (default 10s, at most a quarter of the lease)")
	flags.Var(durationFlag(&s.FaultAt, true), "fault-at", "when something goes wrong (default 5m)")
	flags.Var(durationFlag(&s.FaultFor, true), "fault-for", "how long that lasts (default as above)")
	flags.Var(numberFlag(&s.FaultShare, "share", "must be more than 0 and at most 1, as in 0.5", func(value float64) bool { return value > 0 && value <= 1 }),
		"fault-share", "`share` of the workers, messages or relays that is lost (default 1)")
	flags.Var(numberFlag(&s.Slowdown, "times", "must be 1 or more", func(value float64) bool { return value >= 1 }),
		"slowdown", "how many `times` longer runs take in slow (default 20)")
	flags.Var(countFlag(&q.most, 1), "max-events", "stop after so many events (default 5000000)")
	flags.BoolVar(&q.asJSON, "json", false, "print JSON")
	return cmd
}

func (q *simulateQuestion) answer(cmd *cobra.Command, a *app) error {
	s := &q.simulation
	s.Scenario, s.Window = sizing.Scenario(q.scenario), sizing.Window(q.window)
	s.StaleCost, s.StaleShare = q.staleCost.cost, q.staleCost.share
	s.MaxEvents = q.most.Value
	if err := q.complete(cmd); err != nil {
		return err
	}
	if err := q.replay(cmd, a); err != nil {
		return err
	}
	result, err := sizing.Simulate(*s)
	if err != nil {
		return refusal(err)
	}
	report := simulateReport{Result: result}
	if q.isReported(cmd) {
		if report.Reported, err = reportedCases(); err != nil {
			return refusal(err)
		}
	}
	if q.asJSON {
		err = writeJSON(cmd.OutOrStdout(), report)
	} else {
		err = report.writeText(cmd.OutOrStdout())
	}
	switch {
	case err != nil || result.Converges:
		return err
	case report.collapsed():
		return &exitError{code: exitLapses}
	}
	return &exitError{code: exitUnknown}
}

// withFault are the scenarios in which something goes wrong.
var withFault = []sizing.Scenario{
	sizing.ScenarioWorkersDown, sizing.ScenarioSlow, sizing.ScenarioBrokerLoss, sizing.ScenarioRelayLoss,
}

// complete refuses what cannot be meant: also a flag that would do nothing.
func (q *simulateQuestion) complete(cmd *cobra.Command) error {
	s := q.simulation
	if !slices.Contains(sizing.Scenarios(), s.Scenario) {
		return usagef("--scenario %s: must be one of %s", s.Scenario, joined(sizing.Scenarios()))
	}
	if cmd.Flags().Changed("window") && s.Window != sizing.WindowOff && s.Window != sizing.WindowAuto {
		return usagef("--window %s: must be off or auto", s.Window)
	}
	windowed := s.Window == sizing.WindowAuto || s.Window == "" && s.Scenario != sizing.ScenarioIncident
	slow := s.Scenario == sizing.ScenarioSlow
	fault := slices.Contains(withFault, s.Scenario)
	for _, flag := range []struct {
		name  string
		does  bool
		isFor string
	}{
		{"window-horizon", windowed, "--window auto"},
		{"fault-at", fault, "the scenarios " + joined(withFault)},
		{"fault-for", fault, "the scenarios " + joined(withFault)},
		{"fault-share", fault && !slow, "the scenarios workers-down, broker-loss, relay-loss"},
		{"slowdown", slow, "the scenario slow"},
	} {
		if cmd.Flags().Changed(flag.name) && !flag.does {
			return usagef("--%s does nothing here: it is for %s", flag.name, flag.isFor)
		}
	}
	return nil
}

func joined(scenarios []sizing.Scenario) string {
	names := make([]string, len(scenarios))
	for i, scenario := range scenarios {
		names[i] = string(scenario)
	}
	return strings.Join(names, ", ")
}

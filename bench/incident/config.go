package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/waybill-go/waybill/internal/plot"
)

// The faults.
const (
	faultNone    = "none"
	faultWorkers = "workers" // all workers are killed, and stay away
	faultFlush   = "flush"   // Redis loses all it has
	faultRelay   = "relay"   // one of two relays is killed
)

// servers are where the run has its databases and queues.
type servers struct{ postgres, redis, amqp string }

// incident is one burst, whether the relay's window is on or off.
type incident struct {
	Backend string        `json:"backend"`
	Fault   string        `json:"fault"`
	Rows    int           `json:"rows"`
	Lease   time.Duration `json:"-"`
	Rate    float64       `json:"rate"` // rows a second that the slots would do if only the runs took time
	Slots   int           `json:"slots"`
	Outage  time.Duration `json:"-"` // for how long the workers are away
	Poll    time.Duration `json:"-"`
	Horizon time.Duration `json:"-"`
	Margin  time.Duration `json:"-"`
}

// config is what the flags say.
type config struct {
	servers
	incident

	window string // on, off or both
	plot   string
	json   bool
	all    bool
}

// scaled is the incident with every constant of time twenty times shorter. What the
// queue and the take add to each run leaves about 400 rows a second of the rate.
func scaled() incident {
	return incident{
		Backend: "asynq", Fault: faultNone, Rows: 28_000, Lease: 45 * time.Second, Rate: 450, Slots: 20,
		Outage: 30 * time.Second, Poll: 50 * time.Millisecond, Horizon: 500 * time.Millisecond, Margin: 250 * time.Millisecond,
	}
}

func parse(args []string) (config, error) {
	c := config{incident: scaled(), servers: environment()}
	flags := flag.NewFlagSet("incident", flag.ContinueOnError)
	flags.StringVar(&c.Backend, "backend", c.Backend, "asynq, amqp or river (in the store's database)")
	flags.StringVar(&c.Fault, "fault", c.Fault, "none, workers (killed, and away for -outage), flush (Redis loses all) or relay (one of two is killed)")
	flags.StringVar(&c.window, "window", "both", "off, auto, or both, one after the other")
	flags.IntVar(&c.Rows, "n", c.Rows, "rows of the burst")
	flags.DurationVar(&c.Lease, "lease", c.Lease, "lease of a row in the queue, and of a run")
	flags.Float64Var(&c.Rate, "rate", c.Rate, "rows a second that the workers' slots would do if nothing but the runs took time")
	flags.IntVar(&c.Slots, "slots", c.Slots, "slots of the two worker processes together; without -slots and -rate River has 28, at 630 a second")
	flags.DurationVar(&c.Outage, "outage", c.Outage, "for how long killed workers are away")
	flags.DurationVar(&c.Poll, "poll", c.Poll, "the relay's poll")
	flags.DurationVar(&c.Horizon, "horizon", c.Horizon, "the window's horizon")
	flags.DurationVar(&c.Margin, "margin", c.Margin, "the window's margin")
	flags.StringVar(&c.plot, "plot", "incident.svg", "the picture, .svg or .png; empty is none")
	flags.BoolVar(&c.json, "json", false, "print the ledgers, with all samples, as JSON")
	flags.BoolVar(&c.all, "all", false, "every variant in turn: each fault on Asynq, and the plain burst on RabbitMQ and River")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["slots"] && !given["rate"] {
		c.incident = c.suited()
	}
	return c, c.check()
}

func environment() servers {
	return servers{os.Getenv("WAYBILL_TEST_POSTGRES"), os.Getenv("WAYBILL_TEST_REDIS"), os.Getenv("WAYBILL_TEST_AMQP")}
}

func (c config) check() error {
	if c.plot != "" {
		if err := plot.CheckFile(c.plot); err != nil {
			return fmt.Errorf("-plot %w", err)
		}
	}
	switch {
	case !slices.Contains([]string{"off", "auto", "both"}, c.window):
		return fmt.Errorf("-window %s: want off, auto or both", c.window)
	case c.all && (c.Backend != "asynq" || c.Fault != faultNone || c.window != "both"):
		return errors.New("-all is every backend, fault and window: leave -backend, -fault and -window out")
	case c.postgres == "" || c.redis == "" || c.amqp == "":
		return errors.New(`WAYBILL_TEST_POSTGRES, WAYBILL_TEST_REDIS and WAYBILL_TEST_AMQP are not set: run make incident, or eval "$(make -s services)" first`)
	}
	return c.incident.check()
}

func (i incident) check() error {
	switch {
	case !slices.Contains([]string{"asynq", "amqp", "river"}, i.Backend):
		return fmt.Errorf("-backend %s: want asynq, amqp or river", i.Backend)
	case !slices.Contains([]string{faultNone, faultWorkers, faultFlush, faultRelay}, i.Fault):
		return fmt.Errorf("-fault %s: want none, workers, flush or relay", i.Fault)
	case i.Fault == faultFlush && i.Backend != "asynq":
		return fmt.Errorf("-fault flush is for -backend asynq, not for %s", i.Backend)
	case i.Rows < 100 || i.Slots < workers || !(i.Rate > 0 && i.Rate <= 1e6):
		return fmt.Errorf("-n must be at least 100, -slots at least %d and -rate positive", workers)
	case i.Lease < time.Second || i.Outage <= 0 || i.Poll <= 0 || i.Horizon <= 0 || i.Margin <= 0:
		return errors.New("-lease must be at least 1s, and -outage, -poll, -horizon and -margin positive")
	}
	return nil
}

// suited gives River more slots for runs as long as before: its clients fetch in steps,
// which leaves some of them idle, and the drain is to be the same.
func (i incident) suited() incident {
	if i.Backend == "river" {
		i.Slots, i.Rate = i.Slots*7/5, i.Rate*7/5
	}
	return i
}

// standard is what a lease is stamped with at the most: five minutes beside the
// report's fifteen.
func (i incident) standard() time.Duration { return i.Lease / 3 }

// service is how long a run takes.
func (i incident) service() time.Duration {
	return time.Duration(float64(i.Slots) / i.Rate * float64(time.Second))
}

// relays is how many there are: one is to outlive the other.
func (i incident) relays() int {
	if i.Fault == faultRelay {
		return 2
	}
	return 1
}

// variants are what -all is, the plain burst first.
func (i incident) variants() []incident {
	var all []incident
	for _, v := range []struct{ backend, fault string }{
		{"asynq", faultNone}, {"asynq", faultWorkers}, {"asynq", faultFlush}, {"asynq", faultRelay},
		{"amqp", faultNone}, {"river", faultNone},
	} {
		variant := i
		variant.Backend, variant.Fault = v.backend, v.fault
		all = append(all, variant.suited())
	}
	return all
}

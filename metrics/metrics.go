// Package metrics tells Prometheus what a process does and what is owed.
//
// A Collector is fed in two ways. Counters and histograms come from what relays and
// workers are seen to do: Collector.Observe is their Observer. Gauges come from the
// store and the queues, which are asked when Prometheus asks, within bounds and not
// at every scrape: see Config. A figure that nobody knows has no sample, and never a
// false zero.
//
// Labels are lanes, receivers, statuses, refusals and sites, never ids, so that the
// number of series is bounded by what is declared. Rows of receivers that nobody
// declares are counted under the receiver Undeclared.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-go/waybill"
)

// Defaults.
const (
	DefaultWait    = 3 * time.Second
	DefaultMaxAge  = 10 * time.Second
	DefaultTimeout = 30 * time.Second
)

// Undeclared is the receiver under which the rows of all receivers that are not
// declared are counted.
const Undeclared = "(undeclared)"

// Config configures a Collector. Registry is required.
type Config struct {
	// Registry says which receivers there are, and in which lanes.
	Registry *waybill.Registry
	// Store is asked what is owed and what is in flight. Defaults to nil: no
	// samples of that.
	Store waybill.StatusReader
	// Queues are asked for their backlogs, by lane. Defaults to none.
	Queues map[string]waybill.BacklogReader

	// Relays are the lanes that this process has a relay for: their counters begin
	// at zero, so that the first thing that happens is an increase.
	Relays []string
	// Worker says that receivers run in this process: their counters begin at zero.
	Worker bool

	// Wait is how long a scrape waits for what it asks. What takes longer is in a
	// later scrape; this one has what was known before, if anything was. Defaults
	// to 3s.
	Wait time.Duration
	// MaxAge is for how long an answer serves every scrape. One that took long
	// serves for twenty times as long as it took: scrapes keep a store busy for a
	// twentieth of the time at most, however many there are. Defaults to 10s.
	MaxAge time.Duration
	// Timeout is when a question that is not answered is given up. Its samples are
	// absent from then on until an answer comes. Defaults to 30s.
	Timeout time.Duration

	Logger *slog.Logger // Defaults to slog.Default().
}

// Collector is a prometheus.Collector of everything that Waybill measures.
type Collector struct {
	config   Config
	observed *observed
	backlog  *backlog

	asking context.Context // ends with Close
	stop   context.CancelFunc
	mu     sync.Mutex // guards the start of questions against Close
	asked  sync.WaitGroup
}

// New validates the configuration.
func New(config Config) (*Collector, error) {
	if config.Registry == nil {
		return nil, errors.New("metrics: Config.Registry is required")
	}
	for _, bound := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"wait", &config.Wait, DefaultWait}, {"max age", &config.MaxAge, DefaultMaxAge}, {"timeout", &config.Timeout, DefaultTimeout},
	} {
		if *bound.value < 0 {
			return nil, fmt.Errorf("metrics: %s %s: must be positive", bound.name, *bound.value)
		}
		if *bound.value == 0 {
			*bound.value = bound.standard
		}
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	c := &Collector{config: config, observed: newObserved(config.Registry)}
	c.asking, c.stop = context.WithCancel(context.Background())
	c.backlog = newBacklog(c)
	c.observed.zero(config)
	return c, nil
}

// Describe sends the description of every metric there may be.
func (c *Collector) Describe(descriptions chan<- *prometheus.Desc) {
	c.observed.describe(descriptions)
	c.backlog.describe(descriptions)
}

// Collect sends what was observed, and what the store and the queues answer. It
// returns within Config.Wait, also when none of them does.
func (c *Collector) Collect(samples chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(c.asking, c.config.Wait)
	defer cancel()
	c.backlog.collect(ctx, samples)
	c.observed.collect(samples)
}

// Close gives up what is being asked, and returns when nothing is. A scrape after it
// asks nothing any more. Close before the store.
func (c *Collector) Close() {
	c.mu.Lock()
	c.stop()
	c.mu.Unlock()
	c.asked.Wait()
}

// ask asks something aside, unless the Collector is closed.
func (c *Collector) ask(question func(ctx context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking.Err() != nil {
		return false
	}
	c.asked.Go(func() {
		ctx, cancel := context.WithTimeout(c.asking, c.config.Timeout)
		defer cancel()
		question(ctx)
	})
	return true
}

// Package asynq hands deliveries to workers through Asynq on Redis.
//
// A message is an ordinary Asynq task, seen and paused by the usual tools, with
// nothing of its own to say: it is never retried, never kept and never failed,
// because retries, outcomes and debts live on the row. So whatever Redis loses
// (FLUSHALL, a failover, eviction) costs a delivery about its hand-off lease of delay,
// and whatever it repeats is refused by the row.
package asynq

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
)

// Config of a Backend.
type Config struct {
	// Redis is required. Its owner closes it, after every Consume has returned:
	// Asynq panics when its client is closed under it. Options makes its options.
	Redis redis.UniversalClient
	// Lane names the queue: waybill.QueueName(Lane). Defaults to "default".
	Lane string
	// Queue names the queue itself, instead of Lane.
	Queue string
	// Timeout bounds each round trip of Enqueue, and all of a Backlog. Defaults to
	// 5s.
	Timeout time.Duration

	// Servers is how many Asynq servers share the concurrency of a Consume.
	// Each pulls one message per round trip to Redis, so this is what lifts
	// the rate across a network. Defaults to 2.
	Servers int
	// CheckInterval is how often an empty queue is looked at, per server; a
	// message waits half of it on average. Defaults to 100ms.
	CheckInterval time.Duration
	// Prefetch is how many messages a Consume holds beyond those in its
	// handler. It hides round trips, and keeps the messages from other workers
	// meanwhile. Defaults to 0.
	Prefetch int
	// Drain bounds how long a Consume that is to end waits for handler calls
	// that run. It must be longer than they need: a worker's Drain, and more.
	// Defaults to 10m.
	Drain time.Duration

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Backend is one Asynq queue.
type Backend struct {
	config Config
	queue  string
	script *redis.Script // Asynq's enqueue script, as it was captured
	source string
	log    *slog.Logger
}

var (
	_ waybill.TaskBackend = (*Backend)(nil)
	_ waybill.Consumer    = (*Backend)(nil)
	_ waybill.Checker     = (*Backend)(nil)

	_ waybill.BacklogReader = (*Backend)(nil)
)

// queuePattern keeps braces out of queue names: Asynq puts names in braces to
// keep the keys of a queue in one slot of a Redis cluster.
var queuePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:-]*$`)

// New returns a Backend. It does not talk to Redis; Check does.
func New(config Config) (*Backend, error) {
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("asynq backend: %w", err)
	}
	b := &Backend{config: config, queue: config.Queue}
	b.log = config.Logger.With("backend", "asynq", "queue", b.queue)
	if err := b.captureScript(); err != nil {
		return nil, fmt.Errorf("asynq backend: %w", err)
	}
	return b, nil
}

func (c *Config) complete() error {
	if c.Redis == nil {
		return errors.New("no redis client")
	}
	if err := checkClient(c.Redis); err != nil {
		return err
	}
	if c.Lane == "" {
		c.Lane = waybill.DefaultLane
	}
	if c.Queue == "" {
		c.Queue = waybill.QueueName(c.Lane)
	}
	if !queuePattern.MatchString(c.Queue) {
		return fmt.Errorf("queue name %q: only letters, digits and . _ : - are allowed", c.Queue)
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"Timeout", &c.Timeout, 5 * time.Second},
		{"CheckInterval", &c.CheckInterval, 100 * time.Millisecond},
		{"Drain", &c.Drain, 10 * time.Minute},
	} {
		if *d.value < 0 {
			return fmt.Errorf("%s %s is negative", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if c.Servers < 0 || c.Prefetch < 0 {
		return fmt.Errorf("neither Servers %d nor Prefetch %d may be negative", c.Servers, c.Prefetch)
	}
	if c.Servers == 0 {
		c.Servers = 2
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return nil
}

// checkClient refuses a client that a Redis which hangs would hold: Enqueue beyond its
// deadline, or Asynq, which sets none, for ever.
func checkClient(client redis.UniversalClient) error {
	var heedsDeadlines bool
	var read, write time.Duration
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		heedsDeadlines, read, write = o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout
	case *redis.ClusterClient:
		o := c.Options()
		heedsDeadlines, read, write = o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout
	default:
		return nil // somebody's wrapper: it cannot be asked
	}
	if !heedsDeadlines {
		return errors.New("the redis client ignores deadlines: set ContextTimeoutEnabled in its options, as Options does")
	}
	if read <= 0 || write <= 0 {
		return errors.New("the redis client waits without limit: set ReadTimeout and WriteTimeout in its options, as Options does")
	}
	return nil
}

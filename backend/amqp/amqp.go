// Package amqp hands deliveries to workers through a queue on RabbitMQ.
//
// A message is persistent, in a durable queue of its lane's name, and is published
// with confirms, so that the broker's word is known for each. The queue has no
// argument but its type: retries, dead letters and limits live on the row, and
// what an operator wants beside that is a policy's business. Whatever RabbitMQ
// loses (a deleted queue, a node without its disk) costs a delivery at most one
// lease of delay, and whatever it repeats is refused by the row.
package amqp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// Config of a Backend.
type Config struct {
	// URLs is required: amqp://user:password@host:port/vhost, or amqps:// for
	// TLS, one for each node. They are tried in turn, and each new connection
	// begins one further than the last did.
	URLs []string
	// Lane names the queue: waybill.QueueName(Lane). Defaults to "default".
	Lane string
	// Queue names the queue itself, instead of Lane.
	Queue string
	// Type is "quorum" or "classic": what the queue is declared as. Defaults to
	// "quorum", the only type that newer versions replicate.
	Type string
	// Passive: the queue is never declared, only looked for. It is for users
	// who lack the permission to configure it.
	Passive bool
	// Strict: a queue that exists and was declared otherwise is an error, and
	// not a warning.
	Strict bool
	// Expiration drops a message from the queue that long after it was sent. It
	// keeps a queue that nobody empties from growing, by what was enqueued again
	// after its lease had lapsed, and must be no shorter than the time for which
	// the message can be of use: 20 times the longest hand-off lease of the lane with
	// the relay's window on, since a lapsed row that nobody claimed again may still
	// be taken by its own message; that lease with the window off.
	// Defaults to 0: never.
	Expiration time.Duration

	// TLS is for amqps:// URLs, instead of what their parameters say. It is
	// copied for each connection.
	TLS *tls.Config
	// Name is the name of the connections in RabbitMQ's tools, where what each
	// is for is added to it. Defaults to "waybill@" and the host's name.
	Name string

	// DialTimeout bounds each attempt to connect, login included. Defaults to
	// 10s; connection_timeout in a URL, in milliseconds, overrides it.
	DialTimeout time.Duration
	// WriteTimeout bounds each write to a connection, which is given up when it
	// is over. Defaults to 15s.
	WriteTimeout time.Duration
	// ConfirmTimeout bounds the wait for the broker's word on up to 500
	// messages. It must be well below the lease. Defaults to 15s.
	ConfirmTimeout time.Duration
	// Heartbeat is how often either side shows that it is there; a peer that is
	// silent for longer than that is given up. Whole seconds. Defaults to 10s;
	// heartbeat in a URL overrides it.
	Heartbeat time.Duration
	// AckCap is how long a run's message is kept unacknowledged. A run that takes
	// longer is acknowledged then and goes on. It must be below half of the
	// broker's consumer_timeout, which is 30m by default. Defaults to 10m.
	AckCap time.Duration
	// Drain bounds how long a Consume that is to end waits for handler calls
	// that run. It must be longer than they need: a worker's Drain, and more.
	// Defaults to 10m.
	Drain time.Duration

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// The types of a queue.
const (
	quorum  = "quorum"
	classic = "classic"
)

var (
	// ErrUnavailable: there is no connection to the broker.
	ErrUnavailable = errors.New("no connection to rabbitmq")
	// ErrBlocked: the broker takes no messages because it is short of memory or
	// disk. Consumers go on, and so does Enqueue when the alarm is over.
	ErrBlocked = errors.New("rabbitmq is short of memory or disk and takes no messages")
	// ErrClosed: the Backend was closed.
	ErrClosed = errors.New("the backend is closed")
)

// Backend is one queue on RabbitMQ. It has up to three kinds of connections, each
// made when it is first needed: one to publish, one to ask for the backlog, and
// one for each Consume, because a broker that takes no messages stops listening
// to the whole connection.
type Backend struct {
	config   Config
	queue    string
	dialer   *dialer
	topology *topology
	log      *slog.Logger

	turn       chan struct{} // held by the Enqueue that publishes
	publishers *supervisor[*publisher]
	inspector  *inspector
	closeOnce  sync.Once
}

var (
	_ waybill.TaskBackend   = (*Backend)(nil)
	_ waybill.Consumer      = (*Backend)(nil)
	_ waybill.Checker       = (*Backend)(nil)
	_ waybill.BacklogReader = (*Backend)(nil)
)

// New returns a Backend. It does not connect; Check does, and so does what is
// first asked of it.
func New(config Config) (*Backend, error) {
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("amqp backend: %w", err)
	}
	dialer, err := newDialer(config)
	if err != nil {
		return nil, fmt.Errorf("amqp backend: %w", err)
	}
	b := &Backend{
		config: config, queue: config.Queue, dialer: dialer,
		log:  config.Logger.With("backend", "amqp", "queue", config.Queue),
		turn: make(chan struct{}, 1),
	}
	b.topology = &topology{queue: config.Queue, kind: config.Type, passive: config.Passive, strict: config.Strict, log: b.log}
	b.publishers = newSupervisor(b.openPublisher, b.log.With("connection", "publish"))
	b.inspector = newInspector(b)
	return b, nil
}

// Close ends the connections that publish and that ask for the backlog, after
// which Enqueue and Backlog return ErrClosed. An Enqueue that runs returns what is
// known by then. Consume is ended by its context, and is left alone. Close may be
// called again, and always returns nil.
func (b *Backend) Close() error {
	b.closeOnce.Do(func() {
		b.publishers.stop()
		b.inspector.close()
	})
	return nil
}

func (c *Config) complete() error {
	if len(c.URLs) == 0 {
		return errors.New("no URL")
	}
	if c.Lane == "" {
		c.Lane = waybill.DefaultLane
	}
	if c.Queue == "" {
		c.Queue = waybill.QueueName(c.Lane)
	}
	if len(c.Queue) > 255 {
		return fmt.Errorf("queue name of %d bytes: 255 are allowed", len(c.Queue))
	}
	if c.Type == "" {
		c.Type = quorum
	}
	if c.Type != quorum && c.Type != classic {
		return fmt.Errorf("queue type %q: want %s or %s", c.Type, quorum, classic)
	}
	if c.Passive && c.Strict {
		return errors.New("it can be either Passive or Strict: how a queue was declared is not known without declaring it")
	}
	if c.Expiration < 0 || c.Expiration > 0 && c.Expiration < time.Millisecond {
		return fmt.Errorf("want an Expiration of 0 or at least 1ms, not %s", c.Expiration)
	}
	if err := c.completeDurations(); err != nil {
		return err
	}
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil || host == "" {
			host = "localhost"
		}
		c.Name = "waybill@" + host
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return nil
}

func (c *Config) completeDurations() error {
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"DialTimeout", &c.DialTimeout, 10 * time.Second},
		{"WriteTimeout", &c.WriteTimeout, 15 * time.Second},
		{"ConfirmTimeout", &c.ConfirmTimeout, 15 * time.Second},
		{"Heartbeat", &c.Heartbeat, 10 * time.Second},
		{"AckCap", &c.AckCap, 10 * time.Minute},
		{"Drain", &c.Drain, 10 * time.Minute},
	} {
		if *d.value < 0 {
			return fmt.Errorf("%s %s is negative", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if c.Heartbeat < time.Second || c.Heartbeat%time.Second != 0 {
		return fmt.Errorf("want a Heartbeat of whole seconds, not %s", c.Heartbeat)
	}
	return nil
}

package wire

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/sizing/window"
)

// Queue is both ends of a lane's queue.
type Queue interface {
	waybill.TaskBackend
	waybill.Consumer
}

// Backend opens queues.
type Backend interface {
	// InProcess reports whether messages never leave the process, so that
	// whoever enqueues also has to consume.
	InProcess() bool
	// Reach finds out whether the server can be reached and used.
	Reach(ctx context.Context) error
	// Queue returns the queue of a lane.
	Queue(lane string) (Queue, error)
	// Migrator returns what brings the backend's own schema up to date, nil if
	// it has none.
	Migrator() (waybill.Migrator, error)
	// Close closes what was opened. Consumers have to have returned.
	Close()
}

// BackendConfig says which backend to open.
type BackendConfig struct {
	URL string
	// StoreURL is the store's, for the backend that lives in its database.
	StoreURL string
	// Name is told to the server, so that its own tools can say who is
	// connected.
	Name string
	// Strict refuses a queue that somebody declared otherwise than this release
	// does, where the queue is only warned of by default.
	Strict bool
	// Registry has the leases, which say for how long a message can be of use in
	// a lane. Without one, messages stay for as long as the queue keeps them.
	Registry *waybill.Registry
	// WindowOff says that relays run without a window, so that messages are of use
	// no longer than the leases of their rows.
	WindowOff bool
	// Drain is the worker's, so that the queue waits at least as long.
	Drain  time.Duration
	Logger *slog.Logger
}

// expiration is for how long a message can be of use in a lane, zero if that is for
// ever. Without a window a row is claimed again when its hand-off lease has lapsed, and
// the message of its old claim is only in the way. With one a row is left to its message
// for as long as the window keeps lapsed rows back.
func (c BackendConfig) expiration(lane string) time.Duration {
	if c.Registry == nil {
		return 0
	}
	var longest, leases time.Duration = 0, window.DefaultMaxHold
	if c.WindowOff {
		leases = 1
	}
	for _, receiver := range c.Registry.LaneReceivers(lane) {
		longest = max(longest, c.Registry.HandOffLease(receiver))
	}
	if longest > math.MaxInt64/leases {
		return 0
	}
	return leases * longest
}

// queueDrain is how long a queue waits for handlers: longer than the worker does,
// which ends them. Zero is the queue's own default.
func (c BackendConfig) queueDrain() time.Duration {
	if c.Drain <= 0 {
		return 0
	}
	return max(10*time.Minute, c.Drain+time.Minute)
}

// OpenBackend opens a backend and does not connect to it.
func OpenBackend(config BackendConfig) (Backend, error) {
	name, _ := scheme(config.URL)
	config.URL = name + config.URL[len(name):]
	switch name {
	case "redis", "rediss":
		return openRedis(config)
	case "amqp", "amqps":
		return openRabbitMQ(config)
	case "river", "river+postgres", "river+postgresql", "river+sqlite":
		return openRiver(config)
	case "local":
		return openLocal(config)
	default:
		return nil, unknownScheme(config.URL, backendExamples)
	}
}

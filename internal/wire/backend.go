package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/backend/local"
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
	// Close closes what was opened. Consumers have to have returned.
	Close()
}

// BackendConfig says which backend to open.
type BackendConfig struct {
	URL string
	// Drain is the worker's, so that the queue waits at least as long.
	Drain  time.Duration
	Logger *slog.Logger
}

// OpenBackend opens a backend and does not connect to it.
func OpenBackend(config BackendConfig) (Backend, error) {
	name, _ := scheme(config.URL)
	config.URL = name + config.URL[len(name):]
	switch name {
	case "redis", "rediss":
		return openRedis(config)
	case "local":
		if config.URL != "local:" && config.URL != "local://" {
			return nil, errors.New("a local: URL has nothing after the colon")
		}
		return inProcess{config.Logger}, nil
	default:
		return nil, unknownScheme(config.URL, backendExamples)
	}
}

type inProcess struct{ logger *slog.Logger }

func (inProcess) InProcess() bool               { return true }
func (inProcess) Reach(context.Context) error   { return nil }
func (inProcess) Close()                        {}
func (b inProcess) Queue(string) (Queue, error) { return Local(b.logger) }

// Local returns a queue within the process.
func Local(logger *slog.Logger) (Queue, error) { return local.New(local.Config{Logger: logger}) }

type onRedis struct {
	client redis.UniversalClient
	config BackendConfig
	place  string
}

func openRedis(config BackendConfig) (Backend, error) {
	if _, err := parse(config.URL, backendExamples); err != nil {
		return nil, err
	}
	options, err := asynq.Options(config.URL)
	if err != nil {
		return nil, errUnreadable(backendExamples)
	}
	return &onRedis{client: redis.NewUniversalClient(options), config: config, place: options.Addrs[0]}, nil
}

func (b *onRedis) InProcess() bool { return false }

func (b *onRedis) Queue(lane string) (Queue, error) {
	config := asynq.Config{Redis: b.client, Lane: lane, Logger: b.config.Logger}
	if b.config.Drain > 0 {
		config.Drain = max(10*time.Minute, b.config.Drain+time.Minute)
	}
	return asynq.New(config)
}

// Close loses nothing when it fails: every message is in Redis, or was not sent.
func (b *onRedis) Close() { _ = b.client.Close() }

func (b *onRedis) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	err := b.client.Ping(ctx).Err()
	switch {
	case err == nil:
		return nil
	case redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "AUTH"), redis.HasErrorPrefix(err, "NOPERM"),
		redis.HasErrorPrefix(err, "invalid password"), redis.HasErrorPrefix(err, "Client sent AUTH"):
		return hint(fmt.Sprintf("Redis at %s refuses the login: %s", b.place, hide(b.config.URL, err)), "correct user and password in the URL")
	case redis.HasErrorPrefix(err, "DB index"), redis.HasErrorPrefix(err, "invalid DB index"): // it leaves out ERR itself
		return hint(fmt.Sprintf("Redis at %s has no such database: %s", b.place, hide(b.config.URL, err)), "correct the number at the end of the URL")
	case redis.HasErrorPrefix(err, "LOADING"):
		return hint(fmt.Sprintf("Redis at %s is loading its data", b.place), "try again in a moment")
	}
	withTLS := strings.HasPrefix(b.config.URL, "rediss:")
	if withTLS && isTimeout(err) { // a Redis without TLS waits for the greeting's end, which never comes
		return hint(fmt.Sprintf("Redis at %s: no answer in time", b.place), "is it up, and does it speak TLS? redis:// is without")
	}
	if lost := unreachable("Redis", b.place, err); lost != nil {
		return lost
	}
	do := "is it a Redis, and does it want rediss://, which is with TLS?"
	if withTLS {
		do = "is it a Redis, and does it speak TLS? redis:// is without"
	}
	return hint(fmt.Sprintf("Redis at %s: %s", b.place, hide(b.config.URL, err)), do)
}

package demo

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/alicebob/miniredis/v2"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
)

// The backends that need nothing to be installed. Any other is named by its URL.
const (
	Asynq = "asynq" // on a Redis in this process
	River = "river" // in the outbox's own database
	Local = "local" // no queue but the process
)

// openQueues makes a queue for each lane.
func openQueues(ctx context.Context, config Config, own names, outbox *outbox, leave *cleanup) (map[string]wire.Queue, error) {
	place, err := placeQueues(config, own, outbox, leave)
	if err != nil {
		return nil, err
	}
	backend, err := wire.OpenBackend(wire.BackendConfig{URL: place.url, StoreURL: outbox.url, Name: "waybill demo", Logger: config.Logger})
	if err != nil {
		return nil, fmt.Errorf("--backend: %w", err)
	}
	leave.closes(backend.Close)
	if err := backend.Reach(ctx); err != nil {
		return nil, fmt.Errorf("backend: %w", err)
	}
	if place.remove != nil {
		leave.removes(place.what, place.remove)
	}
	migrator, err := backend.Migrator()
	if err != nil {
		return nil, err
	}
	if migrator != nil {
		if _, err := migrator.Up(ctx); err != nil {
			return nil, err
		}
	}
	queues := map[string]wire.Queue{}
	for _, lane := range own.lanes() {
		if queues[lane], err = openQueue(ctx, backend, lane); err != nil {
			return nil, err
		}
	}
	return queues, nil
}

func openQueue(ctx context.Context, backend wire.Backend, lane string) (wire.Queue, error) {
	queue, err := backend.Queue(lane)
	if err != nil {
		return nil, err
	}
	if checker, ok := queue.(waybill.Checker); ok {
		if err := checker.Check(ctx); err != nil {
			return nil, fmt.Errorf("backend: %w", err)
		}
	}
	return queue, nil
}

// place is where the queues are.
type place struct {
	url  string
	what string // what is made there
	// remove is nil where all of it goes with the process, or with the outbox.
	remove func(ctx context.Context) error
}

func placeQueues(config Config, own names, outbox *outbox, leave *cleanup) (place, error) {
	if config.Backend == Asynq {
		address, err := startRedis(leave)
		return place{url: "redis://" + address + "?read_timeout=10s"}, err
	}
	scheme, _, _ := strings.Cut(config.Backend, ":")
	switch scheme {
	case Local:
		return place{url: withColon(config.Backend)}, nil
	case "redis", "rediss":
		return place{config.Backend, own.describeQueues(), func(ctx context.Context) error {
			return deleteFromRedis(ctx, config.Backend, own.queues())
		}}, nil
	case "amqp", "amqps":
		return place{config.Backend, own.describeQueues(), func(ctx context.Context) error {
			return deleteFromRabbitMQ(ctx, config.Backend, own.queues())
		}}, nil
	case River, "river+postgres", "river+postgresql":
		return placeRiver(config, own, outbox)
	default:
		return place{url: config.Backend}, nil // to be refused by whoever opens it
	}
}

// placeRiver gives River a schema of its own, where there are schemas.
func placeRiver(config Config, own names, outbox *outbox) (place, error) {
	backend := withColon(config.Backend)
	u, err := url.Parse(backend)
	if err != nil {
		return place{url: backend}, nil // to be refused by whoever opens it
	}
	query := u.Query()
	query.Del("schema")
	u.RawQuery = query.Encode()
	database, other := strings.CutPrefix(u.String(), "river+")
	if !other {
		database = outbox.url
	}
	if !other && config.Store == "" {
		return place{url: backend}, nil // in the demo's own file
	}
	query.Set("schema", own.riverSchema())
	u.RawQuery = query.Encode()
	return place{u.String(), "schema " + own.riverSchema(), func(ctx context.Context) error {
		return dropSchema(ctx, database, own.riverSchema())
	}}, nil
}

// withColon makes a URL of a backend that is named without one.
func withColon(backend string) string {
	if strings.Contains(backend, ":") {
		return backend
	}
	return backend + ":"
}

func (n names) describeQueues() string { return "queues " + strings.Join(n.queues(), " and ") }

// startRedis starts a Redis in this process and returns its address.
func startRedis(leave *cleanup) (string, error) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		return "", fmt.Errorf("start a Redis in this process: %w", err)
	}
	leave.closes(server.Close)
	return server.Addr(), nil
}

package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/bench/own"
)

// stage is a database and a queue that one run has to itself.
type stage struct {
	servers
	own.Things
	database string // its URL
	pool     *pgxpool.Pool
	at       address
	queue    *opened
	flush    func(context.Context) error // the queue loses all it has
}

// newStage makes a database and a queue on the servers. It has to be ended, also
// where it returns an error.
func newStage(ctx context.Context, servers servers, backend string) (*stage, error) {
	s := &stage{servers: servers}
	if err := s.makeDatabase(ctx); err != nil {
		return s, fmt.Errorf("make a database: %w", err)
	}
	if err := s.makeQueue(ctx, backend); err != nil {
		return s, fmt.Errorf("make a queue: %w", err)
	}
	queue, err := s.at.open(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return s, err
	}
	s.queue = queue
	s.Defer(func(context.Context) error { queue.close(); return nil })
	return s, nil
}

func (s *stage) makeDatabase(ctx context.Context) (err error) {
	if s.database, err = s.Database(ctx, s.postgres, "waybill_incident_"); err != nil {
		return err
	}
	s.pool, err = s.Outbox(ctx, s.database, 0)
	return err
}

func (s *stage) makeQueue(ctx context.Context, backend string) error {
	s.at = address{Backend: backend, Queue: "incident-" + own.Random()}
	switch backend {
	case "asynq":
		redis, err := claimRedis(ctx, s.redis)
		if err != nil {
			return err
		}
		s.at.URL, s.flush = redis.url, redis.flush
		s.Defer(redis.end)
	case "amqp":
		s.at.URL = s.amqp
		s.Defer(func(context.Context) error { return own.DeleteRabbitQueue(s.amqp, s.at.Queue) })
	case "river":
		s.at.URL, s.at.Queue = s.database, "river_"+own.Random()
		migrator, err := river.NewMigrator(s.pool, s.at.Queue)
		if err != nil {
			return err
		}
		_, err = migrator.Up(ctx)
		return err
	}
	return nil
}

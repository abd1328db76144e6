package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/bench/own"
)

// address is where a queue is.
type address struct {
	Backend string
	URL     string
	Queue   string // its name; of River, the schema
}

// queue is both ends of a queue, and what it says of itself.
type queue interface {
	waybill.TaskBackend
	waybill.Consumer
	waybill.BacklogReader
}

// opened is a queue with what it rests on.
type opened struct {
	queue
	close func()
}

func (a address) open(ctx context.Context, log *slog.Logger) (*opened, error) {
	switch a.Backend {
	case "asynq":
		options, err := asynq.Options(a.URL)
		if err != nil {
			return nil, err
		}
		asynq.LogRedis(log)
		client := redis.NewUniversalClient(options)
		backend, err := asynq.New(asynq.Config{Redis: client, Queue: a.Queue, Logger: log})
		return &opened{backend, func() { client.Close() }}, err
	case "amqp":
		backend, err := amqp.New(amqp.Config{URLs: []string{a.URL}, Queue: a.Queue, Logger: log})
		return &opened{backend, func() { backend.Close() }}, err
	case "river":
		pool, err := pgxpool.New(ctx, a.URL)
		if err != nil {
			return nil, own.ErrNoPostgres // the error quotes the URL, password and all
		}
		backend, err := river.New(river.Config{Pool: pool, Schema: a.Queue, Logger: log})
		return &opened{backend, pool.Close}, err
	}
	return nil, fmt.Errorf("no such backend: %q", a.Backend)
}

// depth is how many messages wait in the queue.
func (o *opened) depth(ctx context.Context) (n int, known bool, err error) {
	backlog, err := o.Backlog(ctx)
	if err != nil {
		return 0, false, err
	}
	ready, known := backlog.Ready.Value()
	return int(ready), known, nil
}

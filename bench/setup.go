package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/bench/own"
)

// batch is the rows of a transaction that fires, of a claim and of an enqueue.
const batch = 100

// bench is what the measurements share.
type bench struct {
	config
	own.Things
	database string // URL of the database of its own
	pool     *pgxpool.Pool
	client   redis.UniversalClient
	log      *slog.Logger
}

// setUp makes a database of the bench's own and connects to both servers.
func setUp(ctx context.Context, c config) (*bench, error) {
	b := &bench{config: c, log: slog.New(slog.DiscardHandler)}
	if err := b.openPostgres(ctx); err != nil {
		return b, err
	}
	options, err := asynq.Options(c.redis)
	if err != nil {
		return b, err
	}
	b.client = redis.NewUniversalClient(options)
	b.Defer(func(context.Context) error { return b.client.Close() })
	asynq.LogRedis(b.log)
	return b, nil
}

func (b *bench) openPostgres(ctx context.Context) (err error) {
	if b.database, err = b.createDatabase(ctx); err != nil {
		return err
	}
	b.pool, err = b.Outbox(ctx, b.database, 16)
	return err
}

// createDatabase makes a database that is dropped at the end, and returns its URL.
func (b *bench) createDatabase(ctx context.Context) (string, error) {
	return b.Database(ctx, b.postgres, "waybill_bench_")
}

// asynq opens a queue that nobody has used. It is removed at the end.
func (b *bench) asynq(config asynq.Config) (*asynq.Backend, error) {
	config.Redis, config.Logger, config.Servers, config.Prefetch = b.client, b.log, b.servers, b.prefetch
	config.Queue = waybill.QueueName("bench-" + own.Random())
	b.Defer(func(ctx context.Context) error { return b.deleteQueue(ctx, config.Queue) })
	return asynq.New(config)
}

func (b *bench) deleteQueue(ctx context.Context, name string) error {
	keys := b.client.Scan(ctx, 0, "asynq:{"+name+"}*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := b.client.Unlink(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return errors.Join(keys.Err(), b.client.SRem(ctx, "asynq:queues", name).Err())
}

// describe says what the figures rest on.
func (b *bench) describe(ctx context.Context) (string, error) {
	var version, fsync, synchronous, buffers string
	err := b.pool.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'),
		current_setting('synchronous_commit'), current_setting('shared_buffers')`).Scan(&version, &fsync, &synchronous, &buffers)
	if err != nil {
		return "", err
	}
	info, err := b.client.InfoMap(ctx, "server").Result()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("postgres %s (fsync=%s synchronous_commit=%s shared_buffers=%s), redis %s",
		version, fsync, synchronous, buffers, info["Server"]["redis_version"]), nil
}

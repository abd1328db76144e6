package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/store/postgres"
)

// batch is the rows of a transaction that fires, of a claim and of an enqueue.
const batch = 100

// cleanup bounds what has to be done when the bench is over.
const cleanup = 30 * time.Second

// bench is what the measurements share.
type bench struct {
	config
	own    string // URL of the database of its own
	pool   *pgxpool.Pool
	client redis.UniversalClient
	log    *slog.Logger
	ends   []func(context.Context) error
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
	b.ends = append(b.ends, func(context.Context) error { return b.client.Close() })
	asynq.LogRedis(b.log)
	return b, nil
}

// createDatabase makes a database that is dropped at the end, and returns its URL.
func (b *bench) createDatabase(ctx context.Context) (string, error) {
	admin, err := pgx.ParseConfig(b.postgres)
	if err != nil {
		return "", errNoPostgres // the error quotes the URL, password and all
	}
	own, err := url.Parse(b.postgres)
	if err != nil {
		return "", errNoPostgres
	}
	name := "waybill_bench_" + random()
	if err := execAs(ctx, admin, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return "", err
	}
	b.ends = append(b.ends, func(ctx context.Context) error {
		return execAs(ctx, admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	})
	own.Path = "/" + name
	return own.String(), nil
}

var errNoPostgres = errors.New("WAYBILL_TEST_POSTGRES is not a postgres:// URL")

func (b *bench) openPostgres(ctx context.Context) (err error) {
	if b.own, err = b.createDatabase(ctx); err != nil {
		return err
	}
	pool, err := pgxpool.ParseConfig(b.own)
	if err != nil {
		return errNoPostgres
	}
	pool.MaxConns = 16
	if b.pool, err = pgxpool.NewWithConfig(ctx, pool); err != nil {
		return err
	}
	b.ends = append(b.ends, func(context.Context) error { b.pool.Close(); return nil })
	migrator, err := postgres.NewMigrator(b.pool, "")
	if err != nil {
		return err
	}
	_, err = migrator.Up(ctx)
	return err
}

// end removes all of it, last things first, also after the bench was interrupted.
func (b *bench) end() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanup)
	defer cancel()
	for i := len(b.ends) - 1; i >= 0; i-- {
		err = errors.Join(err, b.ends[i](ctx))
	}
	return err
}

// asynq opens a queue that nobody has used. It is removed at the end.
func (b *bench) asynq(config asynq.Config) (*asynq.Backend, error) {
	config.Redis, config.Logger, config.Servers, config.Prefetch = b.client, b.log, b.servers, b.prefetch
	config.Queue = waybill.QueueName("bench-" + random())
	b.ends = append(b.ends, func(ctx context.Context) error { return b.deleteQueue(ctx, config.Queue) })
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

func execAs(ctx context.Context, config *pgx.ConnConfig, sql string) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

func random() string {
	var b [5]byte
	rand.Read(b[:]) // never fails: it ends the process instead
	return hex.EncodeToString(b[:])
}

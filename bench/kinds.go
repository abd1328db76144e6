package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/backend/local"
	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/bench/own"
)

// kinds returns the ways there are, each with the database that suits it. A kind
// opens a queue that nobody has used.
func (b *bench) kinds(ctx context.Context) ([]kind, error) {
	folder, err := os.MkdirTemp("", "waybill-bench-")
	if err != nil {
		return nil, err
	}
	b.Defer(func(context.Context) error { return os.RemoveAll(folder) })
	file := filepath.Join(folder, "bench.db")
	postgres, sqlite := onPostgres{b}, onSQLite{b, file}
	if err := sqlite.clear(ctx); err != nil {
		return nil, err
	}
	return []kind{
		{"asynq", postgres, func(context.Context) (queue, error) { return b.asynq(asynq.Config{}) }},
		{"asynq, check interval 10ms", postgres, func(context.Context) (queue, error) {
			return b.asynq(asynq.Config{CheckInterval: 10 * time.Millisecond})
		}},
		{"river, the store's database", postgres, func(ctx context.Context) (queue, error) { return b.river(ctx, b.database) }},
		{"river, another database", postgres, func(ctx context.Context) (queue, error) { return b.riverApart(ctx) }},
		{"rabbitmq, quorum queue", postgres, func(context.Context) (queue, error) { return b.rabbitmq("quorum") }},
		{"rabbitmq, classic queue", postgres, func(context.Context) (queue, error) { return b.rabbitmq("classic") }},
		{"local", postgres, func(context.Context) (queue, error) { return local.New(local.Config{Logger: b.log}) }},
		{"river on sqlite, the store's file", sqlite, func(ctx context.Context) (queue, error) { return b.riverOnSQLite(ctx, file) }},
		{"local, sqlite store", sqlite, func(context.Context) (queue, error) { return local.New(local.Config{Logger: b.log}) }},
	}, nil
}

// river is River in the database at a URL, with a schema of its own.
func (b *bench) river(ctx context.Context, database string) (queue, error) {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return nil, errors.New("the database's URL cannot be used") // the error quotes it, password and all
	}
	b.Defer(func(context.Context) error { pool.Close(); return nil })
	schema := "river_" + own.Random()
	migrator, err := river.NewMigrator(pool, schema)
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Up(ctx); err != nil {
		return nil, err
	}
	return river.New(river.Config{Pool: pool, Schema: schema, Logger: b.log})
}

func (b *bench) riverApart(ctx context.Context) (queue, error) {
	database, err := b.createDatabase(ctx)
	if err != nil {
		return nil, err
	}
	return b.river(ctx, database)
}

func (b *bench) riverOnSQLite(ctx context.Context, file string) (queue, error) {
	db, err := river.OpenSQLite(file)
	if err != nil {
		return nil, err
	}
	b.Defer(func(context.Context) error { return db.Close() })
	migrator, err := river.NewSQLiteMigrator(db)
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Up(ctx); err != nil {
		return nil, err
	}
	return river.New(river.Config{DB: db, Queue: waybill.QueueName("bench-" + own.Random()), Logger: b.log})
}

func (b *bench) rabbitmq(queueType string) (queue, error) {
	name := waybill.QueueName("bench-" + own.Random())
	backend, err := amqp.New(amqp.Config{URLs: []string{b.amqp}, Queue: name, Type: queueType, Logger: b.log})
	if err != nil {
		return nil, err
	}
	b.Defer(func(context.Context) error {
		return errors.Join(backend.Close(), own.DeleteRabbitQueue(b.amqp, name))
	})
	return backend, nil
}

// Package own makes what a run of a benchmark has to itself on servers that others use
// too, and removes it when the run is over.
package own

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	rabbit "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/store/postgres"
)

// ErrNoPostgres is a URL that is none of a PostgreSQL. What a driver says of it would
// quote the URL, password and all.
var ErrNoPostgres = errors.New("WAYBILL_TEST_POSTGRES is not a postgres:// URL")

// cleanup bounds what has to be done when the run is over.
const cleanup = 30 * time.Second

// Things are what a run has made. The zero Things are none.
type Things struct{ ends []func(context.Context) error }

// Defer has end called at the end, before what was made until now is removed.
func (t *Things) Defer(end func(context.Context) error) { t.ends = append(t.ends, end) }

// End removes all of it, last things first, also after the run was interrupted.
func (t *Things) End() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanup)
	defer cancel()
	for i := len(t.ends) - 1; i >= 0; i-- {
		err = errors.Join(err, t.ends[i](ctx))
	}
	return err
}

// Database makes an empty database on the server, named after the prefix, and returns
// its URL.
func (t *Things) Database(ctx context.Context, server, prefix string) (string, error) {
	admin, err := pgx.ParseConfig(server)
	if err != nil {
		return "", ErrNoPostgres
	}
	database, err := url.Parse(server)
	if err != nil {
		return "", ErrNoPostgres
	}
	name := prefix + Random()
	if err := execAs(ctx, admin, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return "", err
	}
	t.Defer(func(ctx context.Context) error {
		return execAs(ctx, admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	})
	database.Path = "/" + name
	return database.String(), nil
}

// Outbox connects to the database, with so many connections at the most or, with 0, as
// many as pgx takes by itself, and makes Waybill's tables in it.
func (t *Things) Outbox(ctx context.Context, database string, connections int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		return nil, ErrNoPostgres
	}
	if connections > 0 {
		config.MaxConns = connections
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	t.Defer(func(context.Context) error { pool.Close(); return nil })
	migrator, err := postgres.NewMigrator(pool, "")
	if err != nil {
		return nil, err
	}
	_, err = migrator.Up(ctx)
	return pool, err
}

// DeleteRabbitQueue deletes a queue of the RabbitMQ at that URL.
func DeleteRabbitQueue(server, queue string) error {
	conn, err := rabbit.Dial(server)
	if err != nil {
		return errors.New("rabbitmq does not answer") // the error may quote the URL
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	_, err = channel.QueueDelete(queue, false, false, false)
	return err
}

// Random is the end of a name that nobody else has.
func Random() string {
	var b [5]byte
	rand.Read(b[:]) // never fails: it ends the process instead
	return hex.EncodeToString(b[:])
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

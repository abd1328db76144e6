package main

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/store/sqlite"
)

// store is a Waybill store with an application before it.
type store interface {
	waybill.Store
	waybill.StatusReader
	// fire fires events in one transaction of the application.
	fire(ctx context.Context, events ...any) error
}

// database is where the rows of a measurement live.
type database interface {
	// open opens the store with one receiver, which does what run does.
	open(run func(ctx context.Context, d *waybill.Delivery) error) (store, error)
	// clear empties the tables, so that each run starts from the same.
	clear(ctx context.Context) error
}

func registryOf(run func(ctx context.Context, d *waybill.Delivery) error) *waybill.Registry {
	reg := waybill.NewRegistry()
	reg.Add(waybill.Receiver{Key: "bench.receiver", Event: eventName, Run: run})
	return reg
}

type onPostgres struct{ *bench }

func (b onPostgres) open(run func(ctx context.Context, d *waybill.Delivery) error) (store, error) {
	s, err := postgres.New(postgres.Config{Pool: b.pool, Registry: registryOf(run), Logger: b.log})
	return postgresStore{s}, err
}

func (b onPostgres) clear(ctx context.Context) error {
	_, err := b.pool.Exec(ctx, "TRUNCATE waybill.delivery, waybill.event")
	return err
}

type postgresStore struct{ *postgres.Store }

func (s postgresStore) fire(ctx context.Context, events ...any) error {
	return s.InTx(ctx, func(tx pgx.Tx) error {
		_, err := s.FireAll(ctx, tx, events)
		return err
	})
}

// onSQLite is a file of the bench's own.
type onSQLite struct {
	*bench
	path string
}

func (b onSQLite) open(run func(ctx context.Context, d *waybill.Delivery) error) (store, error) {
	s, err := sqlite.New(sqlite.Config{Path: b.path, Registry: registryOf(run), Logger: b.log})
	if err != nil {
		return nil, err
	}
	b.Defer(func(context.Context) error { return s.Close() })
	return sqliteStore{s}, nil
}

// clear makes the tables, or empties them.
func (b onSQLite) clear(ctx context.Context) error {
	s, err := sqlite.New(sqlite.Config{Path: b.path, Registry: waybill.NewRegistry(), Logger: b.log})
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Migrator().Up(ctx); err != nil {
		return err
	}
	return s.InTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM delivery; DELETE FROM event")
		return err
	})
}

type sqliteStore struct{ *sqlite.Store }

func (s sqliteStore) fire(ctx context.Context, events ...any) error {
	return s.InTx(ctx, func(tx *sql.Tx) error {
		_, err := s.FireAll(ctx, tx, events)
		return err
	})
}

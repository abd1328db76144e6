package river

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// NewMigrator returns a Migrator of River's tables in the schema ("" is
// DefaultSchema) of the pool's database. It uses connections of its own with the
// pool's settings. Of several that run at once, one works and the others wait.
func NewMigrator(pool *pgxpool.Pool, schema string) (*Migrator, error) {
	if pool == nil {
		return nil, errors.New("river: the migrator needs a pool")
	}
	if schema == "" {
		schema = DefaultSchema
	}
	if err := checkSchemaName(schema); err != nil {
		return nil, fmt.Errorf("river: %w", err)
	}
	target := newPostgres(pool, riverpgxv5.New(pool), schema, nil)
	river, err := riverMigrator(target.driver, schema)
	if err != nil {
		return nil, fmt.Errorf("river: %w", err)
	}
	return &Migrator{target: target, steps: river.AllVersions()}, nil
}

// migrate holds the schema's advisory lock in a transaction on one connection and
// migrates on another, because River commits in between.
func (p *postgres) migrate(ctx context.Context, direction rivermigrate.Direction, options *rivermigrate.MigrateOpts) (*rivermigrate.MigrateResult, error) {
	config := p.pool.Config()
	config.MaxConns, config.MinConns, config.MinIdleConns = 2, 0, 0
	own, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	unlock, err := p.lock(ctx, own)
	if err != nil {
		return nil, fmt.Errorf("wait for other migrations: %w", err)
	}
	defer unlock()
	if direction == rivermigrate.DirectionUp {
		if err := p.createSchema(ctx, own); err != nil {
			return nil, err
		}
	}
	river, err := riverMigrator(riverpgxv5.New(own), p.schema)
	if err != nil {
		return nil, err
	}
	return river.Migrate(ctx, direction, options)
}

// lockEvery is how often a migration asks whether it is its turn.
const lockEvery = 100 * time.Millisecond

// lock takes the schema's advisory lock in a transaction, so that a pooler keeps the
// connection apart for as long as the lock is held, and the lock ends with it whichever
// way that is. It asks again and again and does not wait in the database: those who
// wait there could use up the connections that the one who migrates needs.
func (p *postgres) lock(ctx context.Context, pool *pgxpool.Pool) (unlock func(), err error) {
	for {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return nil, err
		}
		unlock := func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
			defer cancel()
			_ = tx.Rollback(ctx) // where it fails the connection is closed, and with it the lock
		}
		var locked bool
		err = tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1) FROM set_config('idle_in_transaction_session_timeout', '0', true)`,
			p.lockKey()).Scan(&locked)
		if err == nil && locked {
			return unlock, nil
		}
		unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(lockEvery):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// unlockTimeout bounds the end of the lock.
const unlockTimeout = 5 * time.Second

// createSchema asks first: a role that may not create schemas can still bring
// one up to date.
func (p *postgres) createSchema(ctx context.Context, pool *pgxpool.Pool) error {
	var exists bool
	err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, p.schema).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = pool.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{p.schema}.Sanitize())
	return err
}

func (p *postgres) lockKey() int64 {
	hash := fnv.New64a()
	hash.Write([]byte("waybill migrate river " + p.schema))
	return int64(hash.Sum64())
}

func (p *postgres) applied(ctx context.Context) (map[int]time.Time, error) {
	return appliedSteps(ctx, p.driver.GetExecutor(), p.schema)
}

func (p *postgres) preamble() string {
	return "CREATE SCHEMA IF NOT EXISTS " + pgx.Identifier{p.schema}.Sanitize() + ";\n"
}

func (p *postgres) prefix() string { return pgx.Identifier{p.schema}.Sanitize() + "." }

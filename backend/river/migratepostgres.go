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

// migrate holds the schema's advisory lock on one connection and migrates on
// another, because River commits in between.
func (p *postgres) migrate(ctx context.Context, direction rivermigrate.Direction, options *rivermigrate.MigrateOpts) (*rivermigrate.MigrateResult, error) {
	config := p.pool.Config()
	config.MaxConns, config.MinConns, config.MinIdleConns = 2, 0, 0
	own, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	conn, err := own.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	// The lock ends with the session, whichever way that ends.
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, p.lockKey()); err != nil {
		return nil, fmt.Errorf("wait for other migrations: %w", err)
	}
	if direction == rivermigrate.DirectionUp {
		if err := p.createSchema(ctx, conn.Conn()); err != nil {
			return nil, err
		}
	}
	river, err := riverMigrator(riverpgxv5.New(own), p.schema)
	if err != nil {
		return nil, err
	}
	return river.Migrate(ctx, direction, options)
}

// createSchema asks first: a role that may not create schemas can still bring
// one up to date.
func (p *postgres) createSchema(ctx context.Context, conn *pgx.Conn) error {
	var exists bool
	err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, p.schema).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{p.schema}.Sanitize())
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

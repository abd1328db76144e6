package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pressly/goose/v3"

	"github.com/waybill-go/waybill"
)

//go:embed migrations/*.sql
var embedded embed.FS

// versionTable records the applied steps, in the schema itself.
const versionTable = "schema_version"

// Migrator is a waybill.Migrator on one schema of a database.
type Migrator struct {
	// begin runs work in a transaction that reads what is committed: what others
	// committed while this one waited for the lock has to be seen.
	begin  func(ctx context.Context, work func(migration) error) error
	schema string
	steps  []step
}

var _ waybill.Migrator = (*Migrator)(nil)

// NewMigrator returns a migrator for the schema ("" is "waybill") of the pool's
// database. It uses one connection of the pool at a time, and leaves nothing on it:
// a pooler in transaction mode may be in between.
func NewMigrator(pool *pgxpool.Pool, schema string) (*Migrator, error) {
	if pool == nil {
		return nil, errors.New("postgres: the migrator needs a pool")
	}
	return newMigrator(schema, func(ctx context.Context, work func(migration) error) error {
		return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error { return work(pgxMigration{tx}) })
	})
}

// NewMigratorDB is NewMigrator for a *sql.DB, of whatever driver.
func NewMigratorDB(db *sql.DB, schema string) (*Migrator, error) {
	if db == nil {
		return nil, errors.New("postgres: the migrator needs a *sql.DB")
	}
	return newMigrator(schema, func(ctx context.Context, work func(migration) error) error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := work(sqlMigration{tx}); err != nil {
			return err
		}
		return tx.Commit()
	})
}

// Migrator returns what brings the store's schema to the one that this release works
// with, and makes it where it is missing.
func (s *Store) Migrator() waybill.Migrator {
	var (
		m   *Migrator
		err error
	)
	switch db := s.db.(type) {
	case pool:
		m, err = NewMigrator(db.Pool, s.schema)
	case sqlDB:
		m, err = NewMigratorDB(db.DB, s.schema)
	default:
		err = errors.New("postgres: a store within a transaction migrates nothing")
	}
	if err != nil { // told by what it is asked to do
		m = &Migrator{schema: s.schema, begin: func(context.Context, func(migration) error) error { return err }}
	}
	return m
}

func newMigrator(schema string, begin func(context.Context, func(migration) error) error) (*Migrator, error) {
	schema, err := schemaName(schema)
	if err != nil {
		return nil, err
	}
	steps, err := readSteps()
	if err != nil {
		return nil, err
	}
	return &Migrator{begin: begin, schema: schema, steps: steps}, nil
}

// step is one file of migrations.
type step struct {
	waybill.Migration
	up, down string // its statements
}

// readSteps returns the steps this release knows, in order; there is one at
// least, or the package would not have been built.
var readSteps = sync.OnceValues(func() ([]step, error) {
	names, err := fs.Glob(embedded, "migrations/*.sql") // in order of version: the names have leading zeros
	if err != nil {
		return nil, err
	}
	steps := make([]step, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(embedded, name)
		if err != nil {
			return nil, err
		}
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", name, err)
		}
		_, up, _ := strings.Cut(string(text), "-- +goose Up\n")
		up, down, _ := strings.Cut(up, "-- +goose Down\n")
		steps[i] = step{
			Migration: waybill.Migration{Version: version, Name: strings.TrimSuffix(path.Base(name), ".sql")},
			up:        strings.TrimSpace(up),
			down:      strings.TrimSpace(down),
		}
	}
	return steps, nil
})

// Up applies the steps that are missing, each in a transaction of its own, and
// creates the schema if need be. Of several at once each applies what it finds
// missing when its turn comes.
func (m *Migrator) Up(ctx context.Context) ([]waybill.Migration, error) {
	return m.repeat(ctx, func(tx migration) (*step, error) {
		if err := m.prepare(ctx, tx); err != nil {
			return nil, err
		}
		applied, err := m.applied(ctx, tx)
		if err != nil {
			return nil, err
		}
		next, err := m.next(applied)
		if err != nil || next == nil {
			return nil, err
		}
		if err := m.run(ctx, tx, next, next.up); err != nil {
			return nil, err
		}
		return next, m.exec(ctx, tx, `INSERT INTO waybill.`+versionTable+` (version_id, is_applied, tstamp) VALUES ($1, true, now() AT TIME ZONE 'UTC')`, next.Version)
	})
}

// Down takes the last applied step back.
func (m *Migrator) Down(ctx context.Context) ([]waybill.Migration, error) {
	var taken *step
	return m.repeat(ctx, func(tx migration) (*step, error) {
		if taken != nil {
			return nil, nil
		}
		if ready, err := m.isPrepared(ctx, tx); err != nil || !ready {
			return nil, err
		}
		applied, err := m.applied(ctx, tx)
		if err != nil {
			return nil, err
		}
		if taken, err = m.last(applied); err != nil || taken == nil {
			return nil, err
		}
		if err := m.run(ctx, tx, taken, taken.down); err != nil {
			return nil, err
		}
		return taken, m.exec(ctx, tx, `DELETE FROM waybill.`+versionTable+` WHERE version_id = $1`, taken.Version)
	})
}

// Status returns every step this release knows, and when it was applied.
func (m *Migrator) Status(ctx context.Context) ([]waybill.Migration, error) {
	var applied map[int64]time.Time
	err := m.begin(ctx, func(tx migration) (err error) {
		applied, err = m.applied(ctx, tx)
		return err
	})
	if err != nil && !isMissing(err) {
		return nil, fmt.Errorf("read the state of schema %q: %w", m.schema, err)
	}
	return m.mark(applied), nil
}

// SQL returns the script that does what Up does on an empty database.
func (m *Migrator) SQL() string {
	var script strings.Builder
	fmt.Fprintf(&script, "BEGIN;\nCREATE SCHEMA IF NOT EXISTS \"%s\";\nSET LOCAL search_path TO \"%s\";\n", m.schema, m.schema)
	fmt.Fprintf(&script, versionTableSQL, "IF NOT EXISTS "+versionTable, versionTable)
	for _, step := range m.steps {
		fmt.Fprintf(&script, "\n-- %s\n\n%s\n\nINSERT INTO %s (version_id, is_applied, tstamp) VALUES (%d, true, now() AT TIME ZONE 'UTC');\n",
			step.Name, step.up, versionTable, step.Version)
	}
	script.WriteString("\nCOMMIT;\n")
	return script.String()
}

// versionTableSQL makes the table that goose would, so that goose can go on with it.
const versionTableSQL = `
CREATE TABLE %s (
    id         integer PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY,
    version_id bigint    NOT NULL,
    is_applied boolean   NOT NULL,
    tstamp     timestamp NOT NULL DEFAULT now()
);
INSERT INTO %s (version_id, is_applied) VALUES (0, true);
`

// repeat calls move, each time in a transaction that holds the schema's lock, until
// there is nothing to do for it, and returns the steps it moved by. What is missing
// is looked up under the lock and made under the same one: nothing is held in
// between, and several migrators need no more than one connection each.
func (m *Migrator) repeat(ctx context.Context, move func(tx migration) (*step, error)) ([]waybill.Migration, error) {
	var made []waybill.Migration
	for {
		var step *step
		err := m.begin(ctx, func(tx migration) (err error) {
			if err := m.exec(ctx, tx, `SELECT pg_advisory_xact_lock($1)`, m.lockKey()); err != nil {
				return fmt.Errorf("wait for other migrations: %w", err)
			}
			step, err = move(tx)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("migrate schema %q: %w", m.schema, err)
		}
		if step == nil {
			return made, nil
		}
		done := step.Migration
		done.AppliedAt = time.Now().UTC()
		made = append(made, done)
	}
}

// run runs the statements of a step, whose names are those of the schema.
func (m *Migrator) run(ctx context.Context, tx migration, step *step, statements string) error {
	script := fmt.Sprintf("SET LOCAL search_path TO \"%s\";\n%s", m.schema, statements)
	if err := tx.exec(ctx, script); err != nil {
		return fmt.Errorf("step %s: %w", step.Name, err)
	}
	return nil
}

// exec runs one statement that names its tables with waybill. before them.
func (m *Migrator) exec(ctx context.Context, tx migration, text string, args ...any) error {
	return tx.exec(ctx, m.sql(text), args...)
}

func (m *Migrator) sql(text string) string {
	return strings.ReplaceAll(text, "waybill.", `"`+m.schema+`".`)
}

// applied returns when each step was applied.
func (m *Migrator) applied(ctx context.Context, tx migration) (map[int64]time.Time, error) {
	applied := map[int64]time.Time{}
	rows, err := tx.query(ctx, m.sql(`SELECT version_id, tstamp FROM waybill.`+versionTable+` WHERE version_id > 0`))
	if err != nil {
		return nil, err
	}
	var (
		version int64
		at      time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&version, &at}, func() error {
		applied[version] = at.UTC()
		return nil
	})
	return applied, err
}

// next returns the first step that is missing, nil if none is.
func (m *Migrator) next(applied map[int64]time.Time) (*step, error) {
	last, err := m.last(applied)
	if err != nil {
		return nil, err
	}
	for i := range m.steps {
		step := &m.steps[i]
		if _, ok := applied[step.Version]; ok {
			continue
		}
		if last != nil && step.Version < last.Version {
			return nil, fmt.Errorf("step %s is missing, and a later one was applied", step.Name)
		}
		return step, nil
	}
	return nil, nil
}

// last returns the last step that was applied, nil if none was.
func (m *Migrator) last(applied map[int64]time.Time) (last *step, err error) {
	var version int64
	for v := range applied {
		version = max(version, v)
	}
	if newest := m.steps[len(m.steps)-1].Version; version > newest {
		return nil, newerError(m.schema, version, newest)
	}
	for i := range m.steps {
		if m.steps[i].Version == version {
			last = &m.steps[i]
		}
	}
	return last, nil
}

func (m *Migrator) lockKey() int64 {
	hash := fnv.New64a()
	hash.Write([]byte("waybill migrate " + m.schema))
	return int64(hash.Sum64())
}

// prepare creates the schema and its table of versions where they are missing. It
// asks first: a role that may not create schemas can still bring one up to date.
func (m *Migrator) prepare(ctx context.Context, tx migration) error {
	exists, err := m.ask(ctx, tx, `SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)`, m.schema)
	if err != nil {
		return err
	}
	if !exists {
		if err := m.exec(ctx, tx, fmt.Sprintf(`CREATE SCHEMA "%s"`, m.schema)); err != nil {
			return err
		}
	}
	if ready, err := m.isPrepared(ctx, tx); err != nil || ready {
		return err
	}
	table := m.sql("waybill." + versionTable)
	return tx.exec(ctx, fmt.Sprintf(versionTableSQL, table, table))
}

// isPrepared reports whether the table of versions is there.
func (m *Migrator) isPrepared(ctx context.Context, tx migration) (bool, error) {
	return m.ask(ctx, tx, `SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = $1 AND tablename = $2)`, m.schema, versionTable)
}

func (m *Migrator) ask(ctx context.Context, tx migration, text string, args ...any) (yes bool, err error) {
	rows, err := tx.query(ctx, text, args...)
	if err != nil {
		return false, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
}

// mark returns all steps, with the time of those that were applied.
func (m *Migrator) mark(applied map[int64]time.Time) []waybill.Migration {
	steps := make([]waybill.Migration, len(m.steps))
	for i, step := range m.steps {
		steps[i] = step.Migration
		steps[i].AppliedAt = applied[step.Version]
	}
	return steps
}

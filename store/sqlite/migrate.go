package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/waybill-go/waybill"
)

//go:embed migrations/*.sql
var embedded embed.FS

const versionTable = "schema_version"

// Migrator is a waybill.Migrator on the file of a Store.
type Migrator struct{ store *Store }

var _ waybill.Migrator = (*Migrator)(nil)

// Migrator returns the migrator of the store's file. Its Up creates the file;
// nothing else of it does.
func (s *Store) Migrator() *Migrator { return &Migrator{store: s} }

// goose would make this table too, but of two processes that begin on one file
// the second would have to wait a second.
const createVersionTableSQL = `
CREATE TABLE IF NOT EXISTS ` + versionTable + ` (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    version_id INTEGER NOT NULL,
    is_applied INTEGER NOT NULL,
    tstamp     TIMESTAMP DEFAULT (datetime('now'))
);
INSERT INTO ` + versionTable + ` (version_id, is_applied)
SELECT 0, 1 WHERE NOT EXISTS (SELECT 1 FROM ` + versionTable + `);
`

// Up applies the steps that are missing, each in a transaction of its own.
func (m *Migrator) Up(ctx context.Context) ([]waybill.Migration, error) {
	steps := m.store.steps
	var made []*goose.MigrationResult
	// To make the file one with a write-ahead log waits for nobody, and nobody's read
	// waits for it: who meets another process in it begins anew.
	patience := time.Now().Add(m.store.callTimeout)
	anew := func(err error) bool { return isBusy(err) && time.Now().Before(patience) && pause(ctx, maxLockWait) }
	for {
		before, err := m.store.applied(ctx)
		if anew(err) {
			continue
		}
		if err != nil {
			return nil, m.failed(err)
		}
		if version, newest := newestOf(before), steps[len(steps)-1].Version; version > newest {
			return nil, m.store.newerError(version, newest)
		}
		err = m.provide(func(pool *sql.DB, provider *goose.Provider) error {
			if err := m.createVersionTable(ctx, pool); err != nil {
				return err
			}
			results, err := provider.Up(ctx)
			made = append(made, results...)
			return err
		})
		if err == nil {
			return only(steps, made), nil
		}
		var partly *goose.PartialError
		if errors.As(err, &partly) {
			made = append(made, partly.Applied...)
		}
		// Another process that migrates at the same time makes this one's step
		// fail, as soon as it has made it: begin anew behind that.
		after, lookErr := m.store.applied(ctx)
		if lookErr == nil && len(after) > len(before) {
			continue
		}
		if !anew(err) {
			return nil, m.failed(err)
		}
	}
}

// Down takes the last step back, with all that its tables hold.
func (m *Migrator) Down(ctx context.Context) ([]waybill.Migration, error) {
	applied, err := m.store.applied(ctx)
	if err != nil {
		return nil, m.failed(err)
	}
	if len(applied) == 0 {
		return nil, nil
	}
	var result *goose.MigrationResult
	err = m.provide(func(_ *sql.DB, provider *goose.Provider) error {
		result, err = provider.Down(ctx)
		return err
	})
	if err != nil {
		return nil, m.failed(err)
	}
	return only(m.store.steps, []*goose.MigrationResult{result}), nil
}

// Status returns every step this release knows, and when it was applied.
func (m *Migrator) Status(ctx context.Context) ([]waybill.Migration, error) {
	applied, err := m.store.applied(ctx)
	if err != nil {
		return nil, m.failed(err)
	}
	steps := slices.Clone(m.store.steps)
	for i := range steps {
		steps[i].AppliedAt = applied[steps[i].Version]
	}
	return steps, nil
}

// SQL returns the script that does on an empty file what Up does.
func (m *Migrator) SQL() string {
	var script strings.Builder
	script.WriteString("PRAGMA journal_mode = WAL;\nBEGIN IMMEDIATE;\n" + createVersionTableSQL)
	for _, step := range m.store.steps {
		text, _ := fs.ReadFile(m.store.files, step.Name+".sql") // the steps are named for these files
		_, up, _ := strings.Cut(string(text), "-- +goose Up\n")
		up, _, _ = strings.Cut(up, "-- +goose Down\n")
		fmt.Fprintf(&script, "\n-- %s\n%sINSERT INTO %s (version_id, is_applied) VALUES (%d, 1);\n", step.Name, up, versionTable, step.Version)
	}
	script.WriteString("\nCOMMIT;\n")
	return script.String()
}

// errMigrate is what to do about a schema that is not there, or not up to date.
var errMigrate = errors.New("run `bridge migrate`")

// Check reports whether the schema is the one this release works with. It
// creates nothing.
func (s *Store) Check(ctx context.Context) error {
	applied, err := s.applied(ctx)
	if err != nil {
		return fmt.Errorf("sqlite: read the version of %s: %w", s.path, err)
	}
	switch version, newest := newestOf(applied), s.steps[len(s.steps)-1].Version; {
	case version == 0:
		return fmt.Errorf("sqlite: %s has no waybill schema yet: %w", s.path, errMigrate)
	case version < newest:
		return fmt.Errorf("sqlite: the schema of %s is at version %d and this release works with %d: %w", s.path, version, newest, errMigrate)
	case version > newest:
		return s.newerError(version, newest)
	}
	return nil
}

func (s *Store) newerError(version, newest int64) error {
	return fmt.Errorf("sqlite: the schema of %s is at version %d and this binary knows no more than %d: this binary is older than the schema: upgrade it",
		s.path, version, newest)
}

const (
	hasVersionsSQL = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '` + versionTable + `'`
	versionsSQL    = `SELECT version_id, tstamp FROM ` + versionTable + ` WHERE version_id > 0`
)

// applied returns the steps that the file holds, and when they were applied. It
// leaves a file that is not there alone.
func (s *Store) applied(ctx context.Context) (map[int64]time.Time, error) {
	if s.path != Memory {
		if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	var tables int
	if err := s.read().QueryRowContext(ctx, hasVersionsSQL).Scan(&tables); err != nil || tables == 0 {
		return nil, err
	}
	applied := map[int64]time.Time{}
	rows, err := s.read().QueryContext(ctx, versionsSQL)
	_, err = collect(rows, err, func(rows *sql.Rows, version *int64) error {
		var at time.Time
		err := rows.Scan(version, &at)
		applied[*version] = at.UTC()
		return err
	})
	return applied, err
}

// provide runs f with a connection that waits for locks, which goose does not.
func (m *Migrator) provide(f func(*sql.DB, *goose.Provider) error) error {
	pool := m.store.writer
	if m.store.path != Memory {
		own, err := openPool(m.store.dataSource(migrateDSN), 1)
		if err != nil {
			return err
		}
		defer own.Close()
		pool = own
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, pool, m.store.files,
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true), goose.WithSlog(m.store.logger))
	if err != nil {
		return err
	}
	return f(pool, provider)
}

func (m *Migrator) createVersionTable(ctx context.Context, pool *sql.DB) error {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, createVersionTableSQL); err != nil {
		return err
	}
	return tx.Commit()
}

func (m *Migrator) failed(err error) error {
	return fmt.Errorf("migrate %s: %w", m.store.path, err)
}

// embeddedSteps returns the steps of this release, none of them applied, and
// their files.
func embeddedSteps() ([]waybill.Migration, fs.FS, error) {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return nil, nil, err
	}
	names, err := fs.Glob(files, "*.sql") // in order of version: the names have leading zeros
	if err != nil {
		return nil, nil, err
	}
	steps := make([]waybill.Migration, len(names))
	for i, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, nil, fmt.Errorf("migration %s: %w", name, err)
		}
		steps[i] = waybill.Migration{Version: version, Name: strings.TrimSuffix(name, ".sql")}
	}
	return steps, files, nil
}

func newestOf(applied map[int64]time.Time) (newest int64) {
	for version := range applied {
		newest = max(newest, version)
	}
	return newest
}

// only returns the steps that were just made.
func only(steps []waybill.Migration, results []*goose.MigrationResult) []waybill.Migration {
	made := map[int64]bool{}
	for _, result := range results {
		made[result.Source.Version] = true
	}
	var these []waybill.Migration
	for _, step := range steps {
		if made[step.Version] {
			step.AppliedAt = time.Now().UTC()
			these = append(these, step)
		}
	}
	return these
}

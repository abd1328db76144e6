package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// errMigrate is what to do about a schema that is not there, or not up to date.
var errMigrate = errors.New("run `bridge migrate`")

// Check reports whether the schema is the one this release works with. It says
// in one line what is wrong and what to do. It also refuses a pool that cannot work
// with the connection pooler it goes through.
func (s *Store) Check(ctx context.Context) error {
	steps, err := readSteps()
	if err != nil {
		return err
	}
	newest := steps[len(steps)-1].Version
	var version int64
	err = s.within(ctx, func(ctx context.Context) error {
		if err := s.checkPooler(ctx); err != nil {
			return err
		}
		return s.ask(ctx, `SELECT coalesce(max(version_id), 0) FROM waybill.`+versionTable, &version)
	})
	switch {
	case errors.Is(err, errPooler):
		return fmt.Errorf("postgres: %w", err)
	case isMissing(err):
		return fmt.Errorf("postgres: the database has no schema %q yet: %w", s.schema, errMigrate)
	case err != nil:
		return fmt.Errorf("postgres: read the version of schema %q: %w", s.schema, err)
	case version < newest:
		return fmt.Errorf("postgres: schema %q is at version %d and this release works with %d: %w", s.schema, version, newest, errMigrate)
	case version > newest:
		return newerError(s.schema, version, newest)
	}
	return nil
}

// ask reads the one row that a statement returns.
func (s *Store) ask(ctx context.Context, text string, into ...any) error {
	batch := &pgx.Batch{}
	batch.Queue(s.sql(text)).QueryRow(func(row pgx.Row) error { return row.Scan(into...) })
	return s.db.send(ctx, batch)
}

func newerError(schema string, version, newest int64) error {
	return fmt.Errorf("postgres: schema %q is at version %d and this binary knows no more than %d: this binary is older than the schema: upgrade it", schema, version, newest)
}

// isMissing reports whether the schema or its version table is not there.
func isMissing(err error) bool {
	code := sqlState(err)
	return code == "42P01" || code == "3F000"
}

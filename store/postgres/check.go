package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

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
		return s.pool.QueryRow(ctx, s.sql(`SELECT coalesce(max(version_id), 0) FROM waybill.`+versionTable)).Scan(&version)
	})
	switch {
	case errors.Is(err, errPooler):
		return fmt.Errorf("postgres: %w", err)
	case isMissing(err):
		return fmt.Errorf("postgres: the database has no schema %q yet: run `bridge migrate`", s.schema)
	case err != nil:
		return fmt.Errorf("postgres: read the version of schema %q: %w", s.schema, err)
	case version < newest:
		return fmt.Errorf("postgres: schema %q is at version %d and this release works with %d: run `bridge migrate`", s.schema, version, newest)
	case version > newest:
		return newerError(s.schema, version, newest)
	}
	return nil
}

func newerError(schema string, version, newest int64) error {
	return fmt.Errorf("postgres: schema %q is at version %d and this binary knows no more than %d: this binary is older than the schema: upgrade it", schema, version, newest)
}

// isMissing reports whether the schema or its version table is not there.
func isMissing(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && (pgErr.Code == "42P01" || pgErr.Code == "3F000")
}

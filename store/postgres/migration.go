package postgres

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
)

// migration is a transaction of a Migrator. It leaves no prepared statement behind,
// whatever the pool does: that is the driver's choice over database/sql.
type migration interface {
	// exec runs one statement with parameters, or a script without any.
	exec(ctx context.Context, text string, args ...any) error
	query(ctx context.Context, text string, args ...any) (pgx.Rows, error)
}

type pgxMigration struct{ tx pgx.Tx }

func (m pgxMigration) exec(ctx context.Context, text string, args ...any) error {
	mode := pgx.QueryExecModeExec
	if len(args) == 0 {
		mode = pgx.QueryExecModeSimpleProtocol
	}
	_, err := m.tx.Exec(ctx, text, append([]any{mode}, args...)...)
	return err
}

func (m pgxMigration) query(ctx context.Context, text string, args ...any) (pgx.Rows, error) {
	return m.tx.Query(ctx, text, append([]any{pgx.QueryExecModeExec}, args...)...)
}

type sqlMigration struct{ tx *sql.Tx }

func (m sqlMigration) exec(ctx context.Context, text string, args ...any) error {
	_, err := over(m.tx).Exec(ctx, text, args...)
	return err
}

func (m sqlMigration) query(ctx context.Context, text string, args ...any) (pgx.Rows, error) {
	return over(m.tx).Query(ctx, text, args...)
}

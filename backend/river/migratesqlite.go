package river

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
)

// NewSQLiteMigrator returns a Migrator of River's tables in the file of db, a
// handle from OpenSQLite. Of several that run at once, each makes the steps that
// the others have not made.
func NewSQLiteMigrator(db *sql.DB) (*Migrator, error) {
	if db == nil {
		return nil, errors.New("river: the migrator needs a handle from OpenSQLite")
	}
	target, err := newSQLite(db, riversqlite.New(db), nil)
	if err != nil {
		return nil, fmt.Errorf("river: %w", err)
	}
	river, err := riverMigrator(target.driver, "")
	if err != nil {
		return nil, fmt.Errorf("river: %w", err)
	}
	return &Migrator{target: target, steps: river.AllVersions()}, nil
}

func (f *sqliteFile) migrate(ctx context.Context, direction rivermigrate.Direction, options *rivermigrate.MigrateOpts) (*rivermigrate.MigrateResult, error) {
	river, err := riverMigrator(f.driver, "")
	if err != nil {
		return nil, err
	}
	return river.Migrate(ctx, direction, options)
}

// applied leaves a file that is not there alone.
func (f *sqliteFile) applied(ctx context.Context) (map[int]time.Time, error) {
	switch _, err := os.Stat(f.path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return appliedSteps(ctx, f.driver.GetExecutor(), "")
}

func (f *sqliteFile) preamble() string { return "PRAGMA journal_mode = WAL;\n" }

func (f *sqliteFile) prefix() string { return "" }

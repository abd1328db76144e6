package river

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/riverqueue/river/riverdriver"
)

// ourKinds begins every kind of job that Waybill ever makes.
const ourKinds = "waybill."

// Check reports whether the database answers, holds River's tables as this release
// needs them, and is nobody else's.
func (b *Backend) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.config.Timeout)
	defer cancel()
	where := b.database.where()
	missing, err := b.database.missing(ctx)
	if err != nil {
		return fmt.Errorf("river: read the migrations in %s: %w; is the database running, and is its address right?", where, err)
	}
	if missing > 0 {
		return b.unmigrated(missing)
	}
	if b.ofTeam {
		return nil // jobs of other kinds are what a team's own River is for
	}
	first, last, err := b.database.kinds(ctx)
	if err != nil {
		return fmt.Errorf("river: read the jobs in %s: %w", where, err)
	}
	for _, kind := range []string{first, last} {
		if kind != "" && !strings.HasPrefix(kind, ourKinds) {
			return fmt.Errorf("river: %s holds jobs of another River (%q), and as its leader this one would delete and discard them: "+
				"use a schema or a file of its own, or hand over to the other's client with NewWithClient", where, kind)
		}
	}
	return nil
}

// unmigrated is the error of a database that lacks some of River's migrations.
func (b *Backend) unmigrated(missing int) error {
	return fmt.Errorf("river: %s lacks %d of River's migrations: run `bridge migrate` with this backend", b.database.where(), missing)
}

// missingSteps counts River's migrations that a database with the applied ones
// lacks. On the way it asks for the server's version: River would do it at the first
// use, which may be in a caller's transaction.
func missingSteps[TTx any](ctx context.Context, driver riverdriver.Driver[TTx], schema string, applied map[int]time.Time) (int, error) {
	if len(applied) > 0 {
		if err := driver.GetExecutor().InitDriver(ctx); err != nil {
			return 0, err
		}
	}
	river, err := riverMigrator(driver, schema)
	if err != nil {
		return 0, err
	}
	missing := 0
	for _, step := range river.AllVersions() {
		if _, ok := applied[step.Version]; !ok {
			missing++
		}
	}
	return missing, nil
}

const kindsSQL = `SELECT coalesce(min(kind), ''), coalesce(max(kind), '') FROM `

func (p *postgres) kinds(ctx context.Context) (first, last string, err error) {
	err = p.pool.QueryRow(ctx, kindsSQL+p.table("river_job")).Scan(&first, &last)
	return first, last, err
}

func (f *sqliteFile) kinds(ctx context.Context) (first, last string, err error) {
	err = f.db.QueryRowContext(ctx, kindsSQL+"river_job").Scan(&first, &last)
	return first, last, err
}

func (p *postgres) missing(ctx context.Context) (int, error) {
	applied, err := p.applied(ctx)
	if err != nil {
		return 0, err
	}
	return missingSteps(ctx, p.driver, p.schema, applied)
}

func (f *sqliteFile) missing(ctx context.Context) (int, error) {
	applied, err := f.applied(ctx)
	if err != nil {
		return 0, err
	}
	return missingSteps(ctx, f.driver, "", applied)
}

package river

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/waybill-go/waybill"
)

// Migrator is a waybill.Migrator of River's tables. Its steps are River's own.
type Migrator struct {
	target target
	steps  []rivermigrate.Migration // of this release of River, in order
}

var _ waybill.Migrator = (*Migrator)(nil)

// target is the database that is migrated.
type target interface {
	where() string
	// migrate runs River's migrator, as the only one if the database can see to
	// that.
	migrate(ctx context.Context, direction rivermigrate.Direction, options *rivermigrate.MigrateOpts) (*rivermigrate.MigrateResult, error)
	// applied returns which steps were made, and when.
	applied(ctx context.Context) (map[int]time.Time, error)
	// preamble is what a script begins with, and prefix what its table names do.
	preamble() string
	prefix() string
}

// Up applies the steps that are missing, each in a transaction of its own, and
// creates the schema if need be.
func (m *Migrator) Up(ctx context.Context) ([]waybill.Migration, error) {
	for {
		before, err := m.target.applied(ctx)
		if err != nil {
			return nil, m.failed(err)
		}
		result, err := m.target.migrate(ctx, rivermigrate.DirectionUp, nil)
		if err == nil {
			return m.only(result), nil
		}
		// Another migrator makes this one's step fail, as soon as it has made
		// it: begin anew behind that.
		if after, lookErr := m.target.applied(ctx); lookErr != nil || len(after) == len(before) {
			return nil, m.failed(err)
		}
	}
}

// Down takes the last step back.
func (m *Migrator) Down(ctx context.Context) ([]waybill.Migration, error) {
	result, err := m.target.migrate(ctx, rivermigrate.DirectionDown, &rivermigrate.MigrateOpts{MaxSteps: 1})
	if err != nil {
		return nil, m.failed(err)
	}
	return m.only(result), nil
}

// Status returns every step that this release of River knows, in order.
func (m *Migrator) Status(ctx context.Context) ([]waybill.Migration, error) {
	applied, err := m.target.applied(ctx)
	if err != nil {
		return nil, fmt.Errorf("read River's migrations in %s: %w", m.target.where(), err)
	}
	return m.mark(applied), nil
}

// lineVersion is the step that gives River's record of steps its column "line".
const lineVersion = 5

// SQL returns the script that does on an empty database what Up does. Each step is
// a transaction: a later one uses what an earlier one has to have committed.
func (m *Migrator) SQL() string {
	var script strings.Builder
	script.WriteString(m.target.preamble())
	prefix := m.target.prefix()
	for _, step := range m.steps {
		sql := strings.ReplaceAll(step.SQLUp, "/* TEMPLATE: schema */", prefix)
		columns, values := "version", fmt.Sprint(step.Version)
		if step.Version >= lineVersion {
			columns, values = "line, version", fmt.Sprintf("'%s', %d", riverdriver.MigrationLineMain, step.Version)
		}
		fmt.Fprintf(&script, "\n-- %s\n\nBEGIN;\n%s\nINSERT INTO %sriver_migration (%s) VALUES (%s);\nCOMMIT;\n",
			stepName(step.Version, step.Name), strings.TrimSpace(sql), prefix, columns, values)
	}
	return script.String()
}

func (m *Migrator) failed(err error) error {
	return fmt.Errorf("migrate River in %s: %w", m.target.where(), err)
}

// mark returns all steps, with the time of those that were applied.
func (m *Migrator) mark(applied map[int]time.Time) []waybill.Migration {
	steps := make([]waybill.Migration, len(m.steps))
	for i, step := range m.steps {
		steps[i] = waybill.Migration{
			Version: int64(step.Version), Name: stepName(step.Version, step.Name), AppliedAt: applied[step.Version],
		}
	}
	return steps
}

// only returns the steps that were just made or taken back, in that order.
func (m *Migrator) only(result *rivermigrate.MigrateResult) []waybill.Migration {
	var steps []waybill.Migration
	for _, step := range result.Versions {
		steps = append(steps, waybill.Migration{
			Version: int64(step.Version), Name: stepName(step.Version, step.Name), AppliedAt: time.Now().UTC(),
		})
	}
	return steps
}

func stepName(version int, name string) string {
	return fmt.Sprintf("river_%03d_%s", version, strings.ReplaceAll(name, " ", "_"))
}

// riverMigrator returns River's own migrator.
func riverMigrator[TTx any](driver riverdriver.Driver[TTx], schema string) (*rivermigrate.Migrator[TTx], error) {
	return rivermigrate.New(driver, &rivermigrate.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
}

// appliedSteps reads which steps a database has. Its record of them has itself
// changed with one.
func appliedSteps(ctx context.Context, exec riverdriver.Executor, schema string) (map[int]time.Time, error) {
	const table = "river_migration"
	exists, err := exec.TableExists(ctx, &riverdriver.TableExistsParams{Schema: schema, Table: table})
	if err != nil || !exists {
		return nil, err
	}
	hasLine, err := exec.ColumnExists(ctx, &riverdriver.ColumnExistsParams{Schema: schema, Table: table, Column: "line"})
	if err != nil {
		return nil, err
	}
	var migrations []*riverdriver.Migration
	if hasLine {
		migrations, err = exec.MigrationGetByLine(ctx, &riverdriver.MigrationGetByLineParams{Schema: schema, Line: riverdriver.MigrationLineMain})
	} else {
		migrations, err = exec.MigrationGetAllAssumingMain(ctx, &riverdriver.MigrationGetAllAssumingMainParams{Schema: schema})
	}
	if err != nil {
		return nil, err
	}
	applied := make(map[int]time.Time, len(migrations))
	for _, migration := range migrations {
		applied[migration.Version] = migration.CreatedAt
	}
	return applied, nil
}

package river_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/internal/services"
)

// steps is how many migrations this release of River has.
const steps = 8

func TestMigrator(t *testing.T) {
	t.Parallel()
	pool := connect(t, services.Postgres(t))
	onPostgres, err := river.NewMigrator(pool, "own_schema")
	if err != nil {
		t.Fatal(err)
	}
	db := openSQLite(t, filepath.Join(t.TempDir(), "river.db"))
	onSQLite, err := river.NewSQLiteMigrator(db)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		migrator waybill.Migrator
		config   river.Config
	}{
		"Postgres": {onPostgres, river.Config{Pool: pool, Schema: "own_schema"}},
		"SQLite":   {onSQLite, river.Config{DB: db}},
	} {
		b := open(t, c.config)
		wantHint(t, name+" before", b)
		wantApplied(t, name+" before", c.migrator, 0)
		if down, err := c.migrator.Down(t.Context()); err != nil || len(down) != 0 {
			t.Errorf("%s: down on nothing: %v, %v", name, down, err)
		}
		done, err := c.migrator.Up(t.Context())
		if err != nil || len(done) != steps || done[0].Version != 1 || done[0].Name != "river_001_create_river_migration" || done[0].AppliedAt.IsZero() {
			t.Fatalf("%s: up: %v, %v", name, done, err)
		}
		wantApplied(t, name+" after up", c.migrator, steps)
		if err := b.Check(t.Context()); err != nil {
			t.Errorf("%s: check: %v", name, err)
		}
		if done, err := c.migrator.Up(t.Context()); err != nil || len(done) != 0 {
			t.Errorf("%s: up again: %v, %v", name, done, err)
		}
		down, err := c.migrator.Down(t.Context())
		if err != nil || len(down) != 1 || down[0].Version != steps {
			t.Errorf("%s: down: %v, %v", name, down, err)
		}
		wantApplied(t, name+" after down", c.migrator, steps-1)
		wantHint(t, name+" after down", b)
		for range steps - 1 {
			if _, err := c.migrator.Down(t.Context()); err != nil {
				t.Fatalf("%s: down: %v", name, err)
			}
		}
		wantApplied(t, name+" after all the way down", c.migrator, 0)
		if done, err := c.migrator.Up(t.Context()); err != nil || len(done) != steps {
			t.Errorf("%s: up once more: %v, %v", name, done, err)
		}
	}
}

func wantHint(t *testing.T, when string, b *river.Backend) {
	t.Helper()
	if err := b.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "bridge migrate") {
		t.Errorf("%s: check: %v", when, err)
	}
}

func wantApplied(t *testing.T, when string, migrator waybill.Migrator, want int) {
	t.Helper()
	status, err := migrator.Status(t.Context())
	if err != nil || len(status) != steps {
		t.Fatalf("%s: status %v, %v", when, status, err)
	}
	for i, step := range status {
		if step.Version != int64(i+1) || step.AppliedAt.IsZero() == (i < want) {
			t.Errorf("%s: step %d is %+v", when, i+1, step)
		}
	}
}

// Several at once do each step once, on either database, and also where a pooler lends
// fewer connections than there are migrators: their lock outlives no transaction.
func TestMigratorsAtOnce(t *testing.T) {
	t.Parallel()
	databaseURL := services.Postgres(t)
	pooledURL := services.OwnPgBouncer(t, services.Postgres(t)) + "&default_query_exec_mode=cache_describe"
	path := filepath.Join(t.TempDir(), "river.db")
	for name, open := range map[string]func() (waybill.Migrator, error){
		"Postgres": func() (waybill.Migrator, error) { return river.NewMigrator(connect(t, databaseURL), "") },
		"a pooler": func() (waybill.Migrator, error) { return river.NewMigrator(connect(t, pooledURL), "") },
		"SQLite":   func() (waybill.Migrator, error) { return river.NewSQLiteMigrator(openSQLite(t, path)) },
	} {
		var running sync.WaitGroup
		done := make([][]waybill.Migration, 4)
		for i := range done {
			migrator, err := open()
			if err != nil {
				t.Fatal(err)
			}
			running.Go(func() {
				var err error
				if done[i], err = migrator.Up(context.Background()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		running.Wait()
		migrator, err := open()
		if err != nil {
			t.Fatal(err)
		}
		wantApplied(t, name, migrator, steps)
	}
}

// The script leaves what Up does.
func TestMigratorSQL(t *testing.T) {
	t.Parallel()
	byHand, byUp := connect(t, services.Postgres(t)), newPostgresQueue(t)
	migrator, err := river.NewMigrator(byHand, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := byHand.Exec(t.Context(), migrator.SQL(), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	wantApplied(t, "by hand", migrator, steps)
	if err := open(t, river.Config{Pool: byHand}).Check(t.Context()); err != nil {
		t.Error(err)
	}
	shape := func(q interface {
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	}) []string {
		t.Helper()
		rows, _ := q.Query(t.Context(), `
			SELECT concat_ws(' ', table_name, column_name, data_type, column_default) FROM information_schema.columns WHERE table_schema = 'waybill_river'
			UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'waybill_river' ORDER BY 1`)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(lines) < 30 {
			t.Fatalf("%d lines, %v", len(lines), err)
		}
		return lines
	}
	if diff := cmp.Diff(shape(byUp.pool), shape(byHand)); diff != "" {
		t.Errorf("the schema (-by Up +by hand):\n%s", diff)
	}

	file := openSQLite(t, filepath.Join(t.TempDir(), "river.db"))
	onSQLite, err := river.NewSQLiteMigrator(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.ExecContext(t.Context(), onSQLite.SQL()); err != nil {
		t.Fatal(err)
	}
	wantApplied(t, "SQLite by hand", onSQLite, steps)
	upped, _ := newSQLiteQueue(t)
	if diff := cmp.Diff(sqliteShape(t, upped), sqliteShape(t, file)); diff != "" {
		t.Errorf("the file (-by Up +by hand):\n%s", diff)
	}
}

func sqliteShape(t testing.TB, db *sql.DB) (lines []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY type, name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestNewMigrator(t *testing.T) {
	t.Parallel()
	if _, err := river.NewMigrator(nil, ""); err == nil {
		t.Error("no error without a pool")
	}
	if _, err := river.NewMigrator(nowhere(t), "a-b"); err == nil {
		t.Error("no error for a schema that River does not allow")
	}
	if _, err := river.NewSQLiteMigrator(nil); err == nil {
		t.Error("no error without a handle")
	}
	migrator, err := river.NewMigrator(nowhere(t), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Up(t.Context()); err == nil || !strings.Contains(err.Error(), `schema "waybill_river" of database "none"`) || strings.Contains(err.Error(), "secret") {
		t.Errorf("up without a server: %v", err)
	}
}

package river_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/internal/services"
)

// A schema where another River works is no place for this one, whose leader would
// act for all of it.
func TestCheckRefusesOthersJobs(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	db, _ := newSQLiteQueue(t)
	onPostgres, err := queue.NewClient(riverpgxv5.New(q.pool), &queue.Config{Schema: q.schema})
	if err != nil {
		t.Fatal(err)
	}
	onSQLite, err := queue.NewClient(riversqlite.New(db), &queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config river.Config
		team   func() error
		ofTeam func() (*river.Backend, error)
	}{
		"Postgres": {river.Config{Pool: q.pool},
			func() error {
				_, err := onPostgres.Insert(t.Context(), rawArgs{"team.email", []byte(`{}`)}, nil)
				return err
			},
			func() (*river.Backend, error) {
				return river.NewWithClient(onPostgres, nil, river.Config{Pool: q.pool})
			}},
		"SQLite": {river.Config{DB: db},
			func() error { _, err := onSQLite.Insert(t.Context(), rawArgs{"zebra", []byte(`{}`)}, nil); return err },
			func() (*river.Backend, error) { return river.NewWithClient(onSQLite, nil, river.Config{DB: db}) }},
	} {
		b := open(t, c.config)
		if _, err := b.Enqueue(t.Context(), messages(1, 3)); err != nil {
			t.Fatal(err)
		}
		if err := b.Check(t.Context()); err != nil {
			t.Errorf("%s: check: %v", name, err)
		}
		if err := c.team(); err != nil {
			t.Fatal(err)
		}
		if err := b.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "NewWithClient") {
			t.Errorf("%s: check beside another's jobs: %v", name, err)
		}
		ofTeam, err := c.ofTeam()
		if err != nil {
			t.Fatal(err)
		}
		if err := ofTeam.Check(t.Context()); err != nil {
			t.Errorf("%s: check through the team's client: %v", name, err)
		}
	}
}

func TestCheckWithoutServer(t *testing.T) {
	t.Parallel()
	err := open(t, river.Config{Pool: nowhere(t)}).Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is the database running") || strings.Contains(err.Error(), "secret") {
		t.Errorf("check: %v", err)
	}
}

// A team's River may be wherever the search path leads.
func TestOwnClientWithoutSchema(t *testing.T) {
	t.Parallel()
	pool := connect(t, services.Postgres(t))
	driver := riverpgxv5.New(pool)
	client, err := queue.NewClient(driver, &queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := river.NewWithClient(client, nil, river.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	wantHint(t, "before", b)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := b.Enqueue(t.Context(), messages(1, 3)); err != nil {
		t.Error(err)
	}
	if backlog, err := b.Backlog(t.Context()); err != nil || backlog.Ready != waybill.Known[int64](3) {
		t.Errorf("backlog %+v, %v", backlog, err)
	}
}

// Where River's tables are missing, a look at the backlog says what Check says; and
// who only looks makes no file.
func TestWithoutTables(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "river.db")
	db := openSQLite(t, path)
	for name, config := range map[string]river.Config{
		"Postgres": {Pool: connect(t, services.Postgres(t))},
		"SQLite":   {DB: db},
	} {
		b := open(t, config)
		wantHint(t, name, b)
		backlog, err := b.Backlog(t.Context())
		if backlog != (waybill.Backlog{}) || err == nil || err.Error() != b.Check(t.Context()).Error() {
			t.Errorf("%s: backlog %+v, %v", name, backlog, err)
		}
	}
	migrator, err := river.NewSQLiteMigrator(db)
	if err != nil {
		t.Fatal(err)
	}
	wantApplied(t, "without a file", migrator, 0)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a file now: %v", err)
	}
}

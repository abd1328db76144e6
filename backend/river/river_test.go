package river_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"

	"github.com/waybill-go/waybill/backend/river"
)

// nowhere is a pool that cannot connect.
func nowhere(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return connect(t, "postgres://user:secret@127.0.0.1:1/none?sslmode=disable&connect_timeout=2")
}

func TestNew(t *testing.T) {
	t.Parallel()
	pool := nowhere(t)
	file := openSQLite(t, filepath.Join(t.TempDir(), "river.db"))
	other, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "other.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for name, c := range map[string]struct {
		config river.Config
		reason string
	}{
		"no database":             {river.Config{}, "exactly one"},
		"two databases":           {river.Config{Pool: pool, DB: file}, "exactly one"},
		"another's handle":        {river.Config{DB: other}, "OpenSQLite"},
		"schema on SQLite":        {river.Config{DB: file, Schema: "s"}, "no schemas"},
		"dot in the queue":        {river.Config{Pool: pool, Queue: "waybill.mail"}, "lower-case letters and digits"},
		"dot in the lane":         {river.Config{Pool: pool, Lane: "mail.bulk"}, "lower-case letters and digits"},
		"capital in the queue":    {river.Config{Pool: pool, Queue: "Mail"}, "lower-case letters and digits"},
		"line break in the queue": {river.Config{Pool: pool, Queue: "mail\n"}, "lower-case letters and digits"},
		"long queue":              {river.Config{Pool: pool, Queue: strings.Repeat("q", 65)}, "64 characters"},
		"long schema":             {river.Config{Pool: pool, Schema: strings.Repeat("s", 47)}, "46 characters"},
		"dash in the schema":      {river.Config{Pool: pool, Schema: "a-b"}, "letters, digits and _"},
		"negative timeout":        {river.Config{Pool: pool, Timeout: -1}, "Timeout"},
		"negative drain":          {river.Config{Pool: pool, Drain: -1}, "Drain"},
		"negative retention":      {river.Config{Pool: pool, CompletedRetention: -1}, "CompletedRetention"},
		"no cooldown to speak of": {river.Config{Pool: pool, FetchCooldown: 1}, "1ms at least"},
		"poll before cooldown":    {river.Config{Pool: pool, FetchCooldown: 2 * time.Second}, "FetchPollInterval"},
	} {
		if _, err := river.New(c.config); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: error %v, want one that says %q", name, err, c.reason)
		}
	}
	for name, config := range map[string]river.Config{
		"defaults":       {Pool: pool},
		"longest names":  {Pool: pool, Queue: strings.Repeat("q", 64), Schema: strings.Repeat("S", 46)},
		"SQLite":         {DB: file},
		"lane of words":  {DB: file, Lane: "mail-bulk_2"},
		"longer between": {Pool: pool, FetchCooldown: time.Second, FetchPollInterval: time.Second},
	} {
		if _, err := river.New(config); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewWithClient(t *testing.T) {
	t.Parallel()
	pool := nowhere(t)
	file := openSQLite(t, filepath.Join(t.TempDir(), "river.db"))
	onPostgres, err := queue.NewClient(riverpgxv5.New(pool), &queue.Config{Schema: "team"})
	if err != nil {
		t.Fatal(err)
	}
	onSQLite, err := queue.NewClient(riversqlite.New(file), &queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]river.Config{
		"no database":      {},
		"another database": {DB: file},
		"another schema":   {Pool: pool, Schema: "other"},
		"fetch settings":   {Pool: pool, FetchCooldown: time.Second},
		"retention":        {Pool: pool, DiscardedRetention: time.Hour},
		"poll only":        {Pool: pool, PollOnly: true},
		"dot in the queue": {Pool: pool, Queue: "a.b"},
	} {
		if _, err := river.NewWithClient(onPostgres, nil, config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := river.NewWithClient[pgx.Tx](nil, nil, river.Config{Pool: pool}); err == nil {
		t.Error("without a client: no error")
	}
	if _, err := river.NewWithClient(onSQLite, nil, river.Config{Pool: pool}); err == nil {
		t.Error("a client on SQLite with a pool: no error")
	}
	if _, err := river.NewWithClient(onSQLite, nil, river.Config{DB: file}); err != nil {
		t.Error(err)
	}
	b, err := river.NewWithClient(onPostgres, nil, river.Config{Pool: pool, Schema: "team"})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Consume(t.Context(), 1, nil); err == nil || !strings.Contains(err.Error(), "without a worker") {
		t.Errorf("consume without a worker: %v", err)
	}
}

func TestOpenSQLite(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", ":memory:", filepath.Join(t.TempDir(), "no", "directory", "river.db")} {
		if db, err := river.OpenSQLite(path); err == nil {
			db.Close()
			t.Errorf("%q was opened", path)
		}
	}
	path := filepath.Join(t.TempDir(), "100% odd?#name.db")
	db := openSQLite(t, path)
	var mode, file string
	if err := db.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal mode %q, %v", mode, err)
	}
	if err := db.QueryRow("SELECT file FROM pragma_database_list").Scan(&file); err != nil || file != path {
		t.Errorf("file %q, want %q: %v", file, path, err)
	}
}

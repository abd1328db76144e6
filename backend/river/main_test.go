package river_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/internal/services"
)

func TestMain(m *testing.M) {
	backendtest.ConsumerProcess(openConsumer)
	backendtest.Parallel()
	goleak.VerifyTestMain(m)
}

// openConsumer opens what a spec names: "postgres URL schema" or "sqlite path".
func openConsumer(spec string) (waybill.Consumer, error) {
	kind, rest, _ := strings.Cut(spec, " ")
	if kind == "sqlite" {
		db, err := river.OpenSQLite(rest)
		if err != nil {
			return nil, err
		}
		return river.New(river.Config{DB: db})
	}
	databaseURL, schema, _ := strings.Cut(rest, " ")
	pool, err := pgxpool.New(context.Background(), databaseURL)
	if err != nil {
		return nil, err
	}
	return river.New(river.Config{Pool: pool, Schema: schema})
}

// connect returns a pool that ends with the test.
func connect(t testing.TB, databaseURL string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// schemas returns a function that makes a schema with River's tables in the
// database, and returns its name.
func schemas(t testing.TB, databaseURL string) func(t testing.TB) string {
	t.Helper()
	pool := connect(t, databaseURL)
	var mu sync.Mutex
	n := 0
	return func(t testing.TB) string {
		t.Helper()
		mu.Lock()
		n++
		schema := fmt.Sprintf("case_%d", n)
		mu.Unlock()
		migrator, err := river.NewMigrator(pool, schema)
		if err != nil {
			t.Fatal(err)
		}
		up(t, migrator)
		return schema
	}
}

func up(t testing.TB, migrator waybill.Migrator) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := migrator.Up(ctx); err != nil {
		t.Fatal(err)
	}
}

// postgresQueue is an empty River on Postgres.
type postgresQueue struct {
	url    string
	schema string
	pool   *pgxpool.Pool
}

// newPostgresQueue makes a River in a database of its own.
func newPostgresQueue(t testing.TB) postgresQueue {
	t.Helper()
	databaseURL := services.Postgres(t)
	pool := connect(t, databaseURL)
	migrator, err := river.NewMigrator(pool, "")
	if err != nil {
		t.Fatal(err)
	}
	up(t, migrator)
	return postgresQueue{url: databaseURL, schema: river.DefaultSchema, pool: pool}
}

// newSQLiteQueue makes a River in a file of its own.
func newSQLiteQueue(t testing.TB) (*sql.DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "river.db")
	db := openSQLite(t, path)
	migrator, err := river.NewSQLiteMigrator(db)
	if err != nil {
		t.Fatal(err)
	}
	up(t, migrator)
	return db, path
}

func openSQLite(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := river.OpenSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func open(t testing.TB, config river.Config) *river.Backend {
	t.Helper()
	b, err := river.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// through returns the URL with another host.
func through(t testing.TB, databaseURL, host string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = host
	return u.String()
}

func hostOf(t testing.TB, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func messages(first, n int) []waybill.Message {
	batch := make([]waybill.Message, n)
	for i := range batch {
		batch[i] = waybill.Message{
			DeliveryID: int64(first + i),
			Claim:      waybill.Claim{By: "relay:1:ab", At: waybill.StampOf(time.Now())},
		}
	}
	return batch
}

package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/store/storetest"
)

// sqlDriver is a driver of database/sql that the store is tested over.
type sqlDriver struct {
	name      string
	connector func(url string) (driver.Connector, error)
	deaf      bool // it hears no wake
}

var sqlDrivers = []sqlDriver{
	{"pq", func(url string) (driver.Connector, error) { return pq.NewConnector(url) }, true},
	{"pgx", func(url string) (driver.Connector, error) {
		config, err := pgx.ParseConfig(url)
		if err != nil {
			return nil, err
		}
		return stdlib.GetConnector(*config), nil
	}, false},
}

// overEach runs a test over each driver.
func overEach(t *testing.T, test func(t *testing.T, d sqlDriver)) {
	for _, d := range sqlDrivers {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

// open opens a pool of at most so many connections, with settings of the session.
func (d sqlDriver) open(t testing.TB, address string, conns int, settings ...string) *sql.DB {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := parsed.Query()
	query.Set("synchronous_commit", "off") // as in newPool
	for i := 0; i+1 < len(settings); i += 2 {
		query.Set(settings[i], settings[i+1])
	}
	parsed.RawQuery = query.Encode()
	connector, err := d.connector(parsed.String())
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	t.Cleanup(func() { db.Close() })
	return db
}

// TestStoreOverDB runs the conformance suite over the driver that is not pgx's; `make
// soak` runs it over pgx's as well.
func TestStoreOverDB(t *testing.T) {
	t.Parallel()
	conform(t, sqlDrivers[0])
}

// conform runs each case of the suite in a schema of its own.
func conform(t *testing.T, d sqlDriver) {
	t.Helper()
	address := services.Postgres(t)
	pool, db := newPool(t, address, 5), d.open(t, address, 20)
	var schemas atomic.Int64
	storetest.Run(t, func(t *testing.T, reg *waybill.Registry) storetest.Harness {
		schema := fmt.Sprintf("case_%d", schemas.Add(1))
		h := sqlHarness(t, d, db, pool, reg, schema)
		if err := h.Exec(t.Context(), h.Migrator.SQL()); err != nil {
			t.Fatal(err)
		}
		return h
	})
}

// sqlHarness looks at the rows by way of pgx, as the harness of the other store does.
func sqlHarness(t *testing.T, d sqlDriver, db *sql.DB, pool *pgxpool.Pool, reg *waybill.Registry, schema string) storetest.Harness {
	t.Helper()
	store := newStore(t, postgres.Config{DB: db, Registry: reg, Schema: schema, WakeInterval: -1})
	migrator, err := postgres.NewMigratorDB(db, schema)
	if err != nil {
		t.Fatal(err)
	}
	h := harness(t, pool, reg, schema)
	h.Store, h.Migrator, h.SetClock, h.Wake, h.Deaf = store, migrator, store.SetClockOffset, store.Wake, d.deaf
	h.InTx = func(ctx context.Context, f func(tx any) error) error {
		return store.InSQLTx(ctx, func(tx *sql.Tx) error { return f(tx) })
	}
	h.Fire = func(ctx context.Context, tx any, events ...any) ([]int64, error) {
		return store.FireAllSQL(ctx, tx.(postgres.SQLTx), events)
	}
	h.Cancel = func(ctx context.Context, tx any, request waybill.CancelRequest) (waybill.CancelResult, error) {
		return store.CancelSQL(ctx, tx.(postgres.SQLTx), request)
	}
	h.Reopen = func(ctx context.Context, tx any, request waybill.ReopenRequest) ([]int64, error) {
		return store.ReopenSQL(ctx, tx.(postgres.SQLTx), request)
	}
	h.ExecTx = func(ctx context.Context, tx any, text string) error {
		_, err := tx.(postgres.SQLTx).ExecContext(ctx, fmt.Sprintf("SET LOCAL search_path TO %s; %s", schema, text))
		return err
	}
	h.Second = func(t *testing.T, reg *waybill.Registry) storetest.Harness {
		return sqlHarness(t, d, db, pool, reg, schema)
	}
	return h
}

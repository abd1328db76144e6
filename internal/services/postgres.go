package services

import (
	"context"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var postgresOnce sync.Once

// Postgres creates a database for this test and returns its URL. The database
// is dropped when the test ends, whoever is still connected.
func Postgres(t testing.TB) string {
	t.Helper()
	admin := env(t, "WAYBILL_TEST_POSTGRES")
	own, err := url.Parse(admin)
	if err != nil || own.Scheme != "postgres" && own.Scheme != "postgresql" {
		t.Fatal("WAYBILL_TEST_POSTGRES is not a postgres:// URL")
	}
	postgresOnce.Do(func() { dropAbandoned(t, admin) })

	name := fresh()
	// template0 has no sessions, ever, so that creating never has to wait.
	adminExec(t, admin, "CREATE DATABASE "+name+" TEMPLATE template0")
	t.Cleanup(func() { adminExec(t, admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	own.Path = "/" + name
	return own.String()
}

func adminExec(t testing.TB, admin, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		t.Fatalf("connect to the server in WAYBILL_TEST_POSTGRES: %v (make services starts one)", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// dropAbandoned removes what killed tests left behind. Another process may be
// doing the same, and a soak may still be connected: neither is an error.
func dropAbandoned(t testing.TB, admin string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return // said better by the request that follows
	}
	defer conn.Close(ctx)
	rows, _ := conn.Query(ctx, "SELECT datname FROM pg_database WHERE starts_with(datname, $1)", prefix)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Logf("list databases: %v", err)
	}
	for _, name := range names {
		if abandoned(name, time.Now()) {
			_, _ = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize())
		}
	}
}

package e2e

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
)

// database is a database of one test, with Waybill's schema in it.
type database struct {
	t    *testing.T
	url  string
	pool *pgxpool.Pool
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	d := &database{t: t, url: services.Postgres(t)}
	var err error
	if d.pool, err = pgxpool.New(t.Context(), d.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.pool.Close)
	return d
}

// migrate applies the schema as the library does.
func (d *database) migrate() {
	d.t.Helper()
	migrator, err := postgres.NewMigrator(d.pool, "")
	if err == nil {
		_, err = migrator.Up(d.t.Context())
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *database) exec(sql string, args ...any) {
	d.t.Helper()
	if _, err := d.pool.Exec(d.t.Context(), sql, args...); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
}

// count returns the one number that a query asks for.
func (d *database) count(sql string, args ...any) (n int) {
	d.t.Helper()
	if err := d.pool.QueryRow(d.t.Context(), sql, args...).Scan(&n); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// none fails the test for each row that a query finds.
func (d *database) none(what, sql string, args ...any) {
	d.t.Helper()
	rows, err := d.pool.Query(d.t.Context(), sql+" LIMIT 5", args...)
	if err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	for _, row := range found {
		d.t.Errorf("%s: %v", what, row)
	}
}

// statuses counts the deliveries: "claimed 3, succeeded 97".
func (d *database) statuses() string {
	d.t.Helper()
	rows, err := d.pool.Query(context.WithoutCancel(d.t.Context()), `SELECT status, count(*) FROM waybill.delivery GROUP BY status`)
	if err != nil {
		d.t.Fatal(err)
	}
	var (
		status string
		n      int
		counts []string
	)
	if _, err := pgx.ForEachRow(rows, []any{&status, &n}, func() error {
		counts = append(counts, fmt.Sprintf("%s %d", status, n))
		return nil
	}); err != nil {
		d.t.Fatal(err)
	}
	sort.Strings(counts)
	return strings.Join(counts, ", ")
}

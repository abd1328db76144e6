package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStore runs the conformance suite, each case in a schema of its own.
func TestStore(t *testing.T) {
	t.Parallel()
	admin := newPool(t, services.Postgres(t), 20, "")
	var schemas atomic.Int64
	storetest.Run(t, func(t *testing.T, reg *waybill.Registry) storetest.Harness {
		schema := fmt.Sprintf("case_%d", schemas.Add(1))
		pool := newPool(t, admin.Config().ConnString(), 6, schema)
		migrate(t, pool, schema)
		return harness(t, pool, reg, schema)
	})
}

// newPool opens a pool whose unqualified names are those of the schema, for the
// statements of the tests; the store's own are qualified.
func newPool(t testing.TB, url string, conns int32, schema string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = conns
	if schema != "" {
		config.ConnConfig.RuntimeParams["search_path"] = schema
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func migrate(t testing.TB, pool *pgxpool.Pool, schema string) *postgres.Migrator {
	t.Helper()
	migrator, err := postgres.NewMigrator(pool, schema)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Up(context.Background()); err != nil {
		t.Fatal(err)
	}
	return migrator
}

func harness(t *testing.T, pool *pgxpool.Pool, reg *waybill.Registry, schema string) storetest.Harness {
	t.Helper()
	store, err := postgres.New(postgres.Config{Pool: pool, Registry: reg, Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	migrator, err := postgres.NewMigrator(pool, schema)
	if err != nil {
		t.Fatal(err)
	}
	return storetest.Harness{
		Store: store, Migrator: migrator, SetClock: store.SetClockOffset,
		InTx: func(ctx context.Context, f func(tx any) error) error {
			return store.InTx(ctx, func(tx pgx.Tx) error { return f(tx) })
		},
		Fire: func(ctx context.Context, tx any, events ...any) ([]int64, error) {
			return store.FireAll(ctx, tx.(postgres.DB), events)
		},
		ExecTx: func(ctx context.Context, tx any, sql string) error {
			_, err := tx.(postgres.DB).Exec(ctx, sql)
			return err
		},
		Rows: func(ctx context.Context) ([]storetest.Row, error) { return rows(ctx, pool) },
		Exec: func(ctx context.Context, sql string) error {
			_, err := pool.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
			return err
		},
		Int: func(ctx context.Context, sql string) (n int64, err error) {
			err = pool.QueryRow(ctx, sql).Scan(&n)
			return n, err
		},
		Second: func(t *testing.T, reg *waybill.Registry) storetest.Harness {
			return harness(t, newPool(t, pool.Config().ConnString(), 4, schema), reg, schema)
		},
	}
}

func rows(ctx context.Context, pool *pgxpool.Pool) ([]storetest.Row, error) {
	result, err := pool.Query(ctx, `
SELECT id, event_id, receiver, target, target_digest, status, attempts, starts, max_attempts, available_at, due_at,
       claimed_by, claimed_at, lease_expires_at, handed_off_at, taken_at, last_error, settled_at
  FROM delivery ORDER BY id`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(result, func(r pgx.CollectableRow) (row storetest.Row, err error) {
		var (
			digest []byte
			times  [7]pgtype.Timestamptz
		)
		err = r.Scan(&row.ID, &row.EventID, &row.Receiver, &row.Target, &digest, &row.Status, &row.Attempts, &row.Starts,
			&row.MaxAttempts, &times[0], &times[1], &row.ClaimedBy, &times[2], &times[3], &times[4], &times[5], &row.LastError, &times[6])
		if err != nil {
			return row, err
		}
		row.TargetDigest = [32]byte(digest)
		for i, stamp := range []*waybill.Stamp{&row.AvailableAt, &row.DueAt, &row.ClaimedAt, &row.LeaseExpiresAt,
			&row.HandedOffAt, &row.TakenAt, &row.SettledAt} {
			if times[i].Valid {
				*stamp = waybill.StampOf(times[i].Time)
			}
		}
		return row, nil
	})
}

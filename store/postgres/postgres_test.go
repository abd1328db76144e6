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
	pool := newPool(t, services.Postgres(t), 20)
	var schemas atomic.Int64
	storetest.Run(t, func(t *testing.T, reg *waybill.Registry) storetest.Harness {
		schema := fmt.Sprintf("case_%d", schemas.Add(1))
		h := harness(t, pool, reg, schema)
		if err := h.Exec(t.Context(), h.Migrator.SQL()); err != nil { // quicker than Up, which has cases of its own
			t.Fatal(err)
		}
		return h
	})
}

func newPool(t testing.TB, url string, conns int32) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = conns
	// The tests crash no server: what they commit need not reach the disk.
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	return newPoolOf(t, config)
}

func newPoolOf(t testing.TB, config *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func migrate(t testing.TB, pool *pgxpool.Pool, schema string) {
	t.Helper()
	migrator, err := postgres.NewMigrator(pool, schema)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Up(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func newStore(t testing.TB, config postgres.Config) *postgres.Store {
	t.Helper()
	store, err := postgres.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func harness(t *testing.T, pool *pgxpool.Pool, reg *waybill.Registry, schema string) storetest.Harness {
	t.Helper()
	store := newStore(t, postgres.Config{Pool: pool, Registry: reg, Schema: schema, WakeInterval: -1})
	migrator, err := postgres.NewMigrator(pool, schema)
	if err != nil {
		t.Fatal(err)
	}
	// The suite's own statements name no schema. The store's do, and find their
	// tables whatever the connection's path is.
	path := fmt.Sprintf("SET LOCAL search_path TO %s; ", schema)
	return storetest.Harness{
		Store: store, Migrator: migrator, SetClock: store.SetClockOffset,
		InTx: func(ctx context.Context, f func(tx any) error) error {
			return store.InTx(ctx, func(tx pgx.Tx) error { return f(tx) })
		},
		Fire: func(ctx context.Context, tx any, events ...any) ([]int64, error) {
			return store.FireAll(ctx, tx.(postgres.DB), events)
		},
		Cancel: func(ctx context.Context, tx any, request waybill.CancelRequest) (waybill.CancelResult, error) {
			return store.Cancel(ctx, tx.(postgres.DB), request)
		},
		Reopen: func(ctx context.Context, tx any, request waybill.ReopenRequest) ([]int64, error) {
			return store.Reopen(ctx, tx.(postgres.DB), request)
		},
		ExecTx: func(ctx context.Context, tx any, sql string) error {
			_, err := tx.(postgres.DB).Exec(ctx, path+sql, pgx.QueryExecModeSimpleProtocol)
			return err
		},
		Wake: store.Wake,
		Rows: func(ctx context.Context) ([]storetest.Row, error) { return rows(ctx, pool, schema) },
		Exec: func(ctx context.Context, sql string) error {
			_, err := pool.Exec(ctx, path+sql, pgx.QueryExecModeSimpleProtocol)
			return err
		},
		Int: func(ctx context.Context, sql string) (n int64, err error) {
			err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, path); err != nil {
					return err
				}
				return tx.QueryRow(ctx, sql, pgx.QueryExecModeExec).Scan(&n)
			})
			return n, err
		},
		Second: func(t *testing.T, reg *waybill.Registry) storetest.Harness {
			return harness(t, pool, reg, schema)
		},
	}
}

func rows(ctx context.Context, pool *pgxpool.Pool, schema string) ([]storetest.Row, error) {
	result, err := pool.Query(ctx, `
SELECT id, event_id, receiver, target, target_digest, status, attempts, starts, max_attempts, available_at, due_at,
       claimed_by, claimed_at, lease_expires_at, handed_off_at, taken_at, last_error, settled_at
  FROM `+schema+`.delivery ORDER BY id`)
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

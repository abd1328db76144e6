package sqlite_test

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	waybill "github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStore runs the conformance suite on a file.
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, reg *waybill.Registry) storetest.Harness {
		path := filepath.Join(t.TempDir(), "way bill?50%.db") // a name to be escaped
		h := harness(t, path, reg)
		if _, err := h.Migrator.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		return h
	})
}

func harness(t *testing.T, path string, reg *waybill.Registry) storetest.Harness {
	t.Helper()
	store := newStore(t, path, reg)
	db := openRaw(t, path)
	return storetest.Harness{
		Store: store, Migrator: store.Migrator(), SetClock: store.SetClockOffset,
		InTx: func(ctx context.Context, f func(tx any) error) error {
			return store.InTx(ctx, func(tx *sql.Tx) error { return f(tx) })
		},
		Fire: func(ctx context.Context, tx any, events ...any) ([]int64, error) {
			return store.FireAll(ctx, tx.(*sql.Tx), events)
		},
		ExecTx: func(ctx context.Context, tx any, query string) error {
			_, err := tx.(*sql.Tx).ExecContext(ctx, query)
			return err
		},
		Rows: func(ctx context.Context) ([]storetest.Row, error) { return readRows(ctx, db) },
		Exec: func(ctx context.Context, query string) error {
			_, err := db.ExecContext(ctx, query)
			return err
		},
		Int: func(ctx context.Context, query string) (n int64, err error) {
			err = db.QueryRowContext(ctx, query).Scan(&n)
			return n, err
		},
		Second: func(t *testing.T, reg *waybill.Registry) storetest.Harness { return harness(t, path, reg) },
	}
}

func newStore(t testing.TB, path string, reg *waybill.Registry) *sqlite.Store {
	t.Helper()
	store, err := sqlite.New(sqlite.Config{Path: path, Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// openRaw opens the file as another program would.
func openRaw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: "_busy_timeout=10000&_txlock=immediate&_foreign_keys=1"}).String())
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

func readRows(ctx context.Context, db *sql.DB) ([]storetest.Row, error) {
	result, err := db.QueryContext(ctx, `
SELECT id, event_id, receiver, target, target_digest, status, attempts, starts, max_attempts, available_at, due_at,
       claimed_by, COALESCE(claimed_at, 0), COALESCE(lease_expires_at, 0), COALESCE(handed_off_at, 0),
       COALESCE(taken_at, 0), last_error, COALESCE(settled_at, 0)
  FROM delivery ORDER BY id`)
	if err != nil {
		return nil, err
	}
	defer result.Close()
	var rows []storetest.Row
	for result.Next() {
		var row storetest.Row
		var digest []byte
		if err := result.Scan(&row.ID, &row.EventID, &row.Receiver, &row.Target, &digest, &row.Status, &row.Attempts,
			&row.Starts, &row.MaxAttempts, &row.AvailableAt, &row.DueAt, &row.ClaimedBy, &row.ClaimedAt,
			&row.LeaseExpiresAt, &row.HandedOffAt, &row.TakenAt, &row.LastError, &row.SettledAt); err != nil {
			return nil, err
		}
		row.TargetDigest = [32]byte(digest)
		rows = append(rows, row)
	}
	return rows, result.Err()
}

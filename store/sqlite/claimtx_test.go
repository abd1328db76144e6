package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
)

// Work that goes on for too long ends with the time of a call, and so does the wait
// for whoever is too long at work.
func TestClaimTxEndsInTime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "waybill.db")
	store, err := sqlite.New(sqlite.Config{Path: path, Registry: newRegistry(), CallTimeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if _, err := store.Migrator().Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := fireRaw(t.Context(), store, 3); err != nil {
		t.Fatal(err)
	}
	request := waybill.ClaimRequest{By: "relay", Receivers: []string{"plain"}, Limit: 10, Lease: time.Minute}
	for name, work := range map[string]func(ctx context.Context, tx *sql.Tx) error{
		"work waits":               func(ctx context.Context, _ *sql.Tx) error { <-ctx.Done(); return ctx.Err() },
		"work waits, says nothing": func(ctx context.Context, _ *sql.Tx) error { <-ctx.Done(); return nil },
		"the database is slow": func(ctx context.Context, tx *sql.Tx) error {
			var n int
			return tx.QueryRowContext(ctx, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n`).Scan(&n)
		},
	} {
		begun := time.Now()
		err := store.ClaimTx(t.Context(), func(ctx context.Context, tx any, claims waybill.Claimer) error {
			if rows, err := claims.Claim(ctx, request); err != nil || len(rows) != 3 {
				t.Errorf("%s: claimed %d rows: %v", name, len(rows), err)
			}
			return work(ctx, tx.(*sql.Tx))
		})
		if took := time.Since(begun); err == nil || took > 10*time.Second {
			t.Errorf("%s: %v after %s, want the end of the time", name, err, took)
		}
	}
	err = store.InTx(t.Context(), func(*sql.Tx) error {
		return store.ClaimTx(t.Context(), func(context.Context, any, waybill.Claimer) error {
			t.Error("work was called beside another writer")
			return nil
		})
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("beside another writer: %v, want the end of the time", err)
	}
	if messages, err := claimPlain(t.Context(), store, 10); err != nil || len(messages) != 3 {
		t.Errorf("claimed %d rows afterwards: %v", len(messages), err)
	}
}

// A step that is cut short has done a part of its rows; all of it is undone, also if
// work takes no notice.
func TestClaimTxCommitsNoHalfStep(t *testing.T) {
	t.Parallel()
	store, _ := newFile(t)
	const rows = 2000
	if err := fireRaw(t.Context(), store, rows); err != nil {
		t.Fatal(err)
	}
	for wait := 500 * time.Microsecond; ; wait *= 2 {
		var cut error
		err := store.ClaimTx(t.Context(), func(ctx context.Context, _ any, claims waybill.Claimer) error {
			short, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			_, cut = claims.Claim(short, waybill.ClaimRequest{By: "relay", Receivers: []string{"plain"}, Limit: rows, Lease: time.Minute})
			return nil
		})
		if (err == nil) != (cut == nil) {
			t.Fatalf("committed after %v: %v", cut, err)
		}
		left, claimErr := claimPlain(t.Context(), store, rows)
		if claimErr != nil {
			t.Fatal(claimErr)
		}
		if err == nil {
			if len(left) != 0 {
				t.Errorf("%d rows were left by a claim of all", len(left))
			}
			return
		}
		if len(left) != rows {
			t.Fatalf("%d rows were left by a claim that was cut short, want all %d", len(left), rows)
		}
		if err := pendAgain(t.Context(), store); err != nil {
			t.Fatal(err)
		}
	}
}

// pendAgain makes every row due.
func pendAgain(ctx context.Context, store *sqlite.Store) error {
	return store.InTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE delivery SET status = 'pending'`)
		return err
	})
}

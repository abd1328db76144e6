package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/store/storetest"
)

// TestMain runs the tests, or what one of them runs in a process of its own.
func TestMain(m *testing.M) {
	if child, ok := children[os.Getenv(childVariable)]; ok {
		if err := child(os.Getenv(childFileVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

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
		Cancel: func(ctx context.Context, tx any, request waybill.CancelRequest) (waybill.CancelResult, error) {
			return store.Cancel(ctx, tx.(*sql.Tx), request)
		},
		Reopen: func(ctx context.Context, tx any, request waybill.ReopenRequest) ([]int64, error) {
			return store.Reopen(ctx, tx.(*sql.Tx), request)
		},
		ExecTx: func(ctx context.Context, tx any, query string) error {
			_, err := tx.(*sql.Tx).ExecContext(ctx, query)
			return err
		},
		Wake: store.Wake,
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

// newRegistry declares one plain receiver of everything.
func newRegistry() *waybill.Registry {
	reg := waybill.NewRegistry()
	waybill.OnAny(reg, "plain", func(context.Context, *waybill.Delivery) error { return nil }, waybill.Options{})
	return reg
}

// newFile returns a store on a new file with the schema.
func newFile(t testing.TB) (*sqlite.Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "waybill.db")
	store := newStore(t, path, newRegistry())
	if _, err := store.Migrator().Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store, path
}

// fireRaw fires n events in one transaction.
func fireRaw(ctx context.Context, store *sqlite.Store, n int) error {
	events := make([]any, n)
	for i := range events {
		events[i] = waybill.RawEvent{Name: "fired", Payload: fmt.Appendf(nil, `{"n":%d}`, i)}
	}
	return store.InTx(ctx, func(tx *sql.Tx) error {
		_, err := store.FireAll(ctx, tx, events)
		return err
	})
}

// claimPlain claims up to n due rows.
func claimPlain(ctx context.Context, store *sqlite.Store, n int) ([]waybill.Message, error) {
	rows, err := store.Claim(ctx, waybill.ClaimRequest{By: "relay", Receivers: []string{"plain"}, Limit: n, Lease: time.Minute})
	messages := make([]waybill.Message, len(rows))
	for i, row := range rows {
		messages[i] = row.Message
	}
	return messages, err
}

// takeAndAck takes messages and acknowledges what it took, all of it.
func takeAndAck(ctx context.Context, store *sqlite.Store, messages []waybill.Message) error {
	taken, err := store.Take(ctx, waybill.TakeRequest{By: "worker", Messages: messages, Leases: store.Registry().Leases()})
	if err != nil {
		return err
	}
	acks := make([]waybill.Ack, len(taken))
	for i, d := range taken {
		acks[i] = waybill.Ack{
			Message: waybill.Message{DeliveryID: d.ID, Claim: d.Claim},
			Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true},
		}
	}
	landed, err := store.Ack(ctx, acks)
	if err == nil && len(landed) != len(messages) {
		err = fmt.Errorf("claimed %d rows, took %d and acknowledged %d", len(messages), len(taken), len(landed))
	}
	return err
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

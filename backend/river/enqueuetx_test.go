package river_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/internal/poll"
)

var errRollback = errors.New("roll back")

// Messages are there when the transaction commits, and never were if it does not.
func TestEnqueueTx(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	b := open(t, river.Config{Pool: q.pool})
	err := inTx(t, q, func(tx pgx.Tx) error {
		if err := b.EnqueueTx(t.Context(), tx, messages(1, 500)); err != nil {
			t.Fatal(err)
		}
		if n := q.jobs(t, "true"); n != 0 { // asked on another connection
			t.Errorf("%d jobs before the commit", n)
		}
		return errRollback
	})
	if !errors.Is(err, errRollback) {
		t.Fatal(err)
	}
	if n := q.jobs(t, "true"); n != 0 {
		t.Errorf("%d jobs after a rollback", n)
	}
	if err := inTx(t, q, func(tx pgx.Tx) error { return b.EnqueueTx(t.Context(), tx, messages(1, 500)) }); err != nil {
		t.Fatal(err)
	}
	if n := q.jobs(t, "true"); n != 500 {
		t.Errorf("%d jobs after a commit, want 500", n)
	}
	if err := inTx(t, q, func(tx pgx.Tx) error { return b.EnqueueTx(t.Context(), tx, nil) }); err != nil {
		t.Errorf("nothing to enqueue: %v", err)
	}
}

// A refused message fails the transaction, and says so.
func TestEnqueueTxRefused(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	b := open(t, river.Config{Pool: q.pool})
	exec(t, q.url, `ALTER TABLE `+q.schema+`.river_job ADD CONSTRAINT refused CHECK (args->>'delivery_id' <> '2')`)
	if err := inTx(t, q, func(tx pgx.Tx) error { return b.EnqueueTx(t.Context(), tx, messages(1, 3)) }); err == nil {
		t.Error("no error")
	}
	if n := q.jobs(t, "true"); n != 0 {
		t.Errorf("%d jobs", n)
	}
}

// A transaction of another database is left as it is.
func TestEnqueueTxOfOtherDatabase(t *testing.T) {
	t.Parallel()
	q, other := newPostgresQueue(t), newPostgresQueue(t)
	db, path := newSQLiteQueue(t)
	otherDB, _ := newSQLiteQueue(t)
	onPostgres, onSQLite := open(t, river.Config{Pool: q.pool}), open(t, river.Config{DB: db})
	refused := func(name string, b *river.Backend, tx any) {
		t.Helper()
		if err := b.EnqueueTx(t.Context(), tx, messages(1, 1)); !errors.Is(err, waybill.ErrOtherDatabase) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	beginSQLite := func(db *sql.DB) *sql.Tx {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	err := inTx(t, other, func(tx pgx.Tx) error {
		refused("another database of the server", onPostgres, tx)
		refused("a transaction on Postgres", onSQLite, tx)
		_, err := tx.Exec(t.Context(), "SELECT 1") // it goes on
		return err
	})
	if err != nil {
		t.Error(err)
	}
	tx := beginSQLite(otherDB)
	refused("another file", onSQLite, tx)
	refused("a transaction on SQLite", onPostgres, tx)
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	for _, b := range []*river.Backend{onPostgres, onSQLite} {
		refused("nothing", b, nil)
		refused("another type", b, "tx")
		refused("no transaction of the type", b, (*sql.Tx)(nil))
	}

	// The same file under another name and in another process's hands is the
	// same database.
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	linked := openSQLite(t, link)
	tx = beginSQLite(linked)
	if err := onSQLite.EnqueueTx(t.Context(), tx, messages(1, 1)); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	if n := sqliteNumber(t, db, "SELECT count(*) FROM river_job"); n != 1 {
		t.Errorf("%d jobs, want 1", n)
	}
}

// Workers are told of messages as the transaction commits, whatever becomes of
// others at the same time. Nothing else would bring them in less than a minute.
func TestEnqueueTxIsAnnounced(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	b := open(t, river.Config{Pool: q.pool, FetchPollInterval: time.Minute})
	var came atomic.Int64
	backendtest.Consuming(t, b, 4, func(context.Context, waybill.Message) error {
		came.Add(1)
		return nil
	})
	enqueue := func() {
		t.Helper()
		if err := inTx(t, q, func(tx pgx.Tx) error { return b.EnqueueTx(t.Context(), tx, messages(1, 1)) }); err != nil {
			t.Fatal(err)
		}
	}
	want := int64(0)
	poll.Until(t, "the consumer listens", func() bool { // it fetches once before it does
		enqueue()
		want++
		time.Sleep(50 * time.Millisecond)
		return came.Load() > 1
	})
	poll.Until(t, "all messages come", func() bool { return came.Load() == want })
	for range 20 {
		_ = inTx(t, q, func(tx pgx.Tx) error {
			if err := b.EnqueueTx(t.Context(), tx, messages(1, 1)); err != nil {
				t.Fatal(err)
			}
			return errRollback
		})
		enqueue()
		want++
		poll.Until(t, "a message comes beside one that was rolled back", func() bool { return came.Load() == want })
	}
	_ = inTx(t, q, func(tx pgx.Tx) error {
		if err := b.EnqueueTx(t.Context(), tx, messages(1, 1)); err != nil {
			t.Fatal(err)
		}
		enqueue()
		want++
		poll.Until(t, "a message comes beside one that is not committed yet", func() bool { return came.Load() == want })
		return nil
	})
	poll.Until(t, "the one that was committed late comes", func() bool { return came.Load() == want+1 })
}

// On SQLite the announcement is a row, which is committed with the jobs.
func TestEnqueueTxIsAnnouncedOnSQLite(t *testing.T) {
	t.Parallel()
	db, path := newSQLiteQueue(t)
	store := openSQLite(t, path) // in the place of the store's own handle
	b := open(t, river.Config{DB: db, FetchPollInterval: time.Minute})
	var came atomic.Int64
	backendtest.Consuming(t, b, 4, func(context.Context, waybill.Message) error {
		came.Add(1)
		return nil
	})
	enqueue := func(end func(*sql.Tx) error) {
		t.Helper()
		tx, err := store.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.EnqueueTx(t.Context(), tx, messages(1, 1)); err != nil {
			t.Fatal(err)
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
	}
	for want := int64(1); want <= 10; want++ {
		enqueue((*sql.Tx).Rollback)
		enqueue((*sql.Tx).Commit)
		poll.Until(t, "a message comes beside one that was rolled back", func() bool { return came.Load() == want })
	}
}

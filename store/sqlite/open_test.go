package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
)

// Trap 11: a heartbeat that waits for its own transaction.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	broken := waybill.NewRegistry()
	broken.Add(waybill.Receiver{})
	beating := waybill.NewRegistry()
	waybill.Declare[struct{ ID int }](beating, "order.placed", waybill.EventOptions{})
	sqlite.OnTx(beating, "stock.reserve", func(context.Context, *sql.Tx, struct{ ID int }) error { return nil },
		waybill.Options{Heartbeat: true, Timeout: time.Hour})
	path := filepath.Join(t.TempDir(), "waybill.db")
	for name, config := range map[string]sqlite.Config{
		"no path":                         {Registry: waybill.NewRegistry()},
		"no registry":                     {Path: path},
		"a broken registry":               {Path: path, Registry: broken},
		"a lease that cannot be extended": {Path: path, Registry: beating},
		"a negative time":                 {Path: path, Registry: waybill.NewRegistry(), CallTimeout: -1},
		"no directory":                    {Path: filepath.Join(path, "missing", "waybill.db"), Registry: waybill.NewRegistry()},
	} {
		if store, err := sqlite.New(config); err == nil {
			store.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

// A relay that is started with a mistyped path says so, and leaves no file.
func TestOpenCreatesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := sqlite.Open(t.Context(), filepath.Join(dir, "typo.db"), newRegistry())
	if err == nil || !strings.Contains(err.Error(), "bridge migrate") {
		t.Errorf("got %v, want an error that says what to do", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("files %v, error %v", files, err)
	}
}

func TestOpenRefusesAnotherFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(path, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path, newRegistry()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

// An in-memory database is ready at once, belongs to its store alone, and serves
// many goroutines.
func TestMemory(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var stores []*sqlite.Store
	for range 2 {
		store, err := sqlite.Open(ctx, sqlite.Memory, newRegistry())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		stores = append(stores, store)
	}
	store := stores[0]
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				if err := fireRaw(ctx, store, 3); err != nil {
					t.Error(err)
					return
				}
				messages, err := claimPlain(ctx, store, 3)
				if err != nil {
					t.Error(err)
					return
				}
				if err := takeAndAck(ctx, store, messages); err != nil {
					t.Error(err)
				}
				if _, err := store.Tallies(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	// A call that was cut off does not lose the connection, and so the database.
	cut, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if err := store.InTx(cut, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(cut, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n`)
		return err
	}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the end of the context", err)
	}
	for i, want := range []int64{120, 0} {
		tallies, err := stores[i].Tallies(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var rows int64
		for _, tally := range tallies {
			rows += tally.Rows
		}
		if rows != want {
			t.Errorf("store %d has %d rows, want %d", i, rows, want)
		}
	}
}

// While another program holds the write lock, a call waits for its time, not for
// ever, and not shorter.
func TestWaitForTheLockIsBounded(t *testing.T) {
	t.Parallel()
	_, path := newFile(t)
	const timeout = 150 * time.Millisecond
	store, err := sqlite.New(sqlite.Config{Path: path, Registry: newRegistry(), CallTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	tx, err := openRaw(t, path).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	began := time.Now()
	_, err = claimPlain(t.Context(), store, 1)
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took < timeout {
		t.Errorf("got %v after %s, want the end of its time after %s", err, took, timeout)
	}
	if _, err := store.Look(t.Context(), []int64{1}); err != nil {
		t.Errorf("a reader waited for a writer: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- fireRaw(t.Context(), store, 1) }()
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("after the lock was free: %v", err)
	}
}

// A call of the store inside its own transaction ends with an error, not never.
func TestCallInsideInTx(t *testing.T) {
	t.Parallel()
	_, path := newFile(t)
	store, err := sqlite.New(sqlite.Config{Path: path, Registry: newRegistry(), CallTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	err = store.InTx(t.Context(), func(*sql.Tx) error {
		_, err := claimPlain(t.Context(), store, 1)
		return err
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the end of its time", err)
	}
	if err := fireRaw(t.Context(), store, 1); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

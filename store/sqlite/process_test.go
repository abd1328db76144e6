package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
)

// Names of the environment variables that make this program another process of
// a test.
const (
	childVariable     = "WAYBILL_SQLITE_TEST_CHILD"
	childFileVariable = "WAYBILL_SQLITE_TEST_FILE"
)

// children are what tests run in processes of their own, on the file at path.
var children = map[string]func(path string) error{
	"contend": func(path string) error {
		return withStore(path, func(ctx context.Context, store *sqlite.Store) error {
			claimed, _, err := contend(ctx, store, path)
			for _, id := range claimed {
				fmt.Println(id)
			}
			return err
		})
	},
	"die in a transaction": func(path string) error {
		return withStore(path, func(ctx context.Context, store *sqlite.Store) error {
			if _, err := claimPlain(ctx, store, 1); err != nil {
				return err
			}
			return store.InTx(ctx, func(tx *sql.Tx) error {
				for range 200 { // more than fits into the cache: pages reach the log uncommitted
					event := waybill.RawEvent{Name: "lost", Payload: fmt.Appendf(nil, "%q", strings.Repeat("x", 50_000))}
					if _, err := store.Fire(ctx, tx, event); err != nil {
						return err
					}
				}
				fmt.Println("ready")
				_, err := io.ReadAll(os.Stdin) // until it is killed
				return err
			})
		})
	},
	"write until killed": func(path string) error {
		return withStore(path, func(ctx context.Context, store *sqlite.Store) error {
			for fmt.Println("ready"); ; {
				if err := fireRaw(ctx, store, 20); err != nil {
					return err
				}
				messages, err := claimPlain(ctx, store, 20)
				if err != nil {
					return err
				}
				if err := takeAndAck(ctx, store, messages); err != nil {
					return err
				}
			}
		})
	},
	"fire": func(path string) error {
		return withStore(path, func(ctx context.Context, store *sqlite.Store) error { return fireRaw(ctx, store, 1) })
	},
}

func withStore(path string, f func(context.Context, *sqlite.Store) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	store, err := sqlite.Open(ctx, path, newRegistry())
	if err != nil {
		return err
	}
	defer store.Close()
	return f(ctx, store)
}

// child starts this program as another process.
func child(t *testing.T, name, path string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childVariable+"="+name, childFileVariable+"="+path)
	command.Stderr = os.Stderr
	if _, err := command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill() // nothing, if it has ended
		command.Wait()
	})
	return command, bufio.NewReader(out)
}

const (
	contenders = 8
	rounds     = 10
	perRound   = 5
)

// contend fires, claims, takes and acknowledges in many goroutines. It returns
// the ids it claimed and the largest size of the write-ahead log it saw.
func contend(ctx context.Context, store *sqlite.Store, path string) (claimed []int64, log int64, err error) {
	var (
		mu     sync.Mutex
		all    sync.WaitGroup
		failed atomic.Bool
	)
	for range contenders {
		all.Go(func() {
			for range rounds {
				ids, size, roundErr := contendOnce(ctx, store, path)
				mu.Lock()
				claimed, log = append(claimed, ids...), max(log, size)
				if roundErr != nil && !failed.Swap(true) {
					err = roundErr
				}
				mu.Unlock()
				if failed.Load() {
					return
				}
			}
		})
	}
	all.Wait()
	return claimed, log, err
}

func contendOnce(ctx context.Context, store *sqlite.Store, path string) (ids []int64, log int64, err error) {
	if err := fireRaw(ctx, store, perRound); err != nil {
		return nil, 0, err
	}
	messages, err := claimPlain(ctx, store, perRound)
	if err != nil {
		return nil, 0, err
	}
	for _, message := range messages {
		ids = append(ids, message.DeliveryID)
	}
	if err := takeAndAck(ctx, store, messages); err != nil {
		return ids, 0, err
	}
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return ids, 0, err
	}
	return ids, info.Size(), nil
}

// Many goroutines and a second process on one file: nobody is told that it is
// busy, every row is claimed once, and the log does not grow without end.
func TestContention(t *testing.T) {
	t.Parallel()
	store, path := newFile(t)
	second, out := child(t, "contend", path)
	claimed, log, err := contend(t.Context(), store, path)
	if err != nil {
		t.Fatal(err)
	}
	for {
		var id int64
		if _, err := fmt.Fscanln(out, &id); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		claimed = append(claimed, id)
	}
	if err := second.Wait(); err != nil {
		t.Fatal(err)
	}
	for { // what each left to the other
		messages, err := claimPlain(t.Context(), store, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(messages) == 0 {
			break
		}
		for _, message := range messages {
			claimed = append(claimed, message.DeliveryID)
		}
		if err := takeAndAck(t.Context(), store, messages); err != nil {
			t.Fatal(err)
		}
	}
	times := map[int64]int{}
	for _, id := range claimed {
		if times[id]++; times[id] > 1 {
			t.Errorf("delivery %d was claimed %d times", id, times[id])
		}
	}
	rows, err := readRows(t.Context(), openRaw(t, path))
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * contenders * rounds * perRound; len(rows) != want || len(times) != want {
		t.Errorf("%d rows and %d of them claimed, want %d", len(rows), len(times), want)
	}
	for _, row := range rows {
		if row.Status != waybill.Succeeded || row.Attempts != 1 || row.Starts != 1 {
			t.Errorf("delivery %d is %s after %d attempts and %d starts", row.ID, row.Status, row.Attempts, row.Starts)
		}
	}
	if log == 0 || log > 16<<20 {
		t.Errorf("the write-ahead log had %d bytes", log)
	}
}

// A process that is killed inside a transaction leaves nothing of it, keeps no
// lock, and loses nothing of what was committed before.
func TestKilledInTransaction(t *testing.T) {
	t.Parallel()
	store, path := newFile(t)
	if err := fireRaw(t.Context(), store, 1); err != nil {
		t.Fatal(err)
	}
	process, out := child(t, "die in a transaction", path)
	awaitReady(t, out)
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	process.Wait()
	began := time.Now()
	if err := fireRaw(t.Context(), store, 1); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the lock of the dead was held for %s", took)
	}
	db := openRaw(t, path)
	wantConsistent(t, db)
	rows, err := readRows(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[0].Status != waybill.Claimed || rows[1].Status != waybill.Pending {
		t.Fatalf("got %+v, want the row it claimed and the one fired since", rows)
	}
	store.SetClockOffset(2 * time.Minute) // past the lease of the dead
	lapsed, err := store.ClaimLapsed(t.Context(), waybill.LapsedRequest{By: "relay:2", Limit: 10, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if len(lapsed) != 1 || lapsed[0].DeliveryID != rows[0].ID {
		t.Fatalf("claimed %+v, want delivery %d", lapsed, rows[0].ID)
	}
}

// A process that is killed at any moment leaves a whole file.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	_, path := newFile(t)
	for range 5 {
		process, out := child(t, "write until killed", path)
		awaitReady(t, out)
		time.Sleep(rand.N(40 * time.Millisecond)) // the moment is what is tried, not waited for
		if err := process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		process.Wait()
		wantConsistent(t, openRaw(t, path))
	}
}

func awaitReady(t *testing.T, out *bufio.Reader) {
	t.Helper()
	if line, err := out.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the process said %q: %v", line, err)
	}
}

// wantConsistent fails the test unless the file is whole and every event has its
// delivery.
func wantConsistent(t *testing.T, db *sql.DB) {
	t.Helper()
	for query, want := range map[string]string{
		`SELECT group_concat(integrity_check) FROM pragma_integrity_check`:           "ok",
		`SELECT count(*) FROM pragma_foreign_key_check`:                              "0",
		`SELECT count(*) FROM event WHERE id NOT IN (SELECT event_id FROM delivery)`: "0",
		`SELECT count(*) FROM event WHERE name = 'lost'`:                             "0",
		`SELECT count(*) % 20 FROM event WHERE (SELECT count(*) FROM event) > 10`:    "0",
	} {
		var got string
		if err := db.QueryRowContext(t.Context(), query).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
}

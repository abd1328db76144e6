package river_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/store/sqlite"
)

// River works in the store's own file, beside a store that writes all the time:
// neither makes a call of the other fail, and neither waits for ever.
func TestBesideStoreOnSQLite(t *testing.T) {
	t.Parallel()
	const writers, transactions, batch = 3, 20, 5
	path := filepath.Join(t.TempDir(), "waybill.db")
	store, err := sqlite.New(sqlite.Config{Path: path, Registry: waybill.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	up(t, store.Migrator())
	db := openSQLite(t, path)
	migrator, err := river.NewSQLiteMigrator(db)
	if err != nil {
		t.Fatal(err)
	}
	up(t, migrator)
	logger, log := logtest.New()
	b := open(t, river.Config{DB: db, Logger: logger})

	var slowest atomic.Int64
	write := func(work func(tx *sql.Tx) error) {
		begun := time.Now()
		if err := store.InTx(context.Background(), work); err != nil {
			t.Error(err)
		}
		for took := int64(time.Since(begun)); took > slowest.Load(); {
			slowest.Store(took)
		}
	}
	write(func(tx *sql.Tx) error {
		_, err := tx.Exec("CREATE TABLE work (delivery integer PRIMARY KEY, runs integer NOT NULL DEFAULT 0)")
		return err
	})
	var came atomic.Int64
	end := backendtest.Consuming(t, b, 16, func(_ context.Context, m waybill.Message) error {
		write(func(tx *sql.Tx) error {
			_, err := tx.Exec("UPDATE work SET runs = runs + 1 WHERE delivery = ?", m.DeliveryID)
			return err
		})
		came.Add(1)
		return nil
	})
	begun := time.Now()
	var relays sync.WaitGroup
	for i := range writers {
		relays.Go(func() {
			for j := range transactions {
				first := 1 + (i*transactions+j)*batch
				write(func(tx *sql.Tx) error {
					for id := first; id < first+batch; id++ {
						if _, err := tx.Exec("INSERT INTO work (delivery) VALUES (?)", id); err != nil {
							return err
						}
					}
					return b.EnqueueTx(t.Context(), tx, messages(first, batch))
				})
			}
		})
	}
	relays.Wait()
	poll.Until(t, "all messages come", func() bool { return came.Load() == writers*transactions*batch })
	t.Logf("%d messages in %s, slowest transaction of the store %s", came.Load(), time.Since(begun), time.Duration(slowest.Load()))
	if err := end(); err != nil {
		t.Error(err)
	}
	if n := sqliteNumber(t, db, "SELECT count(*) FROM work WHERE runs = 1"); n != writers*transactions*batch {
		t.Errorf("%d deliveries ran once, want %d", n, writers*transactions*batch)
	}
	// Who leads may be left open for a while on a disk that takes seconds to write.
	if warned, leader := log.Lines("level=WARN"), log.Lines("level=WARN", "leadership.Elector"); len(warned) > len(leader) {
		t.Errorf("%d warnings, %d of them about who leads:\n%s", len(warned), len(leader), strings.Join(warned, "\n"))
	}
	log.Want(t, 0, "level=ERROR")
}

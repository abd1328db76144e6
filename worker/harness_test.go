package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

// bench is a database of its own for one test, a queue in the test's hand, and
// ways to look at what a worker does.
type bench struct {
	*testing.T
	reg   *waybill.Registry
	store *sqlite.Store
	fault *faults
	queue *hand
	log   *lines
	seen  *seen
}

// newBench opens a bench on the registry.
func newBench(t *testing.T, reg *waybill.Registry) *bench {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Memory, reg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &bench{T: t, reg: reg, store: store, fault: newFaults(store), queue: newHand(), seen: &seen{}}
}

// start runs a worker on the bench.
func (b *bench) start(config worker.Config) *work {
	b.Helper()
	config.Store, config.Backend = b.fault, b.queue
	config.Observer = b.seen.observe
	config.Logger, b.log = newLog()
	w := start(b.T, config)
	b.Cleanup(w.cancel)
	return w
}

// fire fires n events of the name, one delivery for each receiver.
func (b *bench) fire(n int, name, payload string) {
	b.Helper()
	events := make([]any, n)
	for i := range events {
		events[i] = waybill.RawEvent{Name: name, Payload: []byte(payload)}
	}
	err := b.store.InTx(context.Background(), func(tx *sql.Tx) error {
		_, err := b.store.FireAll(context.Background(), tx, events)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// claim claims all due rows for a relay and returns its messages.
func (b *bench) claim(receivers ...string) []waybill.Message {
	b.Helper()
	if len(receivers) == 0 {
		receivers = waybill.Keys(b.reg.Receivers())
	}
	rows, err := b.store.Claim(context.Background(), waybill.ClaimRequest{
		By: "relay", Receivers: receivers, Limit: 1000, Lease: time.Minute,
	})
	return b.messages(rows, err)
}

// reclaim claims all lapsed rows for another relay and returns its messages.
func (b *bench) reclaim() []waybill.Message {
	b.Helper()
	rows, err := b.store.ClaimLapsed(context.Background(), waybill.LapsedRequest{
		By: "second relay", Limit: 1000, Lease: time.Minute,
	})
	return b.messages(rows, err)
}

func (b *bench) messages(rows []waybill.ClaimedRow, err error) []waybill.Message {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	messages := make([]waybill.Message, len(rows))
	for i, row := range rows {
		messages[i] = row.Message
	}
	return messages
}

// deliver fires n parcels, claims them and hands them to the worker.
func (b *bench) deliver(n int) <-chan error {
	b.Helper()
	b.fire(n, "parcel.sent", `{}`)
	messages := b.claim()
	if len(messages) < n {
		b.Fatalf("claimed %d rows, want at least %d", len(messages), n)
	}
	return b.queue.give(messages...)
}

// row is a delivery as it stands in the database.
type row struct {
	ID                                              int64
	Status                                          waybill.Status
	Attempts, Starts                                int
	AvailableAt, Lease, HandedOff, TakenAt, Settled waybill.Stamp
	ClaimedBy, Error                                string
}

// givenBack reports whether the row may be claimed at once.
func (r row) givenBack() bool {
	return r.Status == waybill.Claimed && r.Lease == 1 && r.HandedOff == 0 && r.TakenAt == 0
}

var errOnlyLooking = errors.New("only looking")

func (b *bench) rows() []row {
	b.Helper()
	var all []row
	err := b.store.InTx(context.Background(), func(tx *sql.Tx) error {
		found, err := tx.Query(`SELECT id, status, attempts, starts, available_at, COALESCE(lease_expires_at, 0),
			COALESCE(handed_off_at, 0), COALESCE(taken_at, 0), COALESCE(settled_at, 0), claimed_by, last_error
			FROM delivery ORDER BY id`)
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var r row
			if err := found.Scan(&r.ID, &r.Status, &r.Attempts, &r.Starts, &r.AvailableAt, &r.Lease,
				&r.HandedOff, &r.TakenAt, &r.Settled, &r.ClaimedBy, &r.Error); err != nil {
				return err
			}
			all = append(all, r)
		}
		if err := found.Err(); err != nil {
			return err
		}
		return errOnlyLooking
	})
	if !errors.Is(err, errOnlyLooking) {
		b.Fatal(err)
	}
	return all
}

func (b *bench) row(id int64) row {
	b.Helper()
	for _, r := range b.rows() {
		if r.ID == id {
			return r
		}
	}
	b.Fatalf("there is no delivery %d", id)
	return row{}
}

// exec runs a statement in a transaction of its own.
func (b *bench) exec(format string, args ...any) {
	b.Helper()
	err := b.store.InTx(context.Background(), func(tx *sql.Tx) error {
		_, err := tx.Exec(fmt.Sprintf(format, args...))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// number returns what a query of one number yields.
func (b *bench) number(query string) (n int) {
	b.Helper()
	err := b.store.InTx(context.Background(), func(tx *sql.Tx) error { return tx.QueryRow(query).Scan(&n) })
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// settled waits until no row of the bench is owed but for failed ones.
func (b *bench) settled() {
	b.Helper()
	eventually(b.T, "an outcome for every row", func() bool {
		for _, r := range b.rows() {
			if r.Status == waybill.Claimed || r.Status == waybill.Pending {
				return false
			}
		}
		return true
	})
}

func (b *bench) wantRow(id int64, status waybill.Status, attempts, starts int) row {
	b.Helper()
	r := b.row(id)
	if r.Status != status || r.Attempts != attempts || r.Starts != starts {
		b.Errorf("delivery %d is %s after %d attempts and %d starts, want %s, %d, %d: %+v",
			id, r.Status, r.Attempts, r.Starts, status, attempts, starts, r)
	}
	return r
}

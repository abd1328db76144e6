package relay_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/sqlite"
)

// bench is a database of its own for one test, and ways to look at it.
type bench struct {
	*testing.T
	reg   *waybill.Registry
	store *sqlite.Store
	fault *faults
	queue *queue
	log   *lines
}

func newBench(t *testing.T, receivers map[string]waybill.Options) *bench {
	t.Helper()
	b := &bench{T: t, reg: declare(t, receivers), queue: &queue{}}
	store, err := sqlite.Open(t.Context(), sqlite.Memory, b.reg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	b.store, b.fault = store, newFaults(store)
	return b
}

// relay returns a relay on the bench's store and queue that logs to b.log.
func (b *bench) relay(config relay.Config) *relay.Relay {
	b.Helper()
	if config.Store == nil {
		config.Store = b.fault
	}
	if config.Backend == nil {
		config.Backend = b.queue
	}
	if b.log == nil {
		config.Logger, b.log = newLog()
	} else if config.Logger == nil {
		config.Logger, _ = newLog()
	}
	return newRelay(b.T, config)
}

// fire fires n events, one to each receiver, as of that long ago.
func (b *bench) fire(n int, ago time.Duration) {
	b.Helper()
	b.store.SetClockOffset(-ago)
	defer b.store.SetClockOffset(0)
	events := make([]any, n)
	for i := range events {
		events[i] = waybill.RawEvent{Name: "parcel.sent", Payload: []byte(message(i))}
	}
	err := b.store.InTx(context.Background(), func(tx *sql.Tx) error {
		_, err := b.store.FireAll(context.Background(), tx, events)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
}

// row is a delivery as it stands in the database.
type row struct {
	ID                                       int64
	Receiver, Status                         string
	Attempts, Starts                         int
	AvailableAt, ClaimedAt, Lease, HandedOff waybill.Stamp
	ClaimedBy, Error                         string
}

// givenBack reports whether the row may be claimed at once.
func (r row) givenBack() bool { return r.Status == "claimed" && r.HandedOff == 0 && r.Lease == 1 }

// heldBy reports whether the relay holds the row and its message is out.
func (r row) heldBy(relay *relay.Relay) bool {
	return r.Status == "claimed" && r.HandedOff != 0 && r.ClaimedBy == relay.ID()
}

// own is how long after its hand-off the row's lease ends.
func (r row) own() time.Duration { return r.Lease.Time().Sub(r.HandedOff.Time()) }

var errOnlyLooking = errors.New("only looking")

// rows returns all rows by id; it wakes nobody.
func (b *bench) rows() []row {
	b.Helper()
	var all []row
	err := b.store.InTx(context.Background(), func(tx *sql.Tx) error {
		found, err := tx.Query(`SELECT id, receiver, status, attempts, starts, available_at, COALESCE(claimed_at, 0),
			COALESCE(lease_expires_at, 0), COALESCE(handed_off_at, 0), claimed_by, last_error
			FROM delivery ORDER BY id`)
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var r row
			if err := found.Scan(&r.ID, &r.Receiver, &r.Status, &r.Attempts, &r.Starts, &r.AvailableAt, &r.ClaimedAt,
				&r.Lease, &r.HandedOff, &r.ClaimedBy, &r.Error); err != nil {
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

// rowsOf returns the rows of one receiver.
func (b *bench) rowsOf(receiver string) []row {
	b.Helper()
	return slices.DeleteFunc(b.rows(), func(r row) bool { return r.Receiver != receiver })
}

// all reports whether every row is so.
func all(rows []row, so func(row) bool) bool {
	return !slices.ContainsFunc(rows, func(r row) bool { return !so(r) })
}

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

// claim claims due rows for a relay that then dies.
func (b *bench) claim(n int, lease time.Duration) []waybill.Message {
	b.Helper()
	rows, err := b.store.Claim(context.Background(), waybill.ClaimRequest{
		By: "dead relay", Receivers: waybill.Keys(b.reg.Receivers()), Limit: n, Lease: lease,
	})
	if err != nil {
		b.Fatal(err)
	}
	if len(rows) != n {
		b.Fatalf("claimed %d rows, want %d", len(rows), n)
	}
	messages := make([]waybill.Message, n)
	for i, row := range rows {
		messages[i] = row.Message
	}
	return messages
}

func ids(from, to int64) []int64 {
	var ids []int64
	for id := from; id <= to; id++ {
		ids = append(ids, id)
	}
	return ids
}

func wantIDs(t *testing.T, what string, got, want []int64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

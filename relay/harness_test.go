package relay_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/sqlitetest"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/sqlite"
)

// bench is a database of its own for one test, and ways to look at it.
type bench struct {
	*testing.T
	reg   *waybill.Registry
	store *sqlite.Store
	fault *fault.Store
	queue *queue
	log   *logtest.Log
}

func newBench(t *testing.T, receivers map[string]waybill.Options) *bench {
	t.Helper()
	b := &bench{T: t, reg: declare(t, receivers), queue: &queue{}}
	b.store = sqlitetest.Open(t, b.reg)
	b.fault = fault.NewStore(b.store)
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
		config.Logger, b.log = logtest.New()
	} else if config.Logger == nil {
		config.Logger, _ = logtest.New()
	}
	return newRelay(b.T, config)
}

// fire fires n events, one to each receiver, as of that long ago.
func (b *bench) fire(n int, ago time.Duration) {
	b.Helper()
	b.store.SetClockOffset(-ago)
	defer b.store.SetClockOffset(0)
	sqlitetest.Fire(b.T, b.store, n, func(i int) waybill.RawEvent {
		return waybill.RawEvent{Name: "parcel.sent", Payload: []byte(message(i))}
	})
}

type row = sqlitetest.Row

// heldBy reports whether the relay holds the row and its message is out.
func heldBy(r row, relay *relay.Relay) bool {
	return r.Status == waybill.Claimed && r.HandedOff != 0 && r.ClaimedBy == relay.ID()
}

// own is how long after its hand-off the row's lease ends.
func own(r row) time.Duration { return r.Lease.Time().Sub(r.HandedOff.Time()) }

// rows returns all rows by id; it wakes nobody.
func (b *bench) rows() []row {
	b.Helper()
	return sqlitetest.Rows(b.T, b.store)
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
	sqlitetest.Exec(b.T, b.store, format, args...)
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

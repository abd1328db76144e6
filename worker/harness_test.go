package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/sqlitetest"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

// bench is a database of its own for one test, a queue in the test's hand, and
// ways to look at what a worker does.
type bench struct {
	*testing.T
	reg   *waybill.Registry
	store *sqlite.Store
	fault *fault.Store
	queue *hand
	log   *logtest.Log
	seen  *seen
}

// newBench opens a bench on the registry.
func newBench(t *testing.T, reg *waybill.Registry) *bench {
	t.Helper()
	store := sqlitetest.Open(t, reg)
	return &bench{T: t, reg: reg, store: store, fault: fault.NewStore(store), queue: newHand(), seen: &seen{}}
}

// start runs a worker on the bench.
func (b *bench) start(config worker.Config) *work {
	b.Helper()
	config.Store, config.Backend = b.fault, b.queue
	config.Observer = b.seen.observe
	config.Logger, b.log = logtest.New()
	w := start(b.T, config)
	b.Cleanup(w.cancel)
	return w
}

// fire fires n events of the name, one delivery for each receiver.
func (b *bench) fire(n int, name, payload string) {
	b.Helper()
	sqlitetest.Fire(b.T, b.store, n, func(int) waybill.RawEvent {
		return waybill.RawEvent{Name: name, Payload: []byte(payload)}
	})
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

type row = sqlitetest.Row

func (b *bench) rows() []row {
	b.Helper()
	return sqlitetest.Rows(b.T, b.store)
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
	sqlitetest.Exec(b.T, b.store, format, args...)
}

// number returns what a query of one number yields.
func (b *bench) number(query string) int {
	b.Helper()
	return sqlitetest.Number(b.T, b.store, query)
}

// awaitLine waits for the line that ends the step a test has begun.
func (b *bench) awaitLine(parts ...string) {
	b.Helper()
	poll.Until(b.T, "the line "+strings.Join(parts, " "), func() bool { return len(b.log.Lines(parts...)) > 0 })
}

// settled waits until no row of the bench is owed but for failed ones.
func (b *bench) settled() {
	b.Helper()
	poll.Until(b.T, "an outcome for every row", func() bool {
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

package relay_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/relay"
)

// shortTime is what calls of the store may take in a case about time.
const shortTime = 300 * time.Millisecond

func TestJointHandOff(t *testing.T) {
	t.Parallel()
	for store, open := range stores(t) {
		for _, c := range jointCases {
			t.Run(store+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				c.run(newShared(t, open(t, declare(t, c.receivers), c.timeout)))
			})
		}
	}
}

// jointCase is a case of a queue that is kept in the store's database, to be played
// on every store.
type jointCase struct {
	name      string
	timeout   time.Duration // of the store's calls; 0 is the default
	receivers map[string]waybill.Options
	run       func(b *shared)
}

var jointCases = []jointCase{
	{"claim and hand-off are one transaction", 0, map[string]waybill.Options{"short": {Lease: time.Minute}, "long": {Lease: 10 * time.Minute}}, func(b *shared) {
		b.fire(60)
		counts := map[waybill.ObservationKind]int{}
		r := b.relay(relay.Config{Observer: func(seen waybill.Observation) { counts[seen.Kind] += seen.Count }})
		once(b.T, r, 0, 120)
		b.wantOut(r, ids(1, 120))
		b.wantBatches(2, 0)
		if counts[waybill.ObservedClaim] != 120 || counts[waybill.ObservedEnqueue] != 120 {
			b.Errorf("observed %v, want 120 rows claimed and 120 enqueued", counts)
		}
		if got := b.fault.Count("Extend"); got != 2 {
			b.Errorf("%d extensions, want one for each claim", got)
		}
		for receiver, want := range map[string]time.Duration{"short": time.Minute, "long": 10 * time.Minute} {
			query := fmt.Sprintf("SELECT max("+b.micros+") FROM delivery WHERE receiver = '%s'", "lease_expires_at", "handed_off_at", receiver)
			if got := time.Duration(b.numbers(query)[0]) * time.Microsecond; got < want || got > want+10*time.Second {
				b.Errorf("rows of %q were handed off with a lease of %s, want %s", receiver, got, want)
			}
		}
		once(b.T, r, 5, 0)
	}},
	{"a limit is that of one claim", 0, map[string]waybill.Options{"a": {}}, func(b *shared) {
		b.fire(20)
		r := b.relay(relay.Config{})
		once(b.T, r, 7, 7)
		b.wantOut(r, ids(1, 7))
		once(b.T, r, 50, 13)
		b.wantOut(r, ids(1, 20))
	}},
	// All of a lane's rows that lapsed come with one claim, and each goes its own way.
	{"lapsed rows of every kind come in one claim", 0, map[string]waybill.Options{
		"near": {Site: waybill.SiteRelay, Lease: time.Minute}, "far": {Lease: time.Minute}, "later": {Lease: 2 * time.Minute},
		"killer": {Lease: time.Minute}, "gone": {},
	}, func(b *shared) {
		b.fire(4)
		near := &table{db: b.database}
		once(b.T, b.relay(relay.Config{Local: apart{near}}), 0, 20)
		b.do("UPDATE delivery SET receiver = 'nobody' WHERE receiver = 'gone'")
		b.do("UPDATE delivery SET starts = 3 WHERE receiver = 'killer'")
		b.do("DELETE FROM message")
		b.fire(2)
		b.do("UPDATE delivery SET status = 'succeeded' WHERE receiver = 'gone'")
		b.clock(time.Hour)
		joint, _ := b.queue.batches()

		r := b.relay(relay.Config{Local: apart{near}, ParkAfter: 3, OrphanAfter: -1})
		once(b.T, r, 0, 12+8) // of 20 lapsed rows and 8 due ones
		b.wantOut(r, b.ids("receiver IN ('near', 'far', 'later') OR receiver = 'killer' AND starts = 0"))
		wantIDs(b.T, "parked", b.ids("status = 'dead'"), b.ids("receiver = 'killer' AND starts = 3"))
		wantIDs(b.T, "orphaned", b.ids("status = 'orphaned'"), b.ids("receiver = 'nobody'"))
		b.wantBatches(joint+2, 0)
	}},
	// A row that is refused cannot hold up those beside it, and the next claim is joint
	// again.
	{"a refused message falls out of the transaction", 0, map[string]waybill.Options{"a": {Lease: time.Minute}}, func(b *shared) {
		b.fire(5)
		b.queue.change(func(q *table) { q.refuse = 3 })
		r := b.relay(relay.Config{})
		once(b.T, r, 5, 4)
		b.wantOut(r, []int64{1, 2, 4, 5})
		b.wantBatches(1, 1)
		wantIDs(b.T, "given back", b.ids("status = 'claimed' AND handed_off_at IS NULL"), []int64{3})
		b.log.Want(b.T, 1, "level=WARN", "in one transaction did not succeed", "delivery 3 is too heavy")
		b.log.Want(b.T, 1, "level=WARN", "message was refused", "delivery_id=3", "again_in=1s")
		b.log.Want(b.T, 0, "level=ERROR")

		b.fire(5)
		once(b.T, r, 5, 5)
		b.wantBatches(2, 1)
		b.queue.change(func(q *table) { q.refuse = 0 })
		b.clock(10 * time.Second)
		once(b.T, r, 5, 1)
		b.wantOut(r, ids(1, 10))
		b.wantBatches(3, 1)
	}},
	// A queue that works by itself alone is not asked at every claim: each time costs a
	// transaction that is rolled back.
	{"a queue that fails in every transaction", 0, map[string]waybill.Options{"a": {}}, func(b *shared) {
		b.fire(20)
		queue := &loner{table: b.queue}
		queue.alone.Store(true)
		r := b.relay(relay.Config{Backend: queue})
		for range 20 {
			once(b.T, r, 1, 1)
		}
		b.wantOut(r, ids(1, 20))
		b.wantBatches(0, 20)
		asked := int(queue.asked.Load())
		if asked < 2 || asked > 7 { // at once, then after 1, 2, 4, 8 s at the longest
			b.Errorf("asked %d times to take part, in 20 claims", asked)
		}
		b.log.Want(b.T, asked, "level=WARN", "in one transaction did not succeed")
		b.log.Want(b.T, 1, "again_in=0s")

		queue.alone.Store(false)
		poll.Until(b.T, "a claim to be joint again", func() bool {
			b.fire(1)
			once(b.T, r, 1, 1)
			joint, _ := b.queue.batches()
			return joint == 1
		})
	}},
	// A queue that is down is tried with a single row in the plain way, which costs no
	// transaction that is rolled back.
	{"an outage is found out in the plain way", 0, map[string]waybill.Options{"a": {Lease: time.Minute}}, func(b *shared) {
		b.fire(250)
		b.queue.change(func(q *table) { q.down = errDown })
		r := b.relay(relay.Config{Poll: 20 * time.Millisecond})
		run(b.T, r)
		poll.Until(b.T, "the first batch to be given back", func() bool {
			return len(b.ids("status = 'claimed' AND handed_off_at IS NULL")) == 100
		})
		b.wantOut(r, nil)
		b.wantBatches(1, 1)
		b.queue.change(func(q *table) { q.down = nil })
		poll.Until(b.T, "all rows to be handed off", func() bool { whole, _, _ := b.out(r); return len(whole) == 250 })
		b.wantOut(r, ids(1, 250))
		b.log.Want(b.T, 1, "level=WARN", "in one transaction did not succeed")
		b.log.Want(b.T, 1, "level=INFO", "queue is well again")
		if joint, plain := b.queue.batches(); joint < 3 || plain != 2 {
			b.Errorf("%d joint batches and %d plain ones, want one plain try and then the rest of the rows jointly", joint, plain)
		}
	}},
	{"the queue is in another database", 0, map[string]waybill.Options{"a": {Lease: time.Minute}}, func(b *shared) {
		b.fire(250)
		b.queue.change(func(q *table) { q.elsewhere = true })
		r := b.relay(relay.Config{})
		once(b.T, r, 100, 100) // in the same pass
		once(b.T, r, 0, 150)
		b.wantOut(r, ids(1, 250))
		b.wantBatches(1, 3)
		b.log.Want(b.T, 1, "level=INFO", "two databases", "site=task")
		b.log.Want(b.T, 0, "level=WARN")
	}},
	// The queue of the other site takes no part in the transaction.
	{"one of two queues is in the database", 0, map[string]waybill.Options{"far": {}, "near": {Site: waybill.SiteRelay}}, func(b *shared) {
		b.fire(3)
		near := &table{db: b.database}
		r := b.relay(relay.Config{Local: apart{near}})
		once(b.T, r, 0, 6)
		b.wantOut(r, ids(1, 6))
		b.wantBatches(1, 0)

		// The lapsed rows of both come with one claim: of those of the queue that is
		// down nothing is lost.
		b.do("DELETE FROM message")
		near.change(func(q *table) { q.down = errDown })
		b.clock(time.Hour)
		if n, err := r.Once(b.Context(), 6); n != 3 || !errors.Is(err, errDown) {
			b.Errorf("Once: %d, %v; want 3 and the other queue's error", n, err)
		}
		b.wantOut(r, b.ids("receiver = 'far'"))
		wantIDs(b.T, "given back", b.ids("status = 'claimed' AND handed_off_at IS NULL"), b.ids("receiver = 'near'"))
	}},
	{"both queues are in the database", 0, map[string]waybill.Options{"far": {}, "near": {Site: waybill.SiteRelay}}, func(b *shared) {
		b.fire(3)
		near := &table{db: b.database}
		r := b.relay(relay.Config{Local: near})
		once(b.T, r, 0, 6)
		b.do("DELETE FROM message")
		b.clock(time.Hour)
		near.change(func(q *table) { q.elsewhere = true })
		once(b.T, r, 0, 6) // all of it is rolled back once
		b.wantOut(r, ids(1, 6))
		b.wantBatches(2, 1)
		b.do("DELETE FROM message")
		b.clock(2 * time.Hour)
		once(b.T, r, 0, 6)
		b.wantOut(r, ids(1, 6))
		b.wantBatches(3, 1)
		if joint, plain := near.batches(); joint != 2 || plain != 2 {
			b.Errorf("the queue that is elsewhere was offered %d joint and %d plain batches, want 2 and 2", joint, plain)
		}
	}},
	{"no more is claimed than there is room for", 0, map[string]waybill.Options{"a": {}}, func(b *shared) {
		b.fire(25)
		r := b.relay(relay.Config{Backend: narrowTable{b.queue}})
		once(b.T, r, 100, 10)
		b.wantOut(r, ids(1, 10))
	}},
	// An error of the database is one, whatever step meets it: the queue is not blamed,
	// and nothing is tried beside the transaction.
	{"an error of the database", 0, map[string]waybill.Options{"short": {Lease: time.Minute}, "long": {Lease: time.Hour}}, func(b *shared) {
		b.fire(3)
		r := b.relay(relay.Config{})
		for _, method := range []string{"ClaimTx", "Claim", "Extend"} {
			b.fault.On(method, fault.Hook{Before: func(context.Context) error { return errDown }})
			if n, err := r.Once(b.Context(), 0); n != 0 || !errors.Is(err, errDown) {
				b.Errorf("%s fails: %d, %v; want 0 and the store's error", method, n, err)
			}
			b.fault.On(method, fault.Hook{})
			b.wantOut(r, nil)
		}
		b.wantBatches(0, 0)
		once(b.T, r, 0, 6)
		b.wantOut(r, ids(1, 6))
	}},
	// Nobody knows what became of a commit whose answer is lost: both, or neither.
	{"the answer is lost", 0, map[string]waybill.Options{"a": {}}, func(b *shared) {
		b.fire(3)
		observed := 0
		r := b.relay(relay.Config{Observer: func(waybill.Observation) { observed++ }})
		b.afterCommit(func() error { return errDown })
		if n, err := r.Once(b.Context(), 3); n != 0 || !errors.Is(err, errDown) {
			b.Errorf("Once: %d, %v; want 0 and the store's error", n, err)
		}
		b.wantOut(r, ids(1, 3))
		b.wantBatches(1, 0)
		if back := b.fault.Count("GiveBack"); back+observed != 0 {
			b.Errorf("given back %d times, and %d observations of what nobody knows", back, observed)
		}
	}},
	{"what is undone and done again counts once", 0, map[string]waybill.Options{"short": {Lease: time.Minute}, "long": {Lease: time.Hour}}, func(b *shared) {
		b.fire(3)
		counts := map[waybill.ObservationKind]int{}
		r := b.relay(relay.Config{Store: contested{b.store}, Observer: func(seen waybill.Observation) { counts[seen.Kind] += seen.Count }})
		once(b.T, r, 0, 6)
		b.wantOut(r, ids(1, 6))
		b.wantBatches(2, 0)
		if counts[waybill.ObservedClaim] != 6 || counts[waybill.ObservedEnqueue] != 6 || len(b.messages()) != 6 {
			b.Errorf("observed %v and %d messages, want 6 of each", counts, len(b.messages()))
		}
	}},
	// A stop comes before the joint claim, or after it.
	{"a stop meanwhile", 0, map[string]waybill.Options{"a": {}}, func(b *shared) {
		b.fire(3)
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		b.fault.On("Claim", fault.Hook{After: func() error { cancel(); return nil }})
		r := b.relay(relay.Config{})
		wantReturn(b.T, runUntil(ctx, r))
		b.wantOut(r, ids(1, 3))
		if back := b.fault.Count("GiveBack"); back != 0 {
			b.Errorf("given back %d times, want never", back)
		}
	}},
	// What was rolled back when the relay stops is not begun anew.
	{"a stop while it fails", 0, map[string]waybill.Options{"a": {}}, func(b *shared) {
		b.fire(3)
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		b.queue.change(func(q *table) { q.after = func(context.Context) error { cancel(); return errDown } })
		r := b.relay(relay.Config{})
		wantReturn(b.T, runUntil(ctx, r))
		b.wantBatches(1, 0)
		wantIDs(b.T, "due", b.ids("status = 'pending'"), ids(1, 3))
	}},
	// A queue that hangs holds the transaction up for no longer than a call of the store
	// may take.
	{"a queue that hangs", shortTime, map[string]waybill.Options{"a": {}}, func(b *shared) {
		b.fire(3)
		hang := func(ctx context.Context) error {
			b.queue.change(func(q *table) { q.before = nil })
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > shortTime {
				b.Errorf("the hand-off has the deadline %v, %t; want that of the transaction", deadline, ok)
			}
			<-ctx.Done()
			return ctx.Err()
		}
		b.queue.change(func(q *table) { q.before = hang })
		r := b.relay(relay.Config{})
		once(b.T, r, 3, 3)
		b.wantOut(r, ids(1, 3))
		b.wantBatches(1, 1)
	}},
}

// narrowTable is a queue in the database that has room for ten.
type narrowTable struct{ *table }

func (narrowTable) Room() int              { return 10 }
func (narrowTable) Freed() <-chan struct{} { return nil }

// loner is a queue in the database that, while it is alone, takes part in no
// transaction.
type loner struct {
	*table
	alone atomic.Bool
	asked atomic.Int64
}

func (q *loner) EnqueueTx(ctx context.Context, tx any, messages []waybill.Message) error {
	if q.alone.Load() {
		q.asked.Add(1)
		return errDown
	}
	return q.table.EnqueueTx(ctx, tx, messages)
}

// contested is a store whose database undoes the first try of every transaction.
type contested struct{ fault.Inner }

func (s contested) ClaimTx(ctx context.Context, work func(context.Context, any, waybill.Claimer) error) error {
	undone := errors.New("deadlock detected")
	err := s.Inner.ClaimTx(ctx, func(ctx context.Context, tx any, claims waybill.Claimer) error {
		return errors.Join(work(ctx, tx, claims), undone)
	})
	if !errors.Is(err, undone) {
		return err
	}
	return s.Inner.ClaimTx(ctx, work)
}

package protocoltest

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// reference is a store in memory, of which any one guard can be weakened. It has the
// steps that the machine makes, each as docs/protocol.md has it, and no more; what it
// does not have is nil in the interface. Its clock moves on by a microsecond with each
// reading, so that a history comes out the same each time it is repeated.
type reference struct {
	waybill.TxStore
	registry *waybill.Registry
	weak     guard

	ticks  waybill.Stamp // the clock, but for the offset
	offset time.Duration
	tables
	between func() // what another worker does between the two halves of a take, if there are two
}

// tables are what a transaction rolls back.
type tables struct {
	events map[int64]*waybill.Event
	rows   map[int64]row
	pauses map[string]waybill.Pause
	posted []waybill.Message
	last   int64 // id given
}

func (t tables) clone() tables {
	return tables{maps.Clone(t.events), maps.Clone(t.rows), maps.Clone(t.pauses), slices.Clone(t.posted), t.last}
}

func emptyTables() tables {
	return tables{map[int64]*waybill.Event{}, map[int64]row{}, map[string]waybill.Pause{}, nil, 0}
}

// referenceTx is a receiver's transaction: others go on beside it, so what it wrote
// is kept until it commits.
type referenceTx struct{ effects []int64 }

const referenceTxKind = "*protocoltest.referenceTx"

func openReference(t testing.TB, weak guard) *database {
	t.Helper()
	reg := declare(t, func(reg *waybill.Registry, key string, opts waybill.Options) {
		waybill.OnTx(reg, key, referenceTxKind, func(ctx context.Context, tx any, _ parcel) error { return behave(ctx, tx) }, opts)
	})
	s := &reference{registry: reg, weak: weak, ticks: waybill.StampOf(time.Unix(1_700_000_000, 0)), tables: emptyTables()}
	return &database{
		store: s, hasty: s, concurrent: true, renewsForEver: weak == keepAlive,
		setClock: func(offset time.Duration) { s.offset = offset },
		inTx: func(_ context.Context, work func(tx any) error) error {
			return s.inTx(func() error { return work(nil) })
		},
		fire: func(ctx context.Context, _, event any) (int64, error) { return s.fire(ctx, event) },
		cancel: func(_ context.Context, _ any, request waybill.CancelRequest) (waybill.CancelResult, error) {
			return s.cancel(request), nil
		},
		reopen: func(_ context.Context, _ any, request waybill.ReopenRequest) ([]int64, error) {
			return s.reopen(request), nil
		},
		effect: func(_ context.Context, tx any, delivery int64) error {
			own := tx.(*referenceTx)
			own.effects = append(own.effects, delivery)
			return nil
		},
		post: func(_ context.Context, _ any, message waybill.Message) error {
			s.posted = append(s.posted, message)
			return nil
		},
		posted: func(context.Context) ([]waybill.Message, error) {
			posted := s.posted
			s.posted = nil
			return posted, nil
		},
		look: func(context.Context) ([]row, waybill.Stamp, error) {
			var all []row
			for _, id := range sortedKeys(s.rows) {
				all = append(all, s.rows[id])
			}
			s.clock()
			return all, s.ticks, nil
		},
		reset: func(context.Context) error {
			s.tables = emptyTables()
			return nil
		},
		ready: nothing, quiet: nothing,
		hurry: func(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
			return &countdown{Context: ctx, left: int(wait/time.Microsecond) % 4}, func() {}
		},
		atOnce: func(first, second func()) {
			s.between = second
			first()
			if s.between != nil { // nobody came to the middle of a take
				s.between = nil
				second()
			}
		},
	}
}

// countdown is a context that ends at a look at it, and not at a moment.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left == 0 {
		return context.DeadlineExceeded
	}
	c.left--
	return c.Context.Err()
}

// clock reads the database's clock, which no two statements see at the same time.
func (s *reference) clock() waybill.Stamp {
	s.ticks++
	return s.ticks.Add(s.offset)
}

// statement runs one statement. A context that ended before it does not let it begin;
// one that ends meanwhile hides that it was done.
func (s *reference) statement(ctx context.Context, do func(now waybill.Stamp)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	do(s.clock())
	return ctx.Err()
}

// inTx runs work, beside which nobody writes.
func (s *reference) inTx(work func() error) error {
	before := s.clone()
	err := work()
	if err != nil {
		s.tables = before
	}
	return err
}

func (s *reference) fire(ctx context.Context, event any) (int64, error) {
	plan, err := s.registry.Plan(ctx, nil, event)
	if err != nil {
		return 0, err
	}
	now := s.clock()
	s.last++
	id := s.last
	s.events[id] = &waybill.Event{ID: id, Name: plan.Event.Name, Version: plan.Event.Version, Payload: plan.Event.Payload, RecordedAt: now.Time()}
	for _, planned := range plan.Deliveries {
		s.last++
		s.rows[s.last] = row{
			id: s.last, event: id, receiver: planned.Receiver, target: planned.Target,
			digest: waybill.TargetDigest(planned.Target), status: waybill.Pending, most: planned.MaxAttempts,
			available: now, due: now, claim: waybill.Claim{At: never},
			expires: never, handedOff: never, taken: never, settled: never,
		}
	}
	return id, nil
}

// RunTx commits what run wrote, and the ack, if the claim is then still the row's.
func (s *reference) RunTx(ctx context.Context, ack waybill.Ack, run func(ctx context.Context, tx any) error) (landed bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	tx := &referenceTx{}
	if err := run(ctx, tx); err != nil {
		return false, err
	}
	if len(s.ack([]waybill.Ack{ack}, s.clock())) == 0 {
		return false, nil
	}
	for _, id := range tx.effects {
		r := s.rows[id]
		r.effects++
		s.rows[id] = r
	}
	return true, nil
}

// ClaimTx rolls back all that work did, unless it returns nil.
func (s *reference) ClaimTx(ctx context.Context, work func(ctx context.Context, tx any, claims waybill.Claimer) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.inTx(func() error { return work(ctx, nil, s) }); err != nil {
		return err
	}
	return ctx.Err()
}

func (s *reference) Registry() *waybill.Registry { return s.registry }
func (s *reference) TxKind() string              { return referenceTxKind }

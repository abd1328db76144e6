package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// joint is a store that performs each step before the hand-off in a ClaimTx, so that
// the cases of those steps can be played there as well.
type joint struct{ Store }

func (s joint) Claim(ctx context.Context, request waybill.ClaimRequest) (rows []waybill.ClaimedRow, err error) {
	err = s.ClaimTx(ctx, func(ctx context.Context, _ any, claims waybill.Claimer) (err error) {
		rows, err = claims.Claim(ctx, request)
		return err
	})
	return rows, err
}

func (s joint) ClaimLapsed(ctx context.Context, request waybill.LapsedRequest) (rows []waybill.ClaimedRow, err error) {
	err = s.ClaimTx(ctx, func(ctx context.Context, _ any, claims waybill.Claimer) (err error) {
		rows, err = claims.ClaimLapsed(ctx, request)
		return err
	})
	return rows, err
}

func (s joint) Extend(ctx context.Context, rows []waybill.Extension) (ids []int64, err error) {
	err = s.ClaimTx(ctx, func(ctx context.Context, _ any, claims waybill.Claimer) (err error) {
		ids, err = claims.Extend(ctx, rows)
		return err
	})
	return ids, err
}

// jointly opens stores that claim in a ClaimTx.
func jointly(open Open) Open {
	return func(t *testing.T, reg *waybill.Registry) Harness {
		h := open(t, reg)
		second := h.Second
		h.Store = joint{h.Store}
		h.Second = func(t *testing.T, reg *waybill.Registry) Harness { return jointly(second)(t, reg) }
		return h
	}
}

// offered is a claim for a case's one transaction.
var offered = waybill.ClaimRequest{By: relayID, Receivers: []string{"a"}, Limit: 10, Lease: stamped}

// claimAndWrite claims all that is due and writes beside it, in one transaction.
func (b *scene) claimAndWrite(ctx context.Context, tx any, claims waybill.Claimer) ([]waybill.ClaimedRow, error) {
	rows, err := claims.Claim(ctx, offered)
	return rows, errors.Join(err, b.effect(ctx, tx))
}

// withParcels begins a case with due rows, beside an empty table for what is written
// in the transaction.
func (b *scene) withParcels(n int) []Row {
	b.Helper()
	b.start("a")
	b.exec("CREATE TABLE effect (n bigint)")
	return b.parcels(n)
}

// undone fails the case unless f leaves no trace, and its rows to the next claim.
func (b *scene) undone(rows int, f func()) {
	b.Helper()
	b.unchanged(f)
	b.wantEffects(0)
	equal(b, "rows claimed afterwards", len(b.claim(100, "a")), rows)
}

var claimTxCases = []testCase{
	{"commits claims and what is written beside them together", func(b *scene) {
		before := b.withParcels(3)
		var claimed []waybill.ClaimedRow
		b.must(b.Store.ClaimTx(b.ctx, func(ctx context.Context, tx any, claims waybill.Claimer) (err error) {
			claimed, err = b.claimAndWrite(ctx, tx, claims)
			equal(b, "rows before the commit, seen from outside", b.rows(), before)
			b.wantEffects(0)
			return err
		}))
		b.wantEffects(1)
		equal(b, "claimed", len(claimed), 3)
		for _, row := range claimed {
			equal(b, "message", row.Message, b.current(row.DeliveryID))
		}
		equal(b, "taken", len(b.take(messagesOf(claimed)...)), 3)
	}},
	{"performs several steps, each on what the ones before it did", func(b *scene) {
		b.start("a")
		d := b.taken()
		b.lapse()
		b.parcels(1)
		var due, lapsed []waybill.ClaimedRow
		b.must(b.Store.ClaimTx(b.ctx, func(ctx context.Context, _ any, claims waybill.Claimer) error {
			var errs [4]error
			due, errs[0] = claims.Claim(ctx, offered)
			lapsed, errs[1] = claims.ClaimLapsed(ctx, waybill.LapsedRequest{By: relayID, Limit: 10, Lease: stamped})
			ids, err := claims.Extend(ctx, []waybill.Extension{{Message: due[0].Message, Lease: 2 * hour}, {Message: messageOf(d), Lease: 2 * hour}})
			errs[2] = err
			sameIDs(b, "extended", ids, []int64{due[0].DeliveryID})
			again, err := claims.Claim(ctx, offered)
			errs[3] = err
			equal(b, "claimed again", len(again), 0)
			return errors.Join(errs[:]...)
		}))
		sameIDs(b, "lapsed", claimedIDs(lapsed), []int64{d.ID})
		equal(b, "lost runs", lapsed[0].LostRuns, 1)
		near(b, "lease that was extended", b.row(due[0].DeliveryID).LeaseExpiresAt, b.now().Add(2*hour))
		near(b, "lease that was not", b.row(d.ID).LeaseExpiresAt, b.now().Add(stamped))
	}},
	{"stamps a row later each time, also within one transaction", func(b *scene) {
		b.start("a")
		b.parcels(1)
		var stamps []waybill.Stamp
		b.must(b.Store.ClaimTx(b.ctx, func(ctx context.Context, _ any, claims waybill.Claimer) error {
			request := offered
			request.Lease = 0
			rows, err := claims.Claim(ctx, request)
			for range 3 {
				b.must(err)
				equal(b, "rows", len(rows), 1)
				stamps = append(stamps, rows[0].Claim.At)
				rows, err = claims.ClaimLapsed(ctx, waybill.LapsedRequest{By: relayID, Limit: 1})
			}
			return err
		}))
		if stamps[0] >= stamps[1] || stamps[1] >= stamps[2] {
			b.Fatalf("stamped %v, one after the other", stamps)
		}
	}},
	{"rolls everything back with the work's error", func(b *scene) {
		b.withParcels(3)
		broken := errors.New("the queue is not there")
		b.undone(3, func() {
			err := b.Store.ClaimTx(b.ctx, func(ctx context.Context, tx any, claims waybill.Claimer) error {
				_, err := b.claimAndWrite(ctx, tx, claims)
				b.must(err)
				return broken
			})
			if err != broken {
				b.Fatalf("got %v, want the work's error as it is", err)
			}
		})
	}},
	{"rolls everything back on a panic, which passes through", func(b *scene) {
		b.withParcels(3)
		b.undone(3, func() {
			defer func() { equal(b, "panic", recover(), any("boom")) }()
			_ = b.Store.ClaimTx(b.ctx, func(ctx context.Context, tx any, claims waybill.Claimer) error {
				_, err := b.claimAndWrite(ctx, tx, claims)
				b.must(err)
				panic("boom")
			})
			b.Error("ClaimTx returned")
		})
	}},
	{"rolls everything back when its context ends meanwhile", func(b *scene) {
		b.withParcels(3)
		b.undone(3, func() {
			ctx, cancel := context.WithCancel(b.ctx)
			defer cancel()
			wantErr(b, "ClaimTx", b.Store.ClaimTx(ctx, func(ctx context.Context, tx any, claims waybill.Claimer) error {
				_, err := b.claimAndWrite(ctx, tx, claims)
				b.must(err)
				cancel()
				return nil
			}))
		})
	}},
	{"commits nothing after a step that failed", func(b *scene) {
		b.withParcels(3)
		b.undone(3, func() {
			wantErr(b, "ClaimTx", b.Store.ClaimTx(b.ctx, func(ctx context.Context, tx any, claims waybill.Claimer) error {
				_, err := b.claimAndWrite(ctx, tx, claims)
				b.must(err)
				b.must(b.ExecTx(ctx, tx, "ALTER TABLE delivery RENAME TO gone"))
				_, err = claims.Claim(ctx, offered)
				wantErr(b, "claim without a table", err)
				return nil // it takes no notice
			}))
		})
	}},
	{"has the deadline of a call", func(b *scene) {
		b.start("a")
		b.must(b.Store.ClaimTx(b.ctx, func(ctx context.Context, _ any, _ waybill.Claimer) error {
			if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > 10*time.Second {
				b.Errorf("work has the deadline %v, %t; want one within 10s", deadline, ok)
			}
			return nil
		}))
	}},
	{"shares no row with another claim", func(b *scene) {
		rows := b.withParcels(3)
		other := b.second()
		theirs := make(chan []waybill.ClaimedRow, 1)
		request := offered
		request.Limit = 2
		var ours []waybill.ClaimedRow
		b.must(b.Store.ClaimTx(b.ctx, func(ctx context.Context, _ any, claims waybill.Claimer) (err error) {
			ours, err = claims.Claim(ctx, request)
			go func() {
				rows, err := other.Store.Claim(b.ctx, offered)
				if err != nil {
					b.Error(err)
				}
				theirs <- rows
			}()
			select { // it passes over our rows, or waits for us
			case rows := <-theirs:
				theirs <- rows
			case <-time.After(100 * time.Millisecond):
			}
			return err
		}))
		sameIDs(b, "ours", claimedIDs(ours), []int64{rows[0].ID, rows[1].ID})
		sameIDs(b, "theirs", claimedIDs(<-theirs), []int64{rows[2].ID})
	}},
	{"keeps the order and the limit of a claim", func(b *scene) {
		rows := b.withParcels(5)
		request := offered
		request.Limit = 2
		var got []int64
		b.must(b.Store.ClaimTx(b.ctx, func(ctx context.Context, _ any, claims waybill.Claimer) error {
			for range 3 {
				more, err := claims.Claim(ctx, request)
				b.must(err)
				got = append(got, claimedIDs(more)...)
			}
			return nil
		}))
		equal(b, "order", got, []int64{rows[0].ID, rows[1].ID, rows[2].ID, rows[3].ID, rows[4].ID})
	}},
}

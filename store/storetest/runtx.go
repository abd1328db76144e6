package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
)

// withEffects returns a delivery as a worker holds it, beside an empty table for
// what its runs write.
func (b *scene) withEffects() *waybill.Delivery {
	b.Helper()
	b.start("a")
	b.exec("CREATE TABLE effect (n bigint)")
	return b.taken()
}

// effect is what a run writes in its transaction.
func (b *scene) effect(ctx context.Context, tx any) error {
	return b.ExecTx(ctx, tx, "INSERT INTO effect VALUES (1)")
}

func (b *scene) wantEffects(n int64) {
	b.Helper()
	equal(b, "effects", b.count("SELECT count(*) FROM effect"), n)
}

var runTxCases = []testCase{
	{"commits the effect and the outcome together", func(b *scene) {
		for i, o := range outcomes {
			if i == 0 {
				b.withEffects()
			}
			b.exec("DELETE FROM effect")
			b.exec("DELETE FROM delivery")
			d := b.taken()
			before := b.row(d.ID)
			landed, err := b.Store.RunTx(b.ctx, waybill.Ack{Message: messageOf(d), Outcome: o.outcome}, b.effect)
			b.must(err)
			equal(b, o.name+" landed", landed, true)
			b.wantEffects(1)
			b.landed(before, o.outcome, o.attempts-1, o.starts-1)
		}
	}},
	{"rolls the effect back with the run's error", func(b *scene) {
		d := b.withEffects()
		broken := errors.New("out of stock")
		b.unchanged(func() {
			landed, err := b.Store.RunTx(b.ctx, waybill.Ack{Message: messageOf(d), Outcome: success}, func(ctx context.Context, tx any) error {
				b.must(b.effect(ctx, tx))
				return broken
			})
			if landed || err != broken {
				b.Fatalf("got landed %v and %v, want the run's error as it is", landed, err)
			}
		})
		b.wantEffects(0)
	}},
	// Trap 7: work that is committed although its acknowledgement is not.
	{"rolls the effect back when the claim was lost", func(b *scene) {
		d := b.withEffects()
		b.lapse()
		equal(b, "reclaimed", len(b.lapsed("a")), 1)
		b.unchanged(func() {
			landed, err := b.Store.RunTx(b.ctx, waybill.Ack{Message: messageOf(d), Outcome: success}, b.effect)
			b.must(err)
			equal(b, "landed", landed, false)
		})
		b.wantEffects(0)
	}},
	{"rolls the effect back on a panic, which passes through", func(b *scene) {
		d := b.withEffects()
		b.unchanged(func() {
			defer func() { equal(b, "panic", recover(), any("boom")) }()
			_, _ = b.Store.RunTx(b.ctx, waybill.Ack{Message: messageOf(d), Outcome: success}, func(ctx context.Context, tx any) error {
				b.must(b.effect(ctx, tx))
				panic("boom")
			})
			b.Error("RunTx returned")
		})
		b.wantEffects(0)
		sameIDs(b, "landed afterwards", b.ack(waybill.Ack{Message: messageOf(d), Outcome: success}), []int64{d.ID})
	}},
	{"records what can be recorded when the run's context has ended", func(b *scene) {
		d := b.withEffects()
		ctx, cancel := context.WithCancel(b.ctx)
		landed, err := b.Store.RunTx(ctx, waybill.Ack{Message: messageOf(d), Outcome: success}, func(ctx context.Context, tx any) error {
			defer cancel()
			return b.effect(ctx, tx)
		})
		b.must(err)
		equal(b, "landed", landed, true)
		b.wantEffects(1)
	}},
	{"does not begin under a context that has ended", func(b *scene) {
		d := b.withEffects()
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		b.unchanged(func() {
			_, err := b.Store.RunTx(ctx, waybill.Ack{Message: messageOf(d), Outcome: success}, b.effect)
			wantErr(b, "RunTx", err)
		})
		b.wantEffects(0)
	}},
	{"lands once for two runs of one row", func(b *scene) {
		d := b.withEffects()
		results := make(chan bool, 2)
		for _, store := range []Store{b.Store, b.second().Store} {
			go func() {
				landed, err := store.RunTx(b.ctx, waybill.Ack{Message: messageOf(d), Outcome: success}, b.effect)
				if err != nil {
					b.Error(err)
				}
				results <- landed
			}()
		}
		first, second := <-results, <-results
		equal(b, "exactly one landed", first != second, true)
		b.wantEffects(1)
	}},
	{"stamps the outcome by the clock and not by the transaction's begin", func(b *scene) {
		d := b.withEffects()
		var during waybill.Stamp
		_, err := b.Store.RunTx(b.ctx, waybill.Ack{Message: messageOf(d), Outcome: success}, func(ctx context.Context, tx any) error {
			b.must(b.effect(ctx, tx))
			during = b.now()
			return nil
		})
		b.must(err)
		if settled := b.row(d.ID).SettledAt; settled < during {
			b.Fatalf("settled at %s, before the run ended at %s", settled, during)
		}
	}},
	{"fires in the run's transaction", func(b *scene) {
		d := b.withEffects()
		run := func(fail error) func(context.Context, any) error {
			return func(ctx context.Context, tx any) error {
				_, err := b.Fire(ctx, tx, Parcel{N: 2})
				return errors.Join(err, fail)
			}
		}
		_, err := b.Store.RunTx(b.ctx, waybill.Ack{Message: messageOf(d), Outcome: success}, run(errRollBack))
		wantErr(b, "RunTx", err)
		equal(b, "rows after the rollback", len(b.rows()), 1)
		_, err = b.Store.RunTx(b.ctx, waybill.Ack{Message: messageOf(d), Outcome: success}, run(nil))
		b.must(err)
		equal(b, "rows after the commit", len(b.rows()), 2)
	}},
	{"runs the receivers that declare its kind", func(b *scene) {
		b.start("a")
		if b.Store.TxKind() == "" {
			b.Fatal("TxKind is empty")
		}
		b.exec("CREATE TABLE effect (n bigint)")
		waybill.OnTx(b.reg, "tx", b.Store.TxKind(), func(ctx context.Context, tx any, p Parcel) error {
			return b.effect(ctx, tx)
		}, waybill.Options{Lease: time.Minute})
		b.must(b.reg.Err())
		b.parcels(1)
		d := b.take(messagesOf(b.claim(1, "tx"))...)[0]
		receiver, _ := b.reg.Receiver("tx")
		landed, err := b.Store.RunTx(b.ctx, waybill.Ack{Message: messageOf(d), Outcome: success}, func(ctx context.Context, tx any) error {
			return receiver.Call(ctx, tx, d)
		})
		b.must(err)
		equal(b, "landed", landed, true)
		b.wantEffects(1)
	}},
}

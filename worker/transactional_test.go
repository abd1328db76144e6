package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

// stockBench has a transactional receiver that notes each parcel in a table of its
// own, then ends as the test wants.
func stockBench(t *testing.T, end func(ctx context.Context, tx *sql.Tx) error) *bench {
	t.Helper()
	reg := waybill.NewRegistry()
	waybill.Declare[parcel](reg, "parcel.sent", waybill.EventOptions{})
	sqlite.OnTx(reg, "stock", func(ctx context.Context, tx *sql.Tx, p parcel) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO stock (n) VALUES (?)`, p.N); err != nil {
			return err
		}
		return end(ctx, tx)
	}, waybill.Options{})
	b := newBench(t, reg)
	b.exec(`CREATE TABLE shelf (id INTEGER PRIMARY KEY)`)
	b.exec(`CREATE TABLE stock (n INTEGER, shelf INTEGER REFERENCES shelf DEFERRABLE INITIALLY DEFERRED)`)
	return b
}

// Trap 31: a failure that is rolled back with the work that failed.
func TestTransactionalReceiver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		end              func(ctx context.Context, tx *sql.Tx) error
		status           waybill.Status
		attempts, starts int
		noted            int // rows of the receiver's own
		says             string
		warns            int
	}{
		{"success", func(context.Context, *sql.Tx) error { return nil }, waybill.Succeeded, 1, 1, 1, "", 0},
		{"error", func(context.Context, *sql.Tx) error { return errors.New("sold out") }, waybill.Failed, 1, 1, 0, "sold out", 1},
		{"permanent", func(context.Context, *sql.Tx) error { return waybill.Permanent(errors.New("no such thing")) },
			waybill.Dead, 1, 1, 0, "no such thing", 1},
		{"panic", func(context.Context, *sql.Tx) error { panic("dropped it") }, waybill.Failed, 1, 1, 0, "panic: dropped it", 1},
		{"commit that fails", func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE stock SET shelf = 4711`) // there is no such shelf, which the commit finds
			return err
		}, waybill.Failed, 1, 1, 0, "FOREIGN KEY constraint failed", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := stockBench(t, c.end)
			w := b.start(worker.Config{})
			b.fire(1, "parcel.sent", `{"n":7}`)
			wantNil(t, b.queue.give(b.claim()...), 1)
			poll.Until(t, "the outcome to be seen", func() bool { return len(b.seen.of(waybill.ObservedAck)) == 1 })
			w.stop()
			if r := b.wantRow(1, c.status, c.attempts, c.starts); !strings.Contains(r.Error, c.says) {
				t.Errorf("last_error %q does not say %q", r.Error, c.says)
			}
			if got := b.number(`SELECT count(*) FROM stock`); got != c.noted {
				t.Errorf("the receiver's table has %d rows, want %d", got, c.noted)
			}
			b.log.Want(t, c.warns, "level=WARN", "delivery_id=1")
		})
	}
}

// Work and acknowledgement are one commit: where the claim is gone, so is the work.
// Trap 7: work that is committed although its acknowledgement is not.
func TestTransactionalReceiverThatLostItsClaim(t *testing.T) {
	t.Parallel()
	b := stockBench(t, func(context.Context, *sql.Tx) error { return nil })
	b.fault.On("RunTx", fault.Hook{Before: func(context.Context) error {
		b.exec(`UPDATE delivery SET lease_expires_at = 1`)
		if len(b.reclaim()) != 1 {
			t.Error("the row was not claimed anew")
		}
		return nil
	}})
	w := b.start(worker.Config{})
	b.fire(1, "parcel.sent", `{"n":7}`)
	wantNil(t, b.queue.give(b.claim()...), 1)
	w.stop()
	if r := b.wantRow(1, waybill.Claimed, 0, 1); r.ClaimedBy != "second relay" {
		t.Errorf("row %+v, want it with the second relay", r)
	}
	if got := b.number(`SELECT count(*) FROM stock`); got != 0 {
		t.Errorf("the receiver's table has %d rows, want none", got)
	}
	b.seen.wantCount(t, waybill.ObservedLost, 1)
	b.seen.wantCount(t, waybill.ObservedAck, 0)
	b.log.Want(t, 1, "level=WARN", "the run lost its row", "receiver=stock")
}

// A commit whose answer is lost has happened, and is accounted for as what it was.
func TestTransactionalReceiverWhoseCommitAnswerIsLost(t *testing.T) {
	t.Parallel()
	b := stockBench(t, func(context.Context, *sql.Tx) error { return nil })
	b.fault.On("RunTx", fault.Hook{After: func() error { return errDown }})
	w := b.start(worker.Config{})
	b.fire(1, "parcel.sent", `{"n":7}`)
	wantNil(t, b.queue.give(b.claim()...), 1)
	w.stop()
	b.wantRow(1, waybill.Succeeded, 1, 1)
	if got := b.number(`SELECT count(*) FROM stock`); got != 1 {
		t.Errorf("the receiver's table has %d rows, want 1", got)
	}
	b.seen.wantCount(t, waybill.ObservedLost, 0)
	if acks := b.seen.of(waybill.ObservedAck); len(acks) != 1 || acks[0].Status != waybill.Succeeded || acks[0].Err != nil {
		t.Errorf("observed %+v, want one success", acks)
	}
	b.log.Want(t, 0, "level=WARN")
}

// A receiver that could not begin has made no attempt.
func TestTransactionThatDoesNotBegin(t *testing.T) {
	t.Parallel()
	b := stockBench(t, func(context.Context, *sql.Tx) error { return nil })
	var down atomic.Bool
	down.Store(true)
	b.fault.On("RunTx", fault.Hook{Before: func(context.Context) error {
		if down.Load() {
			return errDown
		}
		return nil
	}})
	w := b.start(worker.Config{})
	b.fire(1, "parcel.sent", `{"n":7}`)
	wantNil(t, b.queue.give(b.claim()...), 1)
	b.awaitLine("level=WARN", "receiver was not run: its transaction did not begin", "delivery_id=1", "receiver=stock", errDown.Error())
	if r := b.wantRow(1, waybill.Claimed, 0, 0); r.HandedOff != 0 || r.TakenAt != 0 {
		t.Errorf("row %+v, want it given back", r)
	}
	down.Store(false)
	b.exec(`UPDATE delivery SET lease_expires_at = 1`) // its delay is over
	wantNil(t, b.queue.give(b.reclaim()...), 1)
	b.settled()
	w.stop()
	b.wantRow(1, waybill.Succeeded, 1, 1)
}

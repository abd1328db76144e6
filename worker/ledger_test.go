package worker_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// ledger keeps rows in memory, on the clock of the process: as much of a store as
// a worker sees, for tests whose time is not real.
type ledger struct {
	waybill.Store // what a worker does not call
	reg           *waybill.Registry

	mu    sync.Mutex
	rows  []*ledgerRow
	stamp waybill.Stamp
	calls map[string][]time.Time
	fault map[string]func(ctx context.Context) error
}

type ledgerRow struct {
	waybill.RowState
	lease            time.Time
	attempts, starts int
	lastError        string
}

func newLedger(reg *waybill.Registry) *ledger {
	return &ledger{
		reg: reg, calls: map[string][]time.Time{},
		fault: map[string]func(context.Context) error{},
	}
}

// claimed adds n rows that a relay has claimed and returns their messages.
func (l *ledger) claimed(receiver string, n int) []waybill.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	messages := make([]waybill.Message, n)
	for i := range messages {
		row := &ledgerRow{RowState: waybill.RowState{ID: int64(len(l.rows) + 1), Receiver: receiver, Status: waybill.Claimed}}
		l.claim(row, "relay")
		row.HandedOffAt = row.Claim.At
		l.rows = append(l.rows, row)
		messages[i] = waybill.Message{DeliveryID: row.ID, Claim: row.Claim}
	}
	return messages
}

func (l *ledger) claim(row *ledgerRow, by string) {
	l.stamp = max(l.stamp+1, waybill.StampOf(time.Now()))
	row.Claim = waybill.Claim{By: by, At: l.stamp}
}

// reclaim claims a row anew, as a relay does whose clock says that it lapsed.
func (l *ledger) reclaim(id int64) waybill.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	row := l.rows[id-1]
	l.claim(row, "relay")
	row.HandedOffAt, row.TakenAt = row.Claim.At, 0
	return waybill.Message{DeliveryID: id, Claim: row.Claim}
}

func (l *ledger) row(id int64) ledgerRow {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.rows[id-1]
}

// all returns the rows as they are now, by id.
func (l *ledger) all() []ledgerRow {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := make([]ledgerRow, len(l.rows))
	for i, row := range l.rows {
		rows[i] = *row
	}
	return rows
}

func (l *ledger) count(status waybill.Status) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, row := range l.rows {
		if row.Status == status {
			n++
		}
	}
	return n
}

// on sets what a method does before its work; its error is the call's.
func (l *ledger) on(method string, fault func(ctx context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault[method] = fault
}

// times returns when a method was called.
func (l *ledger) times(method string) []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls[method])
}

func (l *ledger) enter(ctx context.Context, method string) error {
	l.mu.Lock()
	l.calls[method] = append(l.calls[method], time.Now())
	fault := l.fault[method]
	l.mu.Unlock()
	if fault != nil {
		return fault(ctx)
	}
	return nil
}

// held changes those rows that are held under their claims.
func held[R any](ctx context.Context, l *ledger, method string, rows []R, message func(R) waybill.Message, change func(*ledgerRow, R)) (ids []int64, err error) {
	if err := l.enter(ctx, method); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rows {
		m := message(r)
		if row := l.rows[m.DeliveryID-1]; row.Status == waybill.Claimed && row.Claim == m.Claim {
			change(row, r)
			ids = append(ids, m.DeliveryID)
		}
	}
	return ids, nil
}

func (l *ledger) Registry() *waybill.Registry { return l.reg }

func (l *ledger) Take(ctx context.Context, request waybill.TakeRequest) ([]*waybill.Delivery, error) {
	leases := map[string]time.Duration{}
	for _, lease := range request.Leases {
		leases[lease.Receiver] = lease.Lease
	}
	var taken []*waybill.Delivery
	_, err := held(ctx, l, "Take", request.Messages, func(m waybill.Message) waybill.Message { return m }, func(row *ledgerRow, m waybill.Message) {
		lease, ok := leases[row.Receiver]
		if !ok {
			return
		}
		l.claim(row, request.By)
		row.TakenAt, row.lease = row.Claim.At, time.Now().Add(lease)
		row.starts++
		taken = append(taken, &waybill.Delivery{
			ID: row.ID, Receiver: row.Receiver, Claim: row.Claim, Lease: lease,
			Event:   &waybill.Event{ID: row.ID, Name: "parcel.sent", Payload: []byte(`{}`)},
			Attempt: row.attempts + 1, MaxAttempts: 5, Start: row.starts,
			DueAt: row.HandedOffAt.Time(), HandedOffAt: row.HandedOffAt.Time(),
		})
	})
	return taken, err
}

func (l *ledger) Look(ctx context.Context, ids []int64) ([]waybill.RowState, error) {
	if err := l.enter(ctx, "Look"); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var rows []waybill.RowState
	for _, id := range ids {
		if id <= int64(len(l.rows)) {
			rows = append(rows, l.rows[id-1].RowState)
		}
	}
	return rows, nil
}

func (l *ledger) Extend(ctx context.Context, rows []waybill.Extension) ([]int64, error) {
	return held(ctx, l, "Extend", rows, func(r waybill.Extension) waybill.Message { return r.Message },
		func(row *ledgerRow, r waybill.Extension) { row.lease = time.Now().Add(r.Lease) })
}

func (l *ledger) PauseLane(ctx context.Context, request waybill.PauseRequest) (waybill.Pause, error) {
	return waybill.Pause{Lane: request.Lane}, l.enter(ctx, "PauseLane")
}

func (l *ledger) Ack(ctx context.Context, acks []waybill.Ack) ([]int64, error) {
	return held(ctx, l, "Ack", acks, func(ack waybill.Ack) waybill.Message { return ack.Message }, func(row *ledgerRow, ack waybill.Ack) {
		row.Status, row.lastError = ack.Outcome.Status, ack.Outcome.Error
		if ack.Outcome.Attempted {
			row.attempts++
		}
		if ack.Outcome.Deferred {
			row.starts--
		}
	})
}

func (l *ledger) GiveBack(ctx context.Context, rows []waybill.GiveBack) ([]int64, error) {
	return held(ctx, l, "GiveBack", rows, func(r waybill.GiveBack) waybill.Message { return r.Message }, func(row *ledgerRow, r waybill.GiveBack) {
		if row.TakenAt != 0 {
			row.starts--
		}
		row.HandedOffAt, row.TakenAt, row.lease = 0, 0, time.Now().Add(r.Delay)
	})
}

// registry declares plain receivers that run the function.
func registry(t *testing.T, run func(ctx context.Context, d *waybill.Delivery) error, options map[string]waybill.Options) *waybill.Registry {
	t.Helper()
	reg := waybill.NewRegistry()
	for key, o := range options {
		reg.Add(waybill.Receiver{Key: key, Event: waybill.AnyEvent, Options: o, Run: run})
	}
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	return reg
}

func succeed(context.Context, *waybill.Delivery) error { return nil }

package relay_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// ledger keeps rows in memory, on the clock of the process: as much of a store as
// a relay sees, for tests whose time is not real. It writes down every claim.
type ledger struct {
	waybill.Store // what a relay does not call
	reg           *waybill.Registry

	mu     sync.Mutex
	rows   []*ledgerRow
	stamp  waybill.Stamp
	claims []claimed
	listen func(ctx context.Context, wake func()) error // nil hears nothing
	fail   error                                        // while set, the store is down
	pauses []waybill.Pause
	looks  []time.Time // at the pauses
}

type ledgerRow struct {
	waybill.ClaimedRow
	status waybill.Status
	lease  time.Time // of a claimed row
}

// claimed is one call of Claim or ClaimLapsed.
type claimed struct {
	at        time.Time
	lapsed    bool
	receivers []string
	limit     int
	rows      int
}

func newLedger(reg *waybill.Registry) *ledger { return &ledger{reg: reg} }

// owe adds n rows that are due.
func (l *ledger) owe(receiver string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		row := &ledgerRow{status: waybill.Pending}
		row.DeliveryID = int64(len(l.rows) + 1)
		row.Receiver = receiver
		row.AvailableAt = waybill.StampOf(time.Now())
		l.rows = append(l.rows, row)
	}
}

// setDown makes every call fail with the error, or none with nil.
func (l *ledger) setDown(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

func (l *ledger) setListen(listen func(ctx context.Context, wake func()) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listen = listen
}

// calls returns the claims so far, those of lapsed rows apart.
func (l *ledger) calls() (due, lapsed []claimed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, call := range l.claims {
		if call.lapsed {
			lapsed = append(lapsed, call)
		} else {
			due = append(due, call)
		}
	}
	return due, lapsed
}

// in counts rows of the status.
func (l *ledger) in(status waybill.Status) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, row := range l.rows {
		if row.status == status {
			n++
		}
	}
	return n
}

func (l *ledger) Registry() *waybill.Registry { return l.reg }

func (l *ledger) Claim(_ context.Context, r waybill.ClaimRequest) ([]waybill.ClaimedRow, error) {
	return l.claim(claimed{receivers: r.Receivers, limit: r.Limit}, r.By, r.Lease, func(row *ledgerRow) bool {
		return (row.status == waybill.Pending || row.status == waybill.Failed) && slices.Contains(r.Receivers, row.Receiver)
	})
}

func (l *ledger) ClaimLapsed(_ context.Context, r waybill.LapsedRequest) ([]waybill.ClaimedRow, error) {
	now := time.Now()
	return l.claim(claimed{lapsed: true, receivers: r.Receivers, limit: r.Limit}, r.By, r.Lease, func(row *ledgerRow) bool {
		return row.status == waybill.Claimed && !row.lease.After(now) && !slices.Contains(r.Except, row.Receiver) &&
			(r.Receivers == nil || slices.Contains(r.Receivers, row.Receiver))
	})
}

func (l *ledger) claim(call claimed, by string, lease time.Duration, match func(*ledgerRow) bool) ([]waybill.ClaimedRow, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	call.at = time.Now()
	var found []*ledgerRow
	if l.fail == nil {
		for _, row := range l.rows {
			if match(row) {
				found = append(found, row)
			}
		}
	}
	slices.SortFunc(found, func(a, b *ledgerRow) int {
		return cmp.Or(cmp.Compare(a.AvailableAt, b.AvailableAt), cmp.Compare(a.DeliveryID, b.DeliveryID))
	})
	var rows []waybill.ClaimedRow
	for _, row := range found[:min(call.limit, len(found))] {
		l.stamp = max(l.stamp+1, waybill.StampOf(call.at))
		row.status, row.lease = waybill.Claimed, call.at.Add(lease)
		row.Claim = waybill.Claim{By: by, At: l.stamp}
		rows = append(rows, row.ClaimedRow)
	}
	call.rows = len(rows)
	l.claims = append(l.claims, call)
	return rows, l.fail
}

// pause has a lane paused until a time, the zero one for ever; it takes the place of
// any pause before.
func (l *ledger) pause(lane string, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pauses = slices.DeleteFunc(l.pauses, func(p waybill.Pause) bool { return p.Lane == lane })
	l.pauses = append(l.pauses, waybill.Pause{Lane: lane, Until: waybill.StampOf(until), By: "ann", Reason: "moving house", Since: waybill.StampOf(time.Now())})
}

// looked returns when the pauses were read.
func (l *ledger) looked() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.looks)
}

func (l *ledger) Pauses(context.Context) (inForce []waybill.Pause, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := waybill.StampOf(time.Now())
	l.looks = append(l.looks, time.Now())
	for _, pause := range l.pauses {
		if pause.Left = pause.Until.Time().Sub(now.Time()); pause.Until == 0 || pause.Left > 0 {
			inForce = append(inForce, pause)
		}
	}
	return inForce, l.fail
}

func (l *ledger) OwedReceivers(_ context.Context, except []string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var owed []string
	for _, row := range l.rows {
		if (row.status == waybill.Pending || row.status == waybill.Failed) && !slices.Contains(except, row.Receiver) {
			owed = append(owed, row.Receiver)
		}
	}
	slices.Sort(owed)
	return slices.Compact(owed), l.fail
}

// held changes those rows that are still held under their claims.
func held[R any](l *ledger, rows []R, message func(R) waybill.Message, change func(*ledgerRow, R)) (ids []int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return nil, l.fail
	}
	for _, r := range rows {
		m := message(r)
		if row := l.rows[m.DeliveryID-1]; row.status == waybill.Claimed && row.Claim == m.Claim {
			change(row, r)
			ids = append(ids, m.DeliveryID)
		}
	}
	return ids, nil
}

func (l *ledger) GiveBack(_ context.Context, rows []waybill.GiveBack) ([]int64, error) {
	return held(l, rows, func(r waybill.GiveBack) waybill.Message { return r.Message },
		func(row *ledgerRow, r waybill.GiveBack) { row.lease = time.Now().Add(r.Delay) })
}

func (l *ledger) Extend(_ context.Context, rows []waybill.Extension) ([]int64, error) {
	return held(l, rows, func(r waybill.Extension) waybill.Message { return r.Message },
		func(row *ledgerRow, r waybill.Extension) { row.lease = time.Now().Add(r.Lease) })
}

func (l *ledger) Ack(_ context.Context, acks []waybill.Ack) ([]int64, error) {
	return held(l, acks, func(ack waybill.Ack) waybill.Message { return ack.Message },
		func(row *ledgerRow, ack waybill.Ack) { row.status = ack.Outcome.Status })
}

func (l *ledger) Listen(ctx context.Context, _ string, wake func()) error {
	l.mu.Lock()
	listen := l.listen
	l.mu.Unlock()
	if listen != nil {
		return listen(ctx, wake)
	}
	<-ctx.Done()
	return nil
}

package protocoltest

import (
	"errors"
	"slices"

	"pgregory.net/rapid"

	"github.com/waybill-go/waybill"
)

// cancelled settles a row that nobody has.
func cancelled(id int64) change {
	return change{id, func(d *debt, got row, at span) {
		d.status = waybill.Cancelled
		d.settled = at.adopt(got.settled)
	}}
}

// reopened has a settled row owed again, as if it had just been fired, but for its
// claim. What its runs did before no longer counts, and no hand-off of then is told
// from a take.
func reopened(id int64) change {
	return change{id, func(d *debt, got row, at span) {
		if d.receiver == stock && d.status == waybill.Succeeded {
			d.earlier++
		}
		d.status, d.lastError = waybill.Pending, ""
		d.attempts, d.starts = 0, 0
		d.due = at.adopt(got.due)
		d.available = d.due
		d.expires, d.handedOff, d.taken, d.settled = never, never, never, never
		d.handOffs, d.backed = nil, false
		for _, r := range d.runs {
			r.fate = undone
		}
	}}
}

// operatorCancels withdraws deliveries in a transaction of the application, which may
// roll back: those of some events, of a receiver, some by their ids, or what all of
// that has in common.
func (m *machine) operatorCancels() {
	var request waybill.CancelRequest
	by := rapid.IntRange(1, 3).Draw(m.T, "by events, by ids, by both")
	if by != 2 {
		events := map[int64]bool{}
		for _, d := range m.debts {
			events[d.event] = true
		}
		request.Events = some(m, "events", sortedKeys(events))
	}
	if by != 1 {
		request.Deliveries = some(m, "deliveries", sortedKeys(m.debts))
	}
	request.Receiver = pick(m, "receiver", []string{"", "", "", audit, stock, hooks})
	var want waybill.CancelResult
	var changes []change
	for id, d := range m.debts {
		switch named := (request.Events == nil || slices.Contains(request.Events, d.event)) &&
			(request.Deliveries == nil || slices.Contains(request.Deliveries, id)) &&
			(request.Receiver == "" || request.Receiver == d.receiver); {
		case !named:
		case d.status == waybill.Claimed:
			want.InFlight++
		case d.status.Owed():
			want.Cancelled++
			changes = append(changes, cancelled(id))
		}
	}
	var got waybill.CancelResult
	committed := m.inOwnTx(func(tx any) (err error) {
		got, err = m.db.cancel(m.ctx, tx, request)
		return err
	})
	if !committed {
		changes = nil
	}
	m.observe(false, changes...)
	if got != want {
		m.Fatalf("%+v cancelled %+v, want %+v", request, got, want)
	}
	m.saw(len(changes) > 0, "a row was cancelled")
	m.saw(want.InFlight > 0, "a row was in flight when it was to be cancelled")
}

// operatorReopens replays settled rows. What is owed stays as it is.
func (m *machine) operatorReopens() {
	request := waybill.ReopenRequest{Deliveries: some(m, "deliveries", sortedKeys(m.debts))}
	var want []int64
	var changes []change
	for _, id := range request.Deliveries {
		if d := m.debts[id]; !d.status.Owed() {
			want = append(want, id)
			changes = append(changes, reopened(id))
			m.saw(true, "a "+string(d.status)+" row was reopened")
		}
	}
	var got []int64
	committed := m.inOwnTx(func(tx any) (err error) {
		got, err = m.db.reopen(m.ctx, tx, request)
		return err
	})
	if !committed {
		changes = nil
	}
	m.observe(false, changes...)
	m.sameIDs("reopened", got, want)
}

// inOwnTx calls work in a transaction of the application and reports whether that
// was committed.
func (m *machine) inOwnTx(work func(tx any) error) bool {
	m.Helper()
	rollBack := rapid.IntRange(0, 5).Draw(m.T, "rolled back at 5") == 5
	err := m.db.inTx(m.ctx, func(tx any) error {
		err := work(tx)
		if err == nil && rollBack {
			err = errRolledBack
		}
		return err
	})
	if rollBack {
		if !errors.Is(err, errRolledBack) {
			m.Fatalf("InTx returned %v, want what the function returned", err)
		}
		return false
	}
	must(m, err)
	return true
}

func (m *machine) anySettled() bool {
	for _, d := range m.debts {
		if !d.status.Owed() {
			return true
		}
	}
	return false
}

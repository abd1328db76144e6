package protocoltest

import (
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// settle ends the faults. Whatever state they have left behind, all leases and waits
// run out, and then one round of healthy relay, queue and worker settles every row
// that is owed.
func (m *machine) settle() {
	m.Helper()
	m.healthy = true
	m.relays, m.workers, m.late = []*relay{{id: "relay:healthy"}}, []*worker{{id: "worker:healthy"}}, nil
	for _, d := range m.debts {
		for _, r := range d.runs {
			r.active = false
		}
	}
	latest := max(m.now, m.endPauses())
	for _, d := range m.debts {
		latest = max(latest, d.available, d.expires)
	}
	m.moveClock(latest.Time().Sub(m.now.Time()) + time.Microsecond)
	r, w := m.relays[0], m.workers[0]
	if m.db.renewsForEver {
		m.renewWaiting()
	}
	for m.owed() > 0 {
		before := m.owed()
		m.claimAll(r)
		for len(r.rows) > 0 || m.waiting() > 0 {
			m.passOn(r, w)
		}
		for _, run := range m.activeRuns(true) {
			m.finish(run, succeeds)
		}
		if len(w.acks) > 0 {
			m.record(w, w.acks, well)
		}
		if m.owed() > 0 {
			m.Fatalf("of %d owed rows %d are still owed after a healthy round", before, m.owed())
		}
	}
	m.afterwards()
}

// renewWaiting is what no relay of ours does: those that are alive renew the leases of
// what they handed off, for as long as nobody takes it.
func (m *machine) renewWaiting() {
	m.Helper()
	var extensions []waybill.Extension
	for _, id := range sortedKeys(m.debts) {
		message := waybill.Message{DeliveryID: id, Claim: m.debts[id].claim}
		if d := m.debts[id]; d.handedOff != never && d.taken == never && slices.Contains(m.sent, message) {
			extensions = append(extensions, waybill.Extension{Message: message, Lease: m.leaseOf(d.receiver)})
		}
	}
	m.extend(extensions, well)
}

// claimAll claims all that is due and all that has lapsed.
func (m *machine) claimAll(r *relay) {
	m.Helper()
	keys := []string{audit, stock, hooks}
	stamp := m.stampFor(keys)
	due, err := m.db.store.Claim(m.ctx, waybill.ClaimRequest{By: r.id, Receivers: keys, Limit: 100, Lease: stamp})
	must(m, err)
	lapsed, err := m.db.store.ClaimLapsed(m.ctx, waybill.LapsedRequest{By: r.id, Limit: 100, Lease: stamp})
	must(m, err)
	var changes []change
	for _, row := range append(due, lapsed...) {
		changes = append(changes, claimed(row.DeliveryID, r.id, stamp))
		r.rows = append(r.rows, handedRow{row, stamp})
	}
	m.observe(false, changes...)
}

// passOn sends what a relay has, as far as there is room in the queue, and has a
// worker take all that waits there.
func (m *machine) passOn(r *relay, w *worker) {
	m.Helper()
	for len(r.rows) > 0 && m.queue.Room() > 0 {
		m.sent = append(m.sent, r.rows[0].Message)
		m.post(r.rows[0].Message)
		r.rows = r.rows[1:]
	}
	w.inbox = append(w.inbox, m.receive(m.waiting())...)
	m.take(w, well)
}

// overtake is what chance alone brings about too seldom: a worker is paused past its
// lease, a relay claims its row anew, and another worker has it, before the first
// one goes on.
func (m *machine) overtake() {
	late := pick(m, "paused", m.activeRuns(true))
	r, w := pick(m, "relay", m.relays), pick(m, "worker", m.workers)
	m.moveClock(max(0, late.debt.expires.Time().Sub(m.now.Time())) + time.Second)
	m.claimAll(r)
	m.passOn(r, w)
}

// afterwards fails if anything is owed, and lets every message there ever was come
// once more.
func (m *machine) afterwards() {
	m.Helper()
	for _, d := range m.debts {
		if d.status.Owed() {
			m.Fatalf("row %v is owed for good", d)
		}
	}
	m.oldMessages()
}

// oldMessages lets every message there ever was come once more. None of them may be
// taken: the rows are settled, or were reopened and not claimed since.
func (m *machine) oldMessages() {
	m.Helper()
	w := m.workers[0]
	w.inbox = m.sent
	m.take(w, well)
	if len(m.activeRuns(true)) > 0 {
		m.Fatal("a row that nobody claimed was taken")
	}
}

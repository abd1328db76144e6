package protocoltest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// debt is what the model knows of a delivery row.
type debt struct {
	row
	runs     []*run
	handOffs []waybill.Claim // every claim of a relay since it was last reopened, in order
	backed   bool            // given back, and not taken since
	earlier  int             // times it succeeded in a transaction before it was reopened
}

// run is one run of a receiver, from its take on.
type run struct {
	debt    *debt
	claim   waybill.Claim
	expires waybill.Stamp // the end of its lease, on the database's clock

	// over: the clock was seen at the end of the lease, or past it. It stays so
	// when the clock steps back: a row that somebody has claimed anew for good
	// reason is not the run's again because the hour is. An extension that lands
	// begins a lease anew.
	over bool
	// active: the receiver has not returned, and its process lives.
	active bool
	fate   fate

	delivery *waybill.Delivery // nil if the worker never learnt of the take
}

// fate is what a run did to its row.
type fate int

const (
	lost    fate = iota // nothing: it goes on, or recorded no outcome
	counted             // it spent an attempt
	undone              // given back or deferred: it spent neither an attempt nor a start
)

// span is the time in which a step read the database's clock.
type span struct{ from, to waybill.Stamp }

// adopt returns a stamp that the step wrote, if it can have.
func (s span) adopt(got waybill.Stamp) waybill.Stamp { return min(max(got, s.from), s.to) }

// after returns a stamp that the step wrote wait later, if it can have.
func (s span) after(got waybill.Stamp, wait time.Duration) waybill.Stamp {
	return span{s.from.Add(wait), s.to.Add(wait)}.adopt(got)
}

// claimed returns the stamp of a claim: now, and always later than the one before.
func (s span) claimed(got, before waybill.Stamp) waybill.Stamp {
	return span{max(s.from, before+1), max(s.to, before+1)}.adopt(got)
}

// change is what a step does to one row: from what it was, and the time of the
// step, follows what it is. got is the row as it was found afterwards, of which
// stamps are taken over that lie in the time of the step.
type change struct {
	id    int64
	apply func(d *debt, got row, at span)
}

func claimed(id int64, by string, lease time.Duration) change {
	return change{id, func(d *debt, got row, at span) {
		d.status = waybill.Claimed
		d.claim = waybill.Claim{By: by, At: at.claimed(got.claim.At, d.claim.At)}
		d.handedOff, d.taken = at.adopt(got.handedOff), never
		d.expires = d.handedOff.Add(lease)
		d.handOffs, d.backed = append(d.handOffs, d.claim), false
	}}
}

// taken begins a run, which is active once its worker has learnt of it.
func taken(id int64, by string, lease time.Duration) change {
	return change{id, func(d *debt, got row, at span) {
		d.claim = waybill.Claim{By: by, At: at.claimed(got.claim.At, d.claim.At)}
		d.taken = at.adopt(got.taken)
		d.expires = d.taken.Add(lease)
		d.starts++
		d.backed = false
		d.runs = append(d.runs, &run{debt: d, claim: d.claim, expires: d.expires})
	}}
}

func extended(id int64, lease time.Duration) change {
	return change{id, func(d *debt, got row, at span) {
		d.expires = at.after(got.expires, lease)
		if r := d.run(d.claim); r != nil {
			r.expires, r.over = d.expires, false
		}
	}}
}

// longAgo is before any lease: a row given back at once is free whatever the clock
// does next.
var longAgo = waybill.StampOf(time.Unix(1, 0))

func givenBack(id int64, delay time.Duration) change {
	return change{id, func(d *debt, got row, at span) {
		d.expires = max(0, min(got.expires, longAgo))
		if delay > 0 {
			d.expires = at.after(got.expires, delay)
		}
		if r := d.run(d.claim); r != nil && r.fate == lost {
			r.fate = undone
			d.starts--
		}
		d.handedOff, d.taken, d.backed = never, never, true
	}}
}

func acknowledged(id int64, out waybill.Outcome) change {
	return change{id, func(d *debt, got row, at span) {
		d.status, d.lastError, d.expires = out.Status, out.Error, never
		r := d.run(d.claim)
		if out.Attempted {
			d.attempts++
			r.fate = counted
		}
		if out.Deferred {
			d.starts--
			r.fate = undone
		}
		if out.Status == waybill.Failed {
			d.available = at.after(got.available, out.Wait)
		} else {
			d.settled = at.adopt(got.settled)
		}
		if d.receiver == stock && out.Status == waybill.Succeeded {
			d.effects++ // in the same transaction
		}
	}}
}

// found takes over rows that a step fired.
func (m *machine) found(event int64, planned []waybill.PlannedDelivery, got []row, at span) {
	var fresh []row
	for _, r := range got {
		if m.debts[r.id] == nil {
			fresh = append(fresh, r)
		}
	}
	if len(fresh) != len(planned) {
		m.Fatalf("fired event %d: %d rows, want %d", event, len(fresh), len(planned))
	}
	for i, r := range fresh {
		due := at.adopt(r.due)
		want := row{
			id: r.id, event: event, receiver: planned[i].Receiver, target: planned[i].Target,
			digest: waybill.TargetDigest(planned[i].Target), status: waybill.Pending, most: planned[i].MaxAttempts,
			available: due, due: due, claim: waybill.Claim{At: never},
			expires: never, handedOff: never, taken: never, settled: never,
		}
		m.debts[r.id] = &debt{row: want}
	}
}

// observe reads the database after a step that made the changes and, if maybe is
// set, perhaps made none of them.
func (m *machine) observe(maybe bool, changes ...change) {
	m.Helper()
	got, at := m.look()
	if maybe && !slices.ContainsFunc(changes, func(c change) bool { return m.changed(got, c.id) }) {
		changes = nil
	}
	m.conclude(got, at, changes)
}

// conclude makes the changes in the model and fails unless it then is what was
// found.
func (m *machine) conclude(got []row, at span, changes []change) {
	m.Helper()
	for _, c := range changes {
		found, _ := find(got, c.id)
		c.apply(m.debts[c.id], found, at)
	}
	m.compare(got, at)
	m.now = at.to
	m.tick()
}

// changed reports whether a row is not as the model has it.
func (m *machine) changed(got []row, id int64) bool {
	r, ok := find(got, id)
	return !ok || r != m.debts[id].row
}

func find(rows []row, id int64) (row, bool) {
	i, ok := slices.BinarySearchFunc(rows, id, func(r row, id int64) int { return cmp.Compare(r.id, id) })
	if !ok {
		return row{}, false
	}
	return rows[i], true
}

// look reads all rows, and tells the time since the last look.
func (m *machine) look() ([]row, span) {
	m.Helper()
	rows, now, err := m.db.look(m.ctx)
	must(m, err)
	return rows, span{m.now, now.Add(m.offset)}
}

// compare fails unless the rows are those of the model, every byte of them.
func (m *machine) compare(got []row, at span) {
	m.Helper()
	if len(got) != len(m.debts) {
		m.Fatalf("there are %d rows, want %d", len(got), len(m.debts))
	}
	for _, r := range got {
		d := m.debts[r.id]
		if d == nil {
			m.Fatalf("nobody fired row %+v", r)
		}
		if r != d.row {
			m.Fatalf("between %s and %s row %d became\n  %+v\nwant\n  %+v", at.from, at.to, r.id, r, d.row)
		}
	}
}

// tick lets the model's leases run out and checks what must always hold.
func (m *machine) tick() {
	m.Helper()
	for id, d := range m.debts {
		begun, attempts := 0, 0
		var valid []*run
		for _, r := range d.runs {
			if m.now >= r.expires {
				r.over = true
			}
			if r.active && !r.over {
				valid = append(valid, r)
			}
			if r.fate != undone {
				begun++
			}
			if r.fate == counted {
				attempts++
			}
		}
		if len(valid) > 1 {
			m.Fatalf("row %d runs %d times under valid leases: as %s until %s, and as %s until %s",
				id, len(valid), valid[0].claim, valid[0].expires, valid[1].claim, valid[1].expires)
		}
		if r := d.run(d.claim); d.status == waybill.Cancelled && r != nil && r.active && !r.over {
			m.Fatalf("row %v was cancelled while it ran", d)
		}
		if d.starts != begun || d.attempts != attempts {
			m.Fatalf("row %d has %d starts and %d attempts; %d runs were begun and %d spent an attempt", id, d.starts, d.attempts, begun, attempts)
		}
		want := d.earlier
		if d.receiver == stock && d.status == waybill.Succeeded {
			want++
		}
		if d.effects != want {
			m.Fatalf("the transactional receiver's table has row %v %d times, want %d", d, d.effects, want)
		}
	}
}

// run returns the run of the row under a claim.
func (d *debt) run(claim waybill.Claim) *run {
	for _, r := range d.runs {
		if r.claim == claim {
			return r
		}
	}
	return nil
}

// held reports whether the row is claimed under just this claim.
func (d *debt) held(claim waybill.Claim) bool {
	return d != nil && d.status == waybill.Claimed && d.claim == claim
}

// lostRuns is what a relay is told: runs that recorded no outcome.
func (d *debt) lostRuns() (n int) {
	for _, r := range d.runs {
		if r.fate == lost {
			n++
		}
	}
	return n
}

func (d *debt) String() string {
	return fmt.Sprintf("%d (%s, %s, %s)", d.id, d.receiver, d.status, d.claim)
}

// inOrder compares rows as claims take them.
func inOrder(a, b *debt) int {
	return cmp.Or(cmp.Compare(a.available, b.available), cmp.Compare(a.id, b.id))
}

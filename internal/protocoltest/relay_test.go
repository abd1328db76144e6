package protocoltest

import (
	"context"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-go/waybill"
)

// stampFor is what a relay stamps that claims for these receivers.
func (m *machine) stampFor(keys []string) time.Duration {
	needs := make([]time.Duration, len(keys))
	for i, key := range keys {
		needs[i] = m.leaseOf(key)
	}
	return waybill.StampedLease(2*time.Minute, needs)
}

func (m *machine) leaseOf(receiver string) time.Duration {
	declared, _ := m.db.store.Registry().Receiver(receiver)
	return declared.Lease
}

// plan is a claim that a relay is about to make, of whichever kind.
type plan struct {
	by       string
	limit    int
	stamp    time.Duration
	eligible func(d *debt, now waybill.Stamp) bool
	do       func(ctx context.Context, claims waybill.Claimer) ([]waybill.ClaimedRow, error)
}

func (m *machine) claimDue() {
	r := pick(m, "relay", m.relays)
	m.claim(r, m.planDue(r))
}

func (m *machine) claimLapsed() {
	r := pick(m, "relay", m.relays)
	m.claim(r, m.planLapsed(r))
}

func (m *machine) planDue(r *relay) plan {
	keys := some(m, "receivers", []string{audit, stock, hooks})
	request := waybill.ClaimRequest{By: r.id, Receivers: keys, Limit: rapid.IntRange(1, 4).Draw(m.T, "limit"), Lease: m.stampFor(keys)}
	return plan{
		by: r.id, limit: request.Limit, stamp: request.Lease,
		eligible: func(d *debt, now waybill.Stamp) bool {
			due := (d.status == waybill.Pending || d.status == waybill.Failed) && d.available <= now
			return due && slices.Contains(keys, d.receiver)
		},
		do: func(ctx context.Context, claims waybill.Claimer) ([]waybill.ClaimedRow, error) {
			return claims.Claim(ctx, request)
		},
	}
}

func (m *machine) planLapsed(r *relay) plan {
	request := waybill.LapsedRequest{By: r.id, Limit: rapid.IntRange(1, 4).Draw(m.T, "limit")}
	keys := some(m, "receivers", []string{audit, stock, hooks})
	named := rapid.Bool().Draw(m.T, "named")
	if named {
		request.Receivers = keys
	} else { // every receiver but these
		request.Except = keys[1:]
	}
	request.Lease = m.stampFor(keys)
	return plan{
		by: r.id, limit: request.Limit, stamp: request.Lease,
		eligible: func(d *debt, now waybill.Stamp) bool {
			served := slices.Contains(keys, d.receiver)
			if !named {
				served = !slices.Contains(keys[1:], d.receiver)
			}
			return d.status == waybill.Claimed && d.expires <= now && served
		},
		do: func(ctx context.Context, claims waybill.Claimer) ([]waybill.ClaimedRow, error) {
			return claims.ClaimLapsed(ctx, request)
		},
	}
}

// claim makes a claim.
func (m *machine) claim(r *relay, p plan) {
	var rows []waybill.ClaimedRow
	f := m.fault()
	done, maybe := m.call(f, func(ctx context.Context, store txStore) (err error) {
		rows, err = p.do(ctx, store)
		return err
	})
	got, at := m.look()
	took := m.took(rows, got, maybe)
	if nothing := f == ended || maybe && len(took) == 0; !nothing {
		m.checkClaimed(took, p.limit, p.eligible, at)
	}
	var changes []change
	for _, d := range took {
		changes = append(changes, claimed(d.id, p.by, p.stamp))
	}
	m.conclude(got, at, changes)
	if !done {
		return // the rows wait for their leases
	}
	for i, row := range rows {
		if row.Claim != took[i].claim {
			m.Fatalf("claimed row %s under %s, was told %s", took[i], took[i].claim, row.Claim)
		}
		r.rows = append(r.rows, handedRow{row, p.stamp})
	}
}

// took returns what a claim took: what it answered or, if nobody knows whether it was
// made, what has changed.
func (m *machine) took(rows []waybill.ClaimedRow, got []row, maybe bool) (took []*debt) {
	m.Helper()
	if maybe {
		for id, d := range m.debts {
			if m.changed(got, id) {
				took = append(took, d)
			}
		}
		slices.SortFunc(took, inOrder)
		return took
	}
	for _, row := range rows { // also if nobody hears of it
		d := m.debts[row.DeliveryID]
		if d == nil || row.Receiver != d.receiver || row.AvailableAt != d.available || row.LostRuns != d.lostRuns() {
			m.Fatalf("claimed %+v, want the row as it is: %v, available at %s, %d runs lost", row, d, d.available, d.lostRuns())
		}
		took = append(took, d)
	}
	return took
}

// checkClaimed fails unless the claim took the oldest of the eligible rows, in
// order, and as many as it could. Rows that became eligible during the claim may be
// among them or not.
func (m *machine) checkClaimed(took []*debt, limit int, eligible func(*debt, waybill.Stamp) bool, at span) {
	m.Helper()
	if len(took) > limit || !slices.IsSortedFunc(took, inOrder) {
		m.Fatalf("claimed %v, want at most %d, in order", took, limit)
	}
	for i, d := range took {
		if !eligible(d, at.to) || slices.Contains(took[:i], d) {
			m.Fatalf("claimed %v, which was not to be claimed at %s: %+v", d, at.to, d.row)
		}
	}
	for _, d := range m.debts {
		if !eligible(d, at.from) || slices.Contains(took, d) {
			continue
		}
		if len(took) < limit || inOrder(d, took[len(took)-1]) < 0 {
			m.Fatalf("claimed %v with a limit of %d, and passed over %v", took, limit, d)
		}
	}
}

// relayExtends gives rows their receivers' own leases before the hand-off.
func (m *machine) relayExtends() {
	r := pick(m, "relay", filter(m.relays, (*relay).ready))
	var extensions []waybill.Extension
	for _, row := range r.rows {
		if lease := m.leaseOf(row.Receiver); waybill.NeedsExtension(row.stamp, lease) {
			extensions = append(extensions, waybill.Extension{Message: row.Message, Lease: lease})
		}
	}
	extensions = distinct(extensions, func(e waybill.Extension) int64 { return e.DeliveryID })
	held, done := m.extend(extensions, m.fault())
	if !done {
		return
	}
	kept := r.rows[:0:0]
	for _, row := range r.rows {
		asked := slices.ContainsFunc(extensions, func(e waybill.Extension) bool { return e.Message == row.Message })
		if !asked || slices.Contains(held, row.DeliveryID) {
			kept = append(kept, row)
		}
	}
	r.rows = kept
}

// extend extends leases under claims, and fails unless just those are extended
// whose claim is the row's.
func (m *machine) extend(extensions []waybill.Extension, f fault) (held []int64, done bool) {
	m.Helper()
	var changes []change
	var want []int64
	for _, e := range extensions {
		if m.debts[e.DeliveryID].held(e.Claim) {
			want = append(want, e.DeliveryID)
			changes = append(changes, extended(e.DeliveryID, e.Lease))
		}
	}
	done, maybe := m.call(f, func(ctx context.Context, store txStore) (err error) {
		held, err = store.Extend(ctx, extensions)
		return err
	})
	if f == ended {
		changes = nil
	}
	if done {
		m.sameIDs("extended", held, want)
	}
	m.observe(maybe, changes...)
	return held, done
}

// handOff sends some of a relay's rows, in any order. The network and the queue do
// to each message what they like.
func (m *machine) handOff() {
	r := pick(m, "relay", filter(m.relays, (*relay).ready))
	order := shuffled(m, "order", r.rows)
	n := rapid.IntRange(1, len(order)).Draw(m.T, "how many")
	for _, row := range order[:n] {
		message := row.Message
		m.sent = append(m.sent, message)
		copies := 1
		switch pick(m, "message is", []string{"sent", "sent", "sent", "sent", "sent twice", "held up", "held up and sent", "lost", "refused", "sent and refused"}) {
		case "sent twice":
			copies = 2
		case "held up":
			m.late, copies = append(m.late, message), 0
		case "held up and sent":
			m.late = append(m.late, message)
		case "lost":
			copies = 0
		case "refused":
			r.backs = append(r.backs, waybill.GiveBack{Message: message, Delay: 5 * time.Second})
			copies = 0
		case "sent and refused": // an answer that is not true
			r.backs = append(r.backs, waybill.GiveBack{Message: message})
		}
		for range copies {
			results, err := m.queue.Enqueue(m.ctx, []waybill.Message{message})
			must(m, err)
			if results[0].Status == waybill.EnqueueNotSent {
				r.backs = append(r.backs, waybill.GiveBack{Message: message})
			}
		}
	}
	r.rows = order[n:]
}

// relayGivesBack gives back what the queue refused or, when the relay stops, all
// that it has.
func (m *machine) relayGivesBack() {
	r := pick(m, "relay", filter(m.relays, (*relay).busy))
	if len(r.backs) == 0 || rapid.Bool().Draw(m.T, "it stops") {
		for _, row := range r.rows {
			r.backs = append(r.backs, waybill.GiveBack{Message: row.Message})
		}
		r.rows = nil
	}
	backs := distinct(r.backs, func(g waybill.GiveBack) int64 { return g.DeliveryID })
	m.giveBack(backs)
	r.backs = nil
}

// giveBack gives rows back under claims, and fails unless just those are released
// whose claim is the row's.
func (m *machine) giveBack(backs []waybill.GiveBack) {
	m.Helper()
	var changes []change
	var want []int64
	for _, back := range backs {
		if m.debts[back.DeliveryID].held(back.Claim) {
			want = append(want, back.DeliveryID)
			changes = append(changes, givenBack(back.DeliveryID, back.Delay))
		}
	}
	f := m.fault()
	var released []int64
	done, maybe := m.call(f, func(ctx context.Context, store txStore) (err error) {
		released, err = store.GiveBack(ctx, backs)
		return err
	})
	if f == ended {
		changes = nil
	}
	if done {
		m.sameIDs("released", released, want)
	}
	m.observe(maybe, changes...)
}

// relayDies: what it had claimed and not sent waits for its lease.
func (m *machine) relayDies() {
	r := pick(m, "relay", filter(m.relays, (*relay).busy))
	r.rows, r.backs = nil, nil
}

func (m *machine) sameIDs(what string, got, want []int64) {
	m.Helper()
	if got, want := slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		m.Fatalf("%s rows %v, want %v: those that are claimed just so", what, got, want)
	}
}

func filter[E any](all []E, keep func(E) bool) (kept []E) {
	for _, e := range all {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

// distinct keeps the first of those with one id: a statement names a row once.
func distinct[E any](all []E, id func(E) int64) (kept []E) {
	for _, e := range all {
		if !slices.ContainsFunc(kept, func(k E) bool { return id(k) == id(e) }) {
			kept = append(kept, e)
		}
	}
	return kept
}

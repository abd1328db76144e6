package protocoltest

import (
	"context"
	"errors"

	"pgregory.net/rapid"

	"github.com/waybill-go/waybill"
)

// claimAndSend is a claim with a queue in the store's own database: its rows are
// claimed, extended and sent in one transaction. The relay may die at any point of
// it, and then there are neither claims nor messages, or both.
func (m *machine) claimAndSend() {
	r := pick(m, "relay", m.relays)
	p := m.planDue(r)
	if rapid.Bool().Draw(m.T, "lapsed") {
		p = m.planLapsed(r)
	}
	f, dies := m.fault(), ""
	if f == well {
		dies = pick(m, "it dies", []string{"", "", "", "", "after the claim", "after the extension", "before the commit"})
	}
	var rows []waybill.ClaimedRow
	_, maybe := m.call(f, func(ctx context.Context, store txStore) error {
		err := store.ClaimTx(ctx, func(ctx context.Context, tx any, claims waybill.Claimer) (err error) {
			rows, err = p.do(ctx, claims)
			return errors.Join(err, m.send(ctx, tx, claims, p, rows, dies))
		})
		if errors.Is(err, errDied) {
			rows, err = nil, nil // nobody is there to hear of it
		}
		return err
	})
	if f == ended {
		rows = nil
	}
	got, at := m.look()
	took := m.took(rows, got, maybe)
	if nothing := f == ended || dies != "" || maybe && len(took) == 0; !nothing {
		m.checkClaimed(took, p.limit, p.eligible, at)
	}
	var changes []change
	for _, d := range took {
		changes = append(changes, claimed(d.id, p.by, p.stamp))
		if lease := m.leaseOf(d.receiver); waybill.NeedsExtension(p.stamp, lease) {
			changes = append(changes, extended(d.id, lease))
		}
	}
	m.conclude(got, at, changes)
	m.deliver(took)
}

// send gives claimed rows their receivers' own leases and writes their messages, as
// far as the relay gets.
func (m *machine) send(ctx context.Context, tx any, claims waybill.Claimer, p plan, rows []waybill.ClaimedRow, dies string) error {
	if dies == "after the claim" {
		return errDied
	}
	var extensions []waybill.Extension
	for _, row := range rows {
		if lease := m.leaseOf(row.Receiver); waybill.NeedsExtension(p.stamp, lease) {
			extensions = append(extensions, waybill.Extension{Message: row.Message, Lease: lease})
		}
	}
	held, err := claims.Extend(ctx, extensions)
	if err != nil {
		return err
	}
	if len(held) != len(extensions) {
		m.Fatalf("extended %d of %d rows that were claimed in the same transaction", len(held), len(extensions))
	}
	if dies == "after the extension" {
		return errDied
	}
	for _, row := range rows {
		if err := m.db.post(ctx, tx, row.Message); err != nil {
			return err
		}
	}
	if dies == "before the commit" {
		return errDied
	}
	return nil
}

// deliver takes the messages out of the queue in the database, and fails unless they
// are those of just the rows that were claimed.
func (m *machine) deliver(took []*debt) {
	m.Helper()
	messages, err := m.db.posted(m.ctx)
	must(m, err)
	want := map[waybill.Message]bool{}
	for _, d := range took {
		want[waybill.Message{DeliveryID: d.id, Claim: d.claim}] = true
	}
	for _, message := range messages {
		if !want[message] {
			m.Fatalf("message %+v was sent, and its claim is not there, or it was sent twice; claimed %v", message, took)
		}
		delete(want, message)
		m.sent = append(m.sent, message)
		m.post(message)
	}
	if len(want) > 0 {
		m.Fatalf("claimed %v and sent %v", took, messages)
	}
}

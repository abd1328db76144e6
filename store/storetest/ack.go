package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
)

// outcomes are all that a run can do to its row.
var outcomes = []struct {
	name             string
	outcome          waybill.Outcome
	attempts, starts int // after the second run of a row whose first one failed
}{
	{"succeeded", success, 2, 2},
	{"failed", waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: 90 * time.Second, Error: "no answer"}, 2, 2},
	{"failed at once", waybill.Outcome{Status: waybill.Failed, Attempted: true, Error: "no answer"}, 2, 2},
	{"deferred", waybill.Outcome{Status: waybill.Failed, Deferred: true, Wait: 3 * time.Minute, Error: "deferred for 3m0s"}, 1, 1},
	{"dead", waybill.Outcome{Status: waybill.Dead, Attempted: true, Error: "out of attempts"}, 2, 2},
	{"given up", waybill.Outcome{Status: waybill.Dead, Deferred: true, Error: "given up after 2h"}, 1, 1},
	{"orphaned", waybill.OrphanedOutcome("a"), 1, 2},
	{"parked", waybill.ParkedOutcome(3), 1, 2},
}

// failedOnce returns a row that a worker holds for the second time.
func (b *scene) failedOnce() *waybill.Delivery {
	b.Helper()
	d := b.taken()
	b.ack(waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: waybill.Failed, Attempted: true, Error: "at first"}})
	taken := b.take(messagesOf(b.claim(1, d.Receiver))...)
	equal(b, "taken again", len(taken), 1)
	return taken[0]
}

// landed says what a row is after an outcome, given what it was before.
func (b *scene) landed(before Row, outcome waybill.Outcome, attempts, starts int) {
	b.Helper()
	row, now := b.row(before.ID), b.now()
	want := before
	want.Status, want.LastError, want.LeaseExpiresAt = outcome.Status, outcome.Error, 0
	want.Attempts, want.Starts = attempts, starts
	if outcome.Status == waybill.Failed {
		near(b, "available_at", row.AvailableAt, now.Add(outcome.Wait))
		want.AvailableAt = row.AvailableAt
	} else {
		near(b, "settled_at", row.SettledAt, now)
		want.SettledAt = row.SettledAt
	}
	equal(b, "row", row, want)
}

var ackCases = buildAckCases()

func buildAckCases() []testCase {
	var cases []testCase
	for _, o := range outcomes {
		cases = append(cases, testCase{"records " + o.name, func(b *scene) {
			b.start("a")
			d := b.failedOnce()
			before := b.row(d.ID)
			sameIDs(b, "landed", b.ack(waybill.Ack{Message: messageOf(d), Outcome: o.outcome}), []int64{d.ID})
			b.landed(before, o.outcome, o.attempts, o.starts)
			b.unchanged(func() {
				sameIDs(b, "landed again", b.ack(waybill.Ack{Message: messageOf(d), Outcome: o.outcome}), nil)
			})
		}}, testCase{"changes nothing without the claim: " + o.name, func(b *scene) {
			// Trap 5: a zombie that overwrites the verdict of the row's new owner.
			b.start("a")
			d := b.failedOnce()
			wrongBy, wrongAt, unknown, half := messageOf(d), messageOf(d), messageOf(d), messageOf(d)
			wrongBy.Claim.By = "worker:2"
			wrongAt.Claim.At--
			unknown.DeliveryID = 1 << 40
			half.Claim.At = 0
			b.lapse()
			stale := messageOf(d)
			equal(b, "reclaimed", len(b.lapsed("a")), 1)
			b.unchanged(func() {
				for _, message := range []waybill.Message{wrongBy, wrongAt, unknown, half, stale} {
					sameIDs(b, "landed", b.ack(waybill.Ack{Message: message, Outcome: o.outcome}), nil)
				}
			})
		}})
	}
	return append(cases, ackMore...)
}

var ackMore = []testCase{
	{"lands after the lease if nobody claimed the row", func(b *scene) {
		b.start("a")
		d := b.taken()
		b.lapse()
		sameIDs(b, "landed", b.ack(waybill.Ack{Message: messageOf(d), Outcome: success}), []int64{d.ID})
		equal(b, "status", b.row(d.ID).Status, waybill.Succeeded)
	}},
	{"lands for a row that was never taken", func(b *scene) { // a relay orphans and parks
		b.start("a")
		message := b.claimed(1)[0]
		before := b.row(message.DeliveryID)
		outcome := waybill.OrphanedOutcome("a")
		sameIDs(b, "landed", b.ack(waybill.Ack{Message: message, Outcome: outcome}), []int64{message.DeliveryID})
		b.landed(before, outcome, 0, 0)
	}},
	{"records each outcome of a mixed batch on its own row", func(b *scene) {
		b.start("a", "b")
		taken := b.take(b.scattered(20)...)
		equal(b, "taken", len(taken), 40)
		acks := make([]waybill.Ack, len(taken))
		before := map[int64]Row{}
		for _, row := range b.rows() {
			before[row.ID] = row
		}
		for i, d := range taken {
			acks[i] = waybill.Ack{Message: messageOf(d), Outcome: outcomes[i%len(outcomes)].outcome}
			if acks[i].Outcome.Error != "" {
				acks[i].Outcome.Error = fmt.Sprintf("%s %d", acks[i].Outcome.Error, i)
			}
		}
		acks[5].Claim.At++ // lost
		equal(b, "landed", len(b.ack(acks...)), len(acks)-1)
		for i, ack := range acks {
			if i == 5 {
				equal(b, "row that was lost", b.row(ack.DeliveryID), before[ack.DeliveryID])
				continue
			}
			o := outcomes[i%len(outcomes)]
			b.landed(before[ack.DeliveryID], ack.Outcome, o.attempts-1, o.starts-1)
		}
	}},
	{"leaves a stamp that no later claim repeats", func(b *scene) {
		b.start("a")
		d := b.taken()
		b.ack(waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: waybill.Failed, Attempted: true}})
		row := b.row(d.ID)
		equal(b, "claim", waybill.Claim{By: row.ClaimedBy, At: row.ClaimedAt}, d.Claim)
	}},
	{"makes a settled row stay settled", func(b *scene) {
		b.start("a")
		d := b.taken()
		b.ack(waybill.Ack{Message: messageOf(d), Outcome: success})
		b.lapse()
		b.unchanged(func() {
			equal(b, "claimed", len(b.claim(10, "a")), 0)
			equal(b, "lapsed", len(b.lapsed("a")), 0)
			equal(b, "taken", len(b.take(messageOf(d))), 0)
			sameIDs(b, "given back", b.giveBack(waybill.GiveBack{Message: messageOf(d)}), nil)
		})
	}},
	{"brings a failed row back after its wait, by the database's clock", func(b *scene) {
		b.start("a")
		d := b.taken()
		due := b.row(d.ID).DueAt
		b.ack(waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: 10 * time.Minute}})
		b.SetClock(9 * time.Minute)
		equal(b, "claimed before", len(b.claim(1, "a")), 0)
		b.SetClock(11 * time.Minute)
		equal(b, "claimed after", len(b.claim(1, "a")), 1)
		equal(b, "due_at", b.row(d.ID).DueAt, due)
	}},
	{"keeps any error text", func(b *scene) {
		b.start("a")
		receiver, _ := b.reg.Receiver("a")
		for _, text := range []string{"plain", "nul \x00 and \xff\xfe", "日本語 😀 'quoted' \"\\", strings.Repeat("ü", 5000)} {
			b.exec("DELETE FROM delivery")
			d := b.taken()
			outcome := waybill.Judge(receiver, d, errors.New(text), b.now().Time(), 0.5)
			b.ack(waybill.Ack{Message: messageOf(d), Outcome: outcome})
			got := b.row(d.ID).LastError
			equal(b, "last_error", got, outcome.Error)
			if got == "" || !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
				b.Fatalf("last_error %q is empty or holds what it must not", got)
			}
		}
	}},
	{"is reported by waybill.Record for each outcome, also when repeated", func(b *scene) {
		b.start("a")
		acks := acksOf(b.take(b.claimed(4)...), success)
		acks[1].Claim.By = "worker:2"
		acks[2].Outcome = waybill.Outcome{Status: waybill.Failed, Attempted: true, Error: "no answer", Wait: hour}
		for range 2 {
			landed, err := waybill.Record(b.ctx, b.Store, append(acks, acks[0]))
			b.must(err)
			equal(b, "landed", landed, []bool{true, false, true, true, true})
		}
		equal(b, "attempts", b.count("SELECT sum(attempts) FROM delivery"), 3)
	}},
	{"of nothing is nothing", func(b *scene) {
		b.start("a")
		sameIDs(b, "landed", b.ack(), nil)
	}},
}

package storetest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
)

var takeCases = []testCase{
	{"moves the claim to the worker", func(b *scene) {
		b.start("a")
		event := b.fire(Parcel{N: 7, Note: "fragile"})[0]
		message := b.claim(1, "a")[0].Message
		before := b.row(message.DeliveryID)
		got := b.take(message)
		equal(b, "taken", len(got), 1)
		row, now := b.row(message.DeliveryID), b.now()
		near(b, "claimed_at", row.ClaimedAt, now)
		near(b, "taken_at", row.TakenAt, now)
		near(b, "lease_expires_at", row.LeaseExpiresAt, now.Add(ownLease))
		if row.ClaimedAt <= message.Claim.At {
			b.Fatalf("claimed_at %s is not after %s", row.ClaimedAt, message.Claim.At)
		}
		want := before
		want.ClaimedBy, want.ClaimedAt, want.TakenAt, want.LeaseExpiresAt = workerID, row.ClaimedAt, row.TakenAt, row.LeaseExpiresAt
		want.Starts = 1
		equal(b, "row", row, want)

		d := got[0]
		near(b, "recorded_at", waybill.StampOf(d.Event.RecordedAt), now)
		recorded := d.Event.RecordedAt
		equal(b, "event", *d.Event, waybill.Event{
			ID: event, Name: parcelEvent, Version: 1, Payload: []byte(`{"n":7,"note":"fragile"}`), RecordedAt: recorded,
			OccurredAt: recorded, CorrelationID: strconv.FormatInt(event, 10),
		})
		d.Event = nil
		equal(b, "delivery", *d, waybill.Delivery{
			ID: row.ID, Receiver: "a", Attempt: 1, MaxAttempts: waybill.DefaultMaxAttempts, Start: 1,
			DueAt: row.DueAt.Time(), HandedOffAt: row.HandedOffAt.Time(),
			Claim: waybill.Claim{By: workerID, At: row.ClaimedAt}, Lease: ownLease,
		})
	}},
	// Trap 4: one lease for a batch whose rows run one after the other.
	{"stamps each receiver's own lease", func(b *scene) {
		leases := map[string]time.Duration{"quick": 15 * time.Second, "slow": 2 * time.Hour, "odd": 1234567 * time.Microsecond}
		waybill.Declare[Parcel](b.reg, parcelEvent, waybill.EventOptions{})
		for key, lease := range leases {
			waybill.On(b.reg, key, func(context.Context, Parcel) error { return nil }, waybill.Options{Lease: lease})
		}
		b.start()
		for _, d := range b.take(b.claimedFor("quick", "slow", "odd")...) {
			equal(b, "lease of the delivery", d.Lease, leases[d.Receiver])
			row := b.row(d.ID)
			equal(b, "lease of the row", row.LeaseExpiresAt, row.TakenAt.Add(leases[d.Receiver]))
		}
	}},
	// Trap 33: half a claim that passes for a whole one.
	{"needs both halves of the claim", func(b *scene) {
		b.start("a")
		messages := b.claimed(6)
		for i, spoil := range []func(*waybill.Message){
			func(m *waybill.Message) { m.Claim.By = "relay:2" },
			func(m *waybill.Message) { m.Claim.At++ },
			func(m *waybill.Message) { m.Claim.At-- },
			func(m *waybill.Message) { m.Claim.By = "" },
			func(m *waybill.Message) { m.Claim.At = 0 },
			func(m *waybill.Message) { m.DeliveryID = 1 << 40 },
		} {
			spoil(&messages[i])
		}
		b.unchanged(func() { equal(b, "taken", len(b.take(messages...)), 0) })
	}},
	{"matches each id with its own claim only", func(b *scene) {
		b.start("a")
		b.parcels(2)
		first := b.claim(1, "a")[0].Message
		second := b.claim(1, "a")[0].Message
		first.Claim, second.Claim = second.Claim, first.Claim
		if first.Claim == second.Claim {
			b.Fatal("two claims of the same moment: nothing is shown")
		}
		b.unchanged(func() { equal(b, "taken", len(b.take(first, second)), 0) })
	}},
	{"happens once", func(b *scene) {
		b.start("a")
		message := b.claimed(1)[0]
		equal(b, "taken", len(b.take(message)), 1)
		b.unchanged(func() {
			equal(b, "taken again", len(b.take(message)), 0)
			equal(b, "taken by another", len(b.takeAs("worker:2", message)), 0)
		})
	}},
	// Trap 81: a race that one connection plays with itself.
	{"has one winner", func(b *scene) {
		b.start("a")
		messages := b.claimed(40)
		stores := []*scene{b.second(), b.second(), b.second(), b.second()}
		var (
			won atomic.Int64
			wg  sync.WaitGroup
		)
		for i, other := range stores {
			wg.Go(func() {
				for j := range messages {
					// half of them meet from the other end
					at := j
					if i%2 == 1 {
						at = len(messages) - 1 - j
					}
					taken, err := other.Store.Take(b.ctx, waybill.TakeRequest{
						By: fmt.Sprintf("worker:%d", i), Messages: messages[at : at+1], Leases: b.reg.Leases(),
					})
					if err != nil {
						b.Error(err)
						return
					}
					won.Add(int64(len(taken)))
				}
			})
		}
		wg.Wait()
		equal(b, "takes that won", won.Load(), int64(len(messages)))
		equal(b, "starts", b.count("SELECT sum(starts) FROM delivery"), int64(len(messages)))
	}},
	{"asks for the claim and not for the lease", func(b *scene) {
		b.start("a")
		message := b.claimed(1)[0]
		b.lapse()
		equal(b, "taken", len(b.take(message)), 1)
	}},
	{"is lost to a later claim", func(b *scene) {
		b.start("a")
		message := b.claimed(1)[0]
		b.lapse()
		again := b.lapsed("a")
		equal(b, "reclaimed", len(again), 1)
		b.unchanged(func() { equal(b, "taken under the old claim", len(b.take(message)), 0) })
		equal(b, "taken under the new one", len(b.take(again[0].Message)), 1)
	}},
	// Trap 35: a row that is settled, or waits out its backoff, is run all the same.
	{"refuses rows that are not claimed", func(b *scene) {
		b.start("a")
		messages := b.claimed(6)
		for i, status := range []string{"succeeded", "dead", "orphaned", "cancelled", "pending", "failed"} {
			b.exec("UPDATE delivery SET status = '%s' WHERE id = %d", status, messages[i].DeliveryID)
		}
		b.unchanged(func() { equal(b, "taken", len(b.take(messages...)), 0) })
	}},
	{"refuses receivers it has no lease for", func(b *scene) {
		b.start("a", "b")
		b.parcels(1)
		messages := messagesOf(b.claim(10, "a", "b"))
		taken, err := b.Store.Take(b.ctx, waybill.TakeRequest{
			By: workerID, Messages: messages, Leases: []waybill.ReceiverLease{{Receiver: "b", Lease: time.Minute}},
		})
		b.must(err)
		equal(b, "taken", len(taken), 1)
		equal(b, "receiver", taken[0].Receiver, "b")
		b.unchanged(func() {
			taken, err := b.Store.Take(b.ctx, waybill.TakeRequest{By: workerID, Messages: messages})
			b.must(err)
			equal(b, "taken without leases", len(taken), 0)
		})
	}},
	{"takes a hundred rows of a hundred claims", func(b *scene) {
		b.start("a", "b")
		messages := b.scattered(50)
		stamps := map[waybill.Stamp]bool{}
		for _, message := range messages {
			stamps[message.Claim.At] = true
		}
		equal(b, "stamps", len(stamps), 100)
		messages[17].Claim.At++
		taken := b.take(messages...)
		equal(b, "taken", len(taken), 99)
		equal(b, "starts of the wrong one", b.row(messages[17].DeliveryID).Starts, 0)
		equal(b, "acknowledged", len(b.ack(acksOf(taken, success)...)), 99)
	}},
	{"shares one event among its deliveries", func(b *scene) {
		b.start("a", "b", "c")
		taken := b.take(b.claimedFor("a", "b", "c")...)
		equal(b, "taken", len(taken), 3)
		if taken[0].Event != taken[1].Event || taken[0].Event != taken[2].Event {
			b.Fatal("the deliveries of one event hold copies of it")
		}
	}},
	{"counts attempts from the recorded outcomes", func(b *scene) {
		b.start("a")
		b.parcels(1)
		for attempt := 1; attempt <= 3; attempt++ {
			taken := b.take(messagesOf(b.claim(1, "a"))...)
			equal(b, "taken", len(taken), 1)
			equal(b, "attempt", taken[0].Attempt, attempt)
			equal(b, "start", taken[0].Start, attempt)
			b.ack(waybill.Ack{Message: messageOf(taken[0]), Outcome: waybill.Outcome{Status: waybill.Failed, Attempted: true}})
		}
	}},
	{"of nothing is nothing", func(b *scene) {
		b.start("a")
		equal(b, "taken", len(b.take()), 0)
	}},
	{"does not deadlock with batches in another order", func(b *scene) {
		b.start("a")
		messages := b.claimed(200)
		backward := make([]waybill.Message, 0, len(messages))
		for i := range messages {
			backward = append(backward, messages[len(messages)-1-i])
		}
		other := b.second()
		var wg sync.WaitGroup
		for _, side := range []struct {
			store    Store
			messages []waybill.Message
		}{{b.Store, messages}, {other.Store, backward}, {b.Store, backward}, {other.Store, messages}} {
			wg.Go(func() {
				rows := make([]waybill.Extension, len(side.messages))
				for i, message := range side.messages {
					rows[i] = waybill.Extension{Message: message, Lease: ownLease}
				}
				for range 10 {
					held, err := side.store.Extend(b.ctx, rows)
					if err != nil || len(held) != len(rows) {
						b.Errorf("extended %d of %d: %v", len(held), len(rows), err)
						return
					}
				}
			})
		}
		wg.Wait()
	}},
}

// claimedFor fires one parcel and claims its rows of the given receivers at once.
func (b *scene) claimedFor(receivers ...string) []waybill.Message {
	b.Helper()
	b.parcels(1)
	rows := b.claim(len(receivers), receivers...)
	equal(b, "claimed", len(rows), len(receivers))
	return messagesOf(rows)
}

// scattered fires n parcels and claims their rows one by one: each has a stamp
// of its own.
func (b *scene) scattered(n int) []waybill.Message {
	b.Helper()
	b.parcels(n)
	receivers := waybill.Keys(b.reg.Receivers())
	var messages []waybill.Message
	for range n * len(receivers) {
		messages = append(messages, messagesOf(b.claim(1, receivers...))...)
	}
	equal(b, "claimed", len(messages), n*len(receivers))
	return messages
}

var success = waybill.Outcome{Status: waybill.Succeeded, Attempted: true}

func acksOf(deliveries []*waybill.Delivery, outcome waybill.Outcome) []waybill.Ack {
	acks := make([]waybill.Ack, len(deliveries))
	for i, d := range deliveries {
		acks[i] = waybill.Ack{Message: messageOf(d), Outcome: outcome}
	}
	return acks
}

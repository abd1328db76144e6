package relay_test

import (
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/local"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/relay"
)

func TestClaimsTheOldestFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}, "b": {}})
	b.fire(2, 1*time.Hour) // rows 1 to 4
	b.fire(2, 3*time.Hour) // 5 to 8
	b.fire(2, 2*time.Hour) // 9 to 12
	once(t, b.relay(relay.Config{BatchSize: 5}), 0, 12)
	wantIDs(t, "handed off", b.queue.ids(), []int64{5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4})
	for i, batch := range b.queue.batches {
		for _, m := range batch {
			if !m.Claim.Complete() {
				t.Errorf("batch %d: delivery %d has half a claim: %v", i, m.DeliveryID, m.Claim)
			}
		}
	}
}

func TestLapsedRowsGoBeforeDueOnes(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	b.fire(2, 2*time.Hour) // rows 1 and 2
	b.fire(2, 3*time.Hour) // 3 and 4
	b.claim(4, time.Minute)
	b.fire(3, 4*time.Hour) // 5 to 7, the oldest of all
	b.store.SetClockOffset(2 * time.Minute)
	once(t, b.relay(relay.Config{}), 0, 7)
	wantIDs(t, "handed off", b.queue.ids(), []int64{3, 4, 1, 2, 5, 6, 7})
}

func TestLapsedAndDueInOnePass(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {}})
	b.fire(2, time.Hour)
	b.claim(2, time.Minute)
	b.fire(2, 2*time.Hour)
	b.store.SetClockOffset(2 * time.Minute)
	r := b.relay(relay.Config{})
	once(t, r, 3, 3)
	wantIDs(t, "first", b.queue.ids(), []int64{1, 2, 3})
	once(t, r, 3, 1)
	wantIDs(t, "in all", b.queue.ids(), []int64{1, 2, 3, 4})
	if got := b.fault.Count("ClaimLapsed"); got != 2 {
		t.Errorf("lapsed rows were looked for %d times, want twice", got)
	}
}

// Traps 14 and 15: lapsed rows of another lane are taken, or those of nobody by none.
func TestLanes(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"stock": {}, "receipt": {Lane: "mail"}, "report": {Lane: "bulk"}, "moved": {}})
	b.fire(2, time.Hour)
	b.claim(8, time.Minute) // one of each is lapsed when the relays come
	b.fire(1, time.Hour)
	b.exec(`UPDATE delivery SET receiver = 'gone' WHERE receiver = 'moved'`)
	b.store.SetClockOffset(2 * time.Minute)

	mail := b.relay(relay.Config{Lane: "mail", Backend: &queue{}})
	once(t, mail, 0, 3)
	for _, r := range b.rows() {
		if heldBy(r, mail) != (r.Receiver == "receipt") {
			t.Errorf("row %d of %q is held by %q after lane mail was served", r.ID, r.Receiver, r.ClaimedBy)
		}
	}

	rest := b.relay(relay.Config{OrphanAfter: -1})
	once(t, rest, 0, 3)
	for _, r := range b.rows() {
		switch r.Receiver {
		case "stock":
			if !heldBy(r, rest) {
				t.Errorf("row %d of the default lane is held by %q", r.ID, r.ClaimedBy)
			}
		case "gone":
			if r.Status != waybill.Orphaned {
				t.Errorf("row %d of an unknown receiver is %s, want orphaned by the default lane", r.ID, r.Status)
			}
		case "report":
			if r.ClaimedBy != "" && r.ClaimedBy != "dead relay" {
				t.Errorf("row %d of lane bulk is held by %q, and nobody serves that lane", r.ID, r.ClaimedBy)
			}
		case "receipt":
			if !heldBy(r, mail) {
				t.Errorf("row %d of lane mail went to %q", r.ID, r.ClaimedBy)
			}
		}
	}
}

// A lane is a property of the declaration and not of the row.
func TestMovingAReceiverMovesWhatItIsOwed(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {Lane: "mail"}, "b": {Lane: "mail"}})
	b.fire(3, time.Hour)
	b.claim(2, time.Minute)
	b.store.SetClockOffset(2 * time.Minute)
	deployed := fault.NewStore(b.store)
	deployed.SetRegistry(declare(t, map[string]waybill.Options{"a": {Lane: "bulk"}, "b": {Lane: "mail"}}))

	bulk := b.relay(relay.Config{Store: deployed, Lane: "bulk", Backend: &queue{}})
	once(t, bulk, 0, 3)
	once(t, b.relay(relay.Config{Store: deployed, Lane: "mail"}), 0, 3)
	if rows := b.rowsOf("a"); !all(rows, func(r row) bool { return heldBy(r, bulk) }) {
		t.Errorf("rows of the moved receiver: %+v, want all held by the relay of its new lane", rows)
	}
}

func TestEachSiteHasItsQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"far": {}, "near": {Site: waybill.SiteRelay}})
	near := &queue{}
	b.fire(3, time.Hour)
	once(t, b.relay(relay.Config{Local: near}), 0, 6)
	for _, r := range b.rows() {
		if got := r.Receiver == "near"; got != contains(near.ids(), r.ID) || got == contains(b.queue.ids(), r.ID) {
			t.Errorf("row %d of %q: sites' queues have %v and %v", r.ID, r.Receiver, b.queue.ids(), near.ids())
		}
	}
}

// A backlog for one site may not keep the other waiting.
func TestSitesTakeTurns(t *testing.T) {
	t.Parallel()
	store := newLedger(declare(t, map[string]waybill.Options{"far": {}, "near": {Site: waybill.SiteRelay}}))
	store.owe("far", 1000)
	store.owe("near", 1000)
	far, near := &queue{}, &queue{}
	r := newRelay(t, relay.Config{Store: store, Backend: far, Local: near, BatchSize: 100, Passes: 4, PollOnly: true})
	if err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(far.ids()) != 200 || len(near.ids()) != 200 {
		t.Errorf("after 4 passes of 100 rows the sites have %d and %d, want 200 each", len(far.ids()), len(near.ids()))
	}
}

func TestClaimsNoMoreThanThereIsRoom(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {Site: waybill.SiteRelay}})
	near, err := local.New(local.Config{Capacity: 10})
	if err != nil {
		t.Fatal(err)
	}
	b.fire(50, time.Hour)
	r := b.relay(relay.Config{Local: near, Poll: time.Hour})
	run(t, r)
	poll.Until(t, "a full queue", func() bool { return near.Room() == 0 })
	b.fire(1, time.Hour) // a wake-up, as far as the relay can tell
	b.fire(1, time.Hour)
	claims := b.fault.Count("Claim")
	out := 0
	for _, r := range b.rows() {
		if r.Status == "claimed" {
			out++
		}
	}
	if out != 10 {
		t.Errorf("%d rows are claimed for a queue of 10", out)
	}
	if claims != 1 {
		t.Errorf("%d claims while there was no room, want the first alone", claims)
	}

	got := make(chan waybill.Message)
	consume(t, near, got)
	for i := range 52 { // long before the poll
		select {
		case <-got:
		case <-time.After(15 * time.Second):
			t.Fatalf("%d of 52 messages came; the relay sleeps although there is room: %d", i, near.Room())
		}
	}
	if back := b.fault.Count("GiveBack"); back != 0 {
		t.Errorf("%d batches were given back, want none: each had room", back)
	}
}

// The room may come between the claim that found none and the wait for it.
func TestRoomThatCameBeforeTheWaitIsNotMissed(t *testing.T) {
	t.Parallel()
	store := newLedger(declare(t, map[string]waybill.Options{"a": {}}))
	store.owe("a", 3)
	narrow := &narrowQueue{freed: make(chan struct{}, 1), rooms: []int{0, 0}}
	narrow.freed <- struct{}{}
	run(t, newRelay(t, relay.Config{Store: store, Backend: narrow, Poll: time.Hour}))
	poll.Until(t, "the hand-off", func() bool { return len(narrow.ids()) == 3 })
}

package relay_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/relay"
)

// A lane that a release no longer has leaves nothing behind: what its receivers are
// owed, pending and lapsed alike, is the default lane's, and whoever still starts a
// relay for it is told.
func TestRemovedLaneFallsToTheDefaultOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]waybill.Options{"a": {Lane: "mail"}, "b": {Lane: "bulk"}})
	b.fire(3, time.Hour)
	b.claim(2, time.Minute) // one of each lapses
	b.store.SetClockOffset(2 * time.Minute)
	deployed := fault.NewStore(b.store)
	deployed.SetRegistry(declare(t, map[string]waybill.Options{"a": {}, "b": {Lane: "bulk"}}))

	rest := b.relay(relay.Config{Store: deployed})
	once(t, rest, 0, 3)
	for _, r := range b.rows() {
		if heldBy(r, rest) != (r.Receiver == "a") {
			t.Errorf("row %d of %q is held by %q", r.ID, r.Receiver, r.ClaimedBy)
		}
	}
	_, err := relay.New(relay.Config{Store: deployed, Backend: b.queue, Lane: "mail"})
	if err == nil || !strings.Contains(err.Error(), `unknown lane "mail"; declared: bulk, default`) {
		t.Errorf("a relay for the lane that is gone: %v", err)
	}
}

// Who is in a lane is read at each claim, and not when the relay starts.
func TestLaneIsReadAtEachClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := declare(t, map[string]waybill.Options{"a": {Lane: "mail"}, "b": {}})
		store := newLedger(reg)
		mail, rest := &queue{}, &queue{}
		stopMail := run(t, newRelay(t, relay.Config{Store: store, Backend: mail, Lane: "mail"}))
		stopRest := run(t, newRelay(t, relay.Config{Store: store, Backend: rest}))
		store.owe("late", 2)
		store.owe("b", 1)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		wantIDs(t, "handed off while nobody declares it", append(mail.ids(), rest.ids()...), ids(3, 3))
		reg.Add(waybill.Receiver{Key: "late", Event: waybill.AnyEvent, Options: waybill.Options{Lane: "mail"},
			Run: func(context.Context, *waybill.Delivery) error { return nil }})
		time.Sleep(time.Second)
		synctest.Wait()
		stopMail()
		stopRest()
		wantIDs(t, "handed off in its lane", mail.ids(), ids(1, 2))
		wantIDs(t, "handed off in the default lane", rest.ids(), ids(3, 3))
	})
}

// The queue of one lane is down: relays of other lanes, in the same process, go on.
func TestQueueOutageOfOneLaneLeavesTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(declare(t, map[string]waybill.Options{"a": {Lane: "mail"}, "b": {}}))
		mail, rest := &queue{answer: down}, &queue{}
		stopMail := run(t, newRelay(t, relay.Config{Store: store, Backend: mail, Lane: "mail"}))
		stopRest := run(t, newRelay(t, relay.Config{Store: store, Backend: rest}))
		for range 30 {
			store.owe("a", 3)
			store.owe("b", 3)
			before := len(rest.ids())
			time.Sleep(time.Second)
			synctest.Wait()
			if got := len(rest.ids()) - before; got != 3 {
				t.Errorf("%d rows of the other lane were handed off within a poll, want 3", got)
			}
		}
		mail.answers(nil)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		stopMail()
		stopRest()
		if got := store.in(waybill.Pending); got != 0 {
			t.Errorf("%d rows wait after the outage, want none", got)
		}
	})
}

// writes is a ledger that counts what is written for each row.
type writes struct {
	*ledger
	given int
}

func (w *writes) GiveBack(ctx context.Context, rows []waybill.GiveBack) ([]int64, error) {
	ids, err := w.ledger.GiveBack(ctx, rows)
	w.given += len(ids)
	return ids, err
}

// claimed counts rows in claims.
func (w *writes) claimed() (rows int) {
	due, lapsed := w.calls()
	for _, call := range append(due, lapsed...) {
		rows += call.rows
	}
	return rows
}

// An outage of the queue costs the database a row now and then, not a claim and a
// give-back of everything at each poll, and is over within one step of the backoff.
func TestQueueOutageChurnsNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lasts, step time.Duration // the wait that the outage ends in is no longer
		probes      int
	}{
		// One batch at once, then a row after 1, 2, 4, 8, 15, 15, … s, or up to a quarter less.
		{500 * time.Millisecond, time.Second, 0}, {2 * time.Second, 2 * time.Second, 1},
		{10 * time.Second, 8 * time.Second, 3}, {time.Minute, 15 * time.Second, 8},
	} {
		t.Run(c.lasts.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const rows, batch = 300, 50
				store := &writes{ledger: newLedger(declare(t, map[string]waybill.Options{"a": {Lease: time.Hour}}))}
				store.owe("a", rows)
				q := &queue{answer: down}
				stop := run(t, newRelay(t, relay.Config{Store: store, Backend: q, Poll: 200 * time.Millisecond, BatchSize: batch}))
				time.Sleep(c.lasts)
				synctest.Wait()
				if claimed := store.claimed(); claimed > batch+c.probes || store.given != claimed {
					t.Errorf("%d rows were claimed and %d given back in %s of outage, want one batch and at most %d more",
						claimed, store.given, c.lasts, c.probes)
				}
				q.answers(nil)
				time.Sleep(c.step)
				synctest.Wait()
				out := store.in(waybill.Claimed)
				stop()
				if out != rows || store.given > batch+c.probes {
					t.Errorf("%d rows are out %s after the outage, and %d were given back in all; want all %d, and none given back since",
						out, c.step, store.given, rows)
				}
			})
		})
	}
}

// Traps 14 and 36: a way of claiming that does not look at lane and site. However a relay
// comes by a row, as due or as lapsed, by Run or by Once, with a limit or without,
// jointly or in two steps, it goes to its own site's queue.
func TestEveryWayOfClaimingHeedsLaneAndSite(t *testing.T) {
	t.Parallel()
	options := map[string]waybill.Options{
		"far": {Lease: time.Minute}, "near": {Site: waybill.SiteRelay, Lease: 2 * time.Minute}, "mail": {Lane: "mail", Lease: time.Minute},
	}
	for way, serve := range map[string]func(t *testing.T, r *relay.Relay){
		"Run": func(t *testing.T, r *relay.Relay) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			wantReturn(t, runUntil(ctx, r))
		},
		"Once":              func(t *testing.T, r *relay.Relay) { once(t, r, 0, 8) },
		"Once with a limit": func(t *testing.T, r *relay.Relay) { once(t, r, 8, 8) },
	} {
		for _, jointly := range []bool{false, true} {
			name := way
			if jointly {
				name += ", jointly"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newShared(t, openSQLite(t, declare(t, options), 0))
				b.fire(2)
				rows, err := b.store.Claim(t.Context(), waybill.ClaimRequest{
					By: "dead relay", Receivers: []string{"far", "near", "mail"}, Limit: 6, Lease: time.Second,
				})
				if err != nil || len(rows) != 6 {
					t.Fatalf("claimed %d rows, %v; want 6", len(rows), err)
				}
				b.fire(2)
				b.clock(time.Minute)
				near := &queue{}
				config := relay.Config{Backend: apart{b.queue}, Local: near, Passes: 2}
				if jointly {
					config.Backend = b.queue
				}
				serve(t, b.relay(config))
				wantIDs(t, "in the queue of the task site", sorted(idsOf(b.messages())), b.ids("receiver = 'far'"))
				wantIDs(t, "in the queue of the relay's site", sorted(near.ids()), b.ids("receiver = 'near'"))
				wantIDs(t, "of another lane, untouched", b.ids("receiver = 'mail' AND claimed_by IN ('', 'dead relay')"), b.ids("receiver = 'mail'"))
			})
		}
	}
}

func idsOf(messages []waybill.Message) []int64 {
	ids := make([]int64, len(messages))
	for i, message := range messages {
		ids[i] = message.DeliveryID
	}
	return ids
}

func sorted(ids []int64) []int64 { return slices.Sorted(slices.Values(ids)) }

// A limit is the number of rows, whatever they are: due and lapsed ones together, of
// both sites, and those of receivers that nobody declares.
func TestOnceTakesExactlyItsLimit(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 5, 7} { // of twelve rows
		b := newBench(t, map[string]waybill.Options{"far": {Lease: time.Minute}, "near": {Site: waybill.SiteRelay, Lease: time.Hour}, "gone": {}, "mail": {Lane: "mail"}})
		b.fire(2, 2*time.Hour)
		b.claim(8, time.Minute) // all of them lapse
		b.fire(2, time.Hour)
		b.exec(`UPDATE delivery SET receiver = 'nobody' WHERE receiver = 'gone'`)
		b.store.SetClockOffset(2 * time.Minute)
		logger, _ := logtest.New()
		r := b.relay(relay.Config{Local: &queue{}, OrphanAfter: -1, BatchSize: 4, Logger: logger})
		for left := 12; left > 0; left -= limit {
			handedOff, err := r.Once(t.Context(), limit)
			if err != nil {
				t.Fatal(err)
			}
			seen := 0
			for _, row := range b.rows() {
				if heldBy(row, r) || row.Status == waybill.Orphaned {
					seen++
				}
			}
			if want := 12 - max(0, left-limit); seen != want || handedOff > limit {
				t.Errorf("limit %d: %d rows are handed off or settled, want %d; the call handed off %d", limit, seen, want, handedOff)
			}
		}
		if n, err := r.Once(t.Context(), limit); n != 0 || err != nil {
			t.Errorf("limit %d: %d, %v with nothing due", limit, n, err)
		}
	}
}

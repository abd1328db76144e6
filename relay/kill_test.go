package relay_test

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/relay"
)

// left is what a relay leaves behind that was killed.
type left string

const (
	neither left = "neither claim nor message"
	both    left = "claims with their messages"
	bare    left = "claims without messages"
)

type point struct {
	name         string
	joint, plain left
	arm          func(b *shared, claim string, hit func())
}

// points are where a relay is hit, in the order in which it comes by, and what it then
// leaves behind: with a joint claim, and without.
var points = []point{
	{"before the claim", neither, neither, func(b *shared, claim string, hit func()) {
		b.fault.On(claim, fault.Hook{Before: func(context.Context) error { hit(); return nil }})
	}},
	{"after the claim", neither, bare, func(b *shared, claim string, hit func()) {
		b.fault.On(claim, fault.Hook{After: func() error { hit(); return nil }})
	}},
	{"after the extension", neither, bare, func(b *shared, _ string, hit func()) {
		b.fault.On("Extend", fault.Hook{After: func() error { hit(); return nil }})
	}},
	{"before the messages", neither, bare, func(b *shared, _ string, hit func()) {
		b.queue.change(func(q *table) { q.before = func(context.Context) error { hit(); return nil } })
	}},
	{"before the commit", neither, bare, func(b *shared, _ string, hit func()) {
		b.queue.change(func(q *table) { q.after = func(context.Context) error { hit(); return nil } })
	}},
	{"after the commit", both, both, func(b *shared, _ string, hit func()) {
		b.afterCommit(func() error { hit(); return nil })
		b.queue.change(func(q *table) { q.answered = hit })
	}},
}

// afterCommit lets something happen after a transaction that has handed off.
func (b *shared) afterCommit(do func() error) {
	sent := false
	b.queue.change(func(q *table) { q.after = func(context.Context) error { sent = true; return nil } })
	b.fault.On("ClaimTx", fault.Hook{After: func() error {
		if !sent {
			return nil
		}
		return do()
	}})
}

// disarm undoes what a point has set.
func (b *shared) disarm(claim string) {
	for _, method := range []string{claim, "Extend", "ClaimTx"} {
		b.fault.On(method, fault.Hook{})
	}
	b.queue.change(func(q *table) { q.before, q.after, q.answered = nil, nil, nil })
}

// twoLeases are receivers of a lane that needs extensions.
var twoLeases = map[string]waybill.Options{"short": {Lease: time.Minute}, "long": {Lease: time.Hour}}

// offer leaves rows for the claim to find, and returns their ids.
func (b *shared) offer(claim string) []int64 {
	b.Helper()
	b.do("UPDATE delivery SET status = 'succeeded', lease_expires_at = NULL")
	b.do("DELETE FROM message")
	b.fire(2)
	if claim == "ClaimLapsed" {
		rows, err := b.store.Claim(b.Context(), waybill.ClaimRequest{By: "dead relay", Receivers: waybill.Keys(b.reg.Receivers()), Limit: 10})
		if err != nil || len(rows) != 4 {
			b.Fatalf("claimed %d rows: %v", len(rows), err)
		}
	}
	return b.ids("status IN ('pending', 'claimed')")
}

// A relay that is killed anywhere in a joint claim leaves both or neither. In the
// plain way it leaves rows that have no message, and that wait for their leases.
func TestKilledRelay(t *testing.T) {
	t.Parallel()
	opens := stores(t)
	for _, claim := range []string{"Claim", "ClaimLapsed"} {
		for _, jointly := range []bool{true, false} {
			name := claim + " and hand-off in two steps"
			if jointly {
				name = claim + " and hand-off in one transaction"
			}
			for store, open := range opens {
				t.Run(store+"/"+name, func(t *testing.T) {
					t.Parallel()
					b := newShared(t, open(t, declare(t, twoLeases), 0))
					for _, point := range points {
						t.Run(point.name, func(t *testing.T) { b.on(t).killAt(point, claim, jointly) })
					}
				})
			}
		}
	}
}

// killAt kills a relay at the point, and lets another one see to what it left.
func (b *shared) killAt(point point, claim string, jointly bool) {
	want, config := point.plain, relay.Config{Backend: apart{b.queue}}
	if jointly {
		want, config.Backend = point.joint, b.queue
	}
	offered := b.offer(claim)
	point.arm(b, claim, func() { panic("killed") })
	r := b.relay(config)
	kill(b.T, r)
	b.disarm(claim)
	b.wantLeft(r, want, offered)
	if want == both {
		return
	}
	if want == bare { // a lease has to pass
		b.clock(2 * time.Hour)
		defer b.clock(0)
	}
	next := b.relay(config)
	once(b.T, next, 0, len(offered))
	b.wantOut(next, offered)
}

// on returns the bench for a test within the test.
func (b *shared) on(t *testing.T) *shared {
	within := *b
	within.T = t
	return &within
}

// kill lets the relay make a pass in which it is killed.
func kill(t *testing.T, r *relay.Relay) {
	t.Helper()
	defer func() {
		if got := recover(); got != "killed" {
			t.Errorf("the relay ended with %v, want it killed", got)
		}
	}()
	_, err := r.Once(t.Context(), 0)
	t.Errorf("Once returned %v", err)
}

func (b *shared) wantLeft(r *relay.Relay, want left, offered []int64) {
	b.Helper()
	whole, torn, loose := b.out(r)
	got := map[left][]int64{both: whole, bare: torn, neither: nil}
	if len(loose) > 0 || len(whole)+len(torn) != len(got[want]) || want != neither && len(got[want]) != len(offered) {
		b.Errorf("of rows %v it left %v with their messages, %v without, and messages %v without their rows; want %s",
			offered, whole, torn, loose, want)
	}
}

// The connection is cut, and the relay lives on: it sees to the rows when it is back,
// with no lease to wait for.
func TestConnectionIsCutInAJointClaim(t *testing.T) {
	t.Parallel()
	address := services.Postgres(t)
	b := newShared(t, openPostgres(t, address, "joint", declare(t, twoLeases), 0))
	behind, proxy := throughProxy(t, address)
	defer proxy.Cut()
	cut := *b
	cut.database = openPostgres(t, behind, "joint", b.reg, time.Second)
	cut.fault = fault.NewStore(cut.store)
	for _, claim := range []string{"Claim", "ClaimLapsed"} {
		for _, point := range points[:len(points)-1] {
			offered := b.offer(claim)
			point.arm(&cut, claim, proxy.Cut)
			r := cut.relay(relay.Config{})
			if n, err := r.Once(t.Context(), 0); n != 0 || err == nil {
				t.Errorf("%s, cut %s: Once: %d, %v; want 0 and an error", claim, point.name, n, err)
			}
			cut.disarm(claim)
			proxy.Restore()
			b.wantLeft(r, neither, offered)
			handsOffSoon(t, r, len(offered))
			b.wantOut(r, offered)
		}
	}
}

// handsOffSoon fails the test unless the relay hands off so many rows as soon as the
// server has noticed that another client of theirs has gone.
func handsOffSoon(t *testing.T, r *relay.Relay, want int) {
	t.Helper()
	handedOff := 0
	poll.Until(t, "the relay to get the rows", func() bool {
		n, err := r.Once(t.Context(), 0)
		handedOff += n
		return err == nil && handedOff >= want
	})
	if handedOff != want {
		t.Errorf("handed off %d rows, want %d", handedOff, want)
	}
}

// The commit is on its way when the network carries nothing any more: it may have been
// done, or not, and the server may not even hear that its client has gone.
func TestAnswerOfTheCommitIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hold func(*fault.Proxy)
		left left
	}{
		"its answer is held": {(*fault.Proxy).HoldToClient, both},
		"it is held itself":  {(*fault.Proxy).HoldToServer, neither},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := services.Postgres(t)
			b := newShared(t, openPostgres(t, address, "joint", declare(t, twoLeases), 0))
			behind, proxy := throughProxy(t, address)
			defer proxy.Cut() // or the pool would wait for what it closed
			held := *b
			held.database = openPostgres(t, behind, "joint", b.reg, 500*time.Millisecond)
			held.fault = fault.NewStore(held.store)
			offered := b.offer("Claim")
			b.queue.change(func(q *table) { q.after = func(context.Context) error { c.hold(proxy); return nil } })
			r := held.relay(relay.Config{})
			if n, err := r.Once(t.Context(), 0); n != 0 || err == nil {
				t.Errorf("Once: %d, %v; want 0 and an error", n, err)
			}
			b.queue.change(func(q *table) { q.after = nil })
			b.wantLeft(r, c.left, offered)
			if c.left == neither {
				next := b.relay(relay.Config{})
				handsOffSoon(t, next, len(offered))
				b.wantOut(next, offered)
			}
		})
	}
}

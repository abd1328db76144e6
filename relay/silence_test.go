package relay_test

import (
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/relay"
)

// Traps 41, 42 and 43: an error of the database that ends the relay, one that it waits
// for without end, and a dead connection that every later claim is sent on. A database
// that accepts and never answers is an outage like one that refuses, connections that
// were ended are replaced, and a relay of another lane, which reaches its database, goes
// on meanwhile.
func TestDatabaseThatFallsSilentIsAnOutage(t *testing.T) {
	t.Parallel()
	const patience = time.Second
	const lease = 2 * time.Second // what a claim costs whose answer was lost
	reg := declare(t, map[string]waybill.Options{"a": {Lane: "mail", Lease: lease}, "b": {Lease: lease}})
	address := services.Postgres(t)
	b := newShared(t, openPostgres(t, address, "silence", reg, 0))
	behind, proxy := throughProxy(t, address)
	defer proxy.Cut() // or the pool would wait for what it closed
	cut := *b
	cut.database = openPostgres(t, behind, "silence", reg, patience)
	cut.fault, cut.log = fault.NewStore(cut.store), nil
	far, near := &queue{}, &queue{}
	run(t, cut.relay(relay.Config{Lane: "mail", Backend: far, Poll: 50 * time.Millisecond}))
	run(t, b.relay(relay.Config{Backend: near, Poll: 50 * time.Millisecond}))
	handedOff := func(q *queue) int { return len(slices.Compact(sorted(q.ids()))) } // a row whose lease is over comes again
	delivered := 0
	both := func(when string) {
		t.Helper()
		b.fire(1)
		delivered++
		poll.Until(t, when, func() bool { return handedOff(far) == delivered && handedOff(near) == delivered })
	}
	both("a first hand-off in each lane")
	for name, trouble := range map[string]struct{ begin, end func() }{
		"silent": {proxy.Hold, proxy.Restore},
		"ended by the server": {func() {
			b.do(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		}, func() {}},
	} {
		failed := func() int { return len(cut.log.Lines("level=ERROR", "pass did not succeed")) }
		before := failed()
		trouble.begin()
		if name == "silent" {
			poll.Until(t, "the silence to be told", func() bool { return failed() > before })
			b.fire(1)
			delivered++
			poll.Until(t, "the other lane to go on", func() bool { return handedOff(near) == delivered })
			if n := handedOff(far); n != delivered-1 {
				t.Errorf("%d rows were handed off in silence, want %d", n, delivered-1)
			}
		}
		trouble.end()
		both("both lanes after one was " + name)
	}
}

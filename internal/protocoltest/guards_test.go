package protocoltest

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// guard is a condition of the protocol, named for what is left when it is weakened.
type guard string

// The guards of docs/protocol/waybill.pml, and of docs/protocol.md.
const (
	takeClaim       guard = "take: id and status only"
	takeAt          guard = "take: claimed_at not compared"
	takeMoves       guard = "take: does not move the claim"
	takeOnce        guard = "take: reads the row, then writes it"
	ackID           guard = "ack: id only"
	ackStatus       guard = "ack: status not compared"
	ackClaim        guard = "ack: id and status only"
	ackAt           guard = "ack: claimed_at not compared" // a worker's runs share its id
	claimLapsed     guard = "claim: of rows whose leases run"
	cancelUnclaimed guard = "cancel: of claimed rows"
	replaySettled   guard = "replay: of claimed rows"
	extendClaim     guard = "extend: without the claim"
	giveBackClaim   guard = "give back: without the claim"
	stampGrows      guard = "stamp: now, and the clock steps back"
	stampStays      guard = "stamp: claimed_at null once the row is not claimed"
	claimAnew       guard = "claim: never of lapsed rows"
	keepAlive       guard = "relay: renews what waits in the queue, for ever"
)

var guards = []guard{
	takeClaim, takeAt, takeMoves, takeOnce, ackID, ackStatus, ackClaim, ackAt, claimLapsed, cancelUnclaimed,
	replaySettled, extendClaim, giveBackClaim, stampGrows, stampStays, claimAnew, keepAlive,
}

// TestReference runs the machine on a store that has every guard, and sees to it that
// what must be drawn is drawn.
func TestReference(t *testing.T) {
	db := openReference(t, "")
	seen := map[string]int{}
	histories := search(t, t, checksOnReference, func(rt *rapid.T, ctx context.Context) {
		for what, n := range history(rt, ctx, db).seen {
			seen[what] += n
		}
	})
	for _, what := range []string{
		"the clock stepped back under a run", "the clock stepped back under a run in a transaction",
		"two workers took a row at once",
		"a row was cancelled", "a row was in flight when it was to be cancelled",
		"a succeeded row was reopened", "a cancelled row was reopened",
	} {
		t.Logf("in %d histories %d times: %s", histories, seen[what], what)
		if seen[what] == 0 && !given["rapid.checks"] && !given["rapid.failfile"] {
			t.Errorf("in %d histories it never happened that %s", histories, what)
		}
	}
}

// TestWeakGuards: of a store that lacks a guard, the machine says so.
func TestWeakGuards(t *testing.T) {
	for _, weak := range guards {
		t.Run(string(weak), func(t *testing.T) {
			db := openReference(t, weak)
			found := &recorder{TB: t}
			histories := search(t, found, checksOnWeak, func(rt *rapid.T, ctx context.Context) { history(rt, ctx, db) })
			if !found.failed {
				t.Fatalf("%d histories without this guard, and nothing was found", histories)
			}
			if !strings.HasPrefix(found.report, "[rapid] failed after ") {
				t.Fatalf("found, but not as a violation: %s", found.report)
			}
			t.Logf("found in history %d: %s", histories, found.violation())
		})
	}
}

// search checks a property up to the first history that violates it, for which no
// shorter one is looked for, and returns how many histories that took.
func search(t *testing.T, tb rapid.TB, checks int, property func(rt *rapid.T, ctx context.Context)) (histories int) {
	t.Helper()
	set := func(name, value string) {
		f := flag.Lookup(name)
		before := f.Value.String()
		if !given[name] {
			must(t, f.Value.Set(value))
			t.Cleanup(func() { must(t, f.Value.Set(before)) })
		}
	}
	set("rapid.checks", strconv.Itoa(checks))
	set("rapid.shrinktime", "0s")
	violated := false
	done := make(chan struct{})
	go func() { // a failure ends the goroutine
		defer close(done)
		rapid.Check(tb, func(rt *rapid.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if !violated {
				histories++
			}
			ok := false
			defer func() { violated = violated || !ok }()
			property(rt, ctx)
			ok = true
		})
	}()
	<-done
	return histories
}

// recorder is told of a failure that was to be expected.
type recorder struct {
	testing.TB // for what tells of no failure
	failed     bool
	report     string
}

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Log(...any)          {}
func (r *recorder) Failed() bool        { return r.failed }
func (r *recorder) Fail()               { r.failed = true }
func (r *recorder) Error(args ...any)   { r.note(fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any)   { r.note(fmt.Sprint(args...)); r.FailNow() }

func (r *recorder) Errorf(format string, args ...any) { r.note(fmt.Sprintf(format, args...)) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.note(fmt.Sprintf(format, args...))
	r.FailNow()
}

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) note(report string) {
	if r.report == "" {
		r.report = report
	}
	r.Fail()
}

// violation is what the machine said, without the rows.
func (r *recorder) violation() string {
	_, said, _ := strings.Cut(r.report, " tests: ")
	said, _, _ = strings.Cut(said, "\n")
	return said
}

package waybill_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

// Traps 24 and 30: deferrals that count, or never end, and a wait that is cut to the backoff.
func TestJudge(t *testing.T) {
	t.Parallel()
	const (
		halfBackoff = 4 * time.Second // of the third attempt, at random 0.5
		uncounted   = "deferrals count as attempts: the receiver declares no give-up-after"
		cut         = "waits above 24h0m0s are cut to that"
	)
	broken := errors.New("connection refused")
	due := noon.Time()
	failed := func(wait time.Duration, text string) waybill.Outcome {
		return waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: wait, Error: text}
	}
	dead := func(text string) waybill.Outcome {
		return waybill.Outcome{Status: waybill.Dead, Attempted: true, Error: text}
	}
	// The lane is paused for what was asked for, the row waits half as long again.
	deferredFor := func(pause, wait time.Duration, text string) waybill.Outcome {
		return waybill.Outcome{Status: waybill.Failed, Deferred: true, Wait: wait, Pause: pause, Error: text}
	}
	deferred := func(text string) waybill.Outcome { return deferredFor(time.Minute, 90*time.Second, text) }
	noticed := func(out waybill.Outcome, notice string) waybill.Outcome { out.Notice = notice; return out }

	for _, c := range []struct {
		name    string
		err     error
		attempt int           // of 5; 0 is the third
		giveUp  time.Duration // the receiver's GiveUpAfter
		age     time.Duration // of the debt
		want    waybill.Outcome
	}{
		{name: "success", want: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}},
		{name: "success on the last attempt", attempt: 5, want: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}},
		{name: "success however old", giveUp: time.Hour, age: 2 * time.Hour, want: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}},

		{name: "ordinary", err: broken, want: failed(halfBackoff, "connection refused")},
		{name: "ordinary on the first attempt", err: broken, attempt: 1, want: failed(time.Second, "connection refused")},
		{name: "ordinary on the last attempt but one", err: broken, attempt: 4, want: failed(8*time.Second, "connection refused")},
		{name: "ordinary on the last attempt", err: broken, attempt: 5, want: dead("connection refused")},
		{name: "ordinary beyond the last attempt", err: broken, attempt: 6, want: dead("connection refused")},
		{name: "ordinary past the bound of deferrals", err: broken, giveUp: time.Hour, age: 2 * time.Hour, want: failed(halfBackoff, "connection refused")},

		{name: "retry after, exact", err: waybill.RetryAfter(90 * time.Second), want: failed(90*time.Second, "retry after 1m30s")},
		{name: "retry after nothing", err: waybill.RetryAfter(0), want: failed(0, "retry after 0s")},
		{name: "retry after, with the reason", err: fmt.Errorf("quota: %w", waybill.RetryAfter(time.Minute)), want: failed(time.Minute, "quota: retry after 1m0s")},
		{name: "retry after, joined to the reason", err: errors.Join(broken, waybill.RetryAfter(time.Minute)), want: failed(time.Minute, "connection refused\nretry after 1m0s")},
		{name: "retry after the longest", err: waybill.RetryAfter(waybill.MaxRetryDelay), want: failed(24*time.Hour, "retry after 24h0m0s")},
		{name: "retry after more than the longest", err: waybill.RetryAfter(25 * time.Hour),
			want: noticed(failed(24*time.Hour, "retry after 25h0m0s"), cut)},
		{name: "retry after on the last attempt", err: waybill.RetryAfter(time.Minute), attempt: 5, want: dead("retry after 1m0s")},
		{name: "retry after past the bound of deferrals", err: waybill.RetryAfter(time.Minute), giveUp: time.Hour, age: 2 * time.Hour, want: failed(time.Minute, "retry after 1m0s")},
		{name: "retry after less than nothing", err: waybill.RetryAfter(-time.Second), want: failed(halfBackoff, "retry after -1s: the wait is negative")},

		{name: "deferral", err: waybill.Defer(time.Minute), giveUp: time.Hour, want: deferred("deferred for 1m0s")},
		{name: "deferral on the last attempt", err: waybill.Defer(time.Minute), attempt: 5, giveUp: time.Hour, want: deferred("deferred for 1m0s")},
		{name: "deferral, with the reason", err: fmt.Errorf("throttled: %w", waybill.Defer(time.Minute)), giveUp: time.Hour, want: deferred("throttled: deferred for 1m0s")},
		{name: "deferral just before the bound", err: waybill.Defer(time.Minute), giveUp: time.Hour, age: time.Hour - 1, want: deferred("deferred for 1m0s")},
		{name: "deferral at the bound exactly", err: waybill.Defer(time.Minute), giveUp: time.Hour, age: time.Hour,
			want: waybill.Outcome{Status: waybill.Dead, Deferred: true, Error: "given up after 1h0m0s of deferrals (give-up-after 1h0m0s): deferred for 1m0s"}},
		{name: "deferral past the bound", err: fmt.Errorf("throttled: %w", waybill.Defer(time.Minute)), giveUp: time.Hour, age: 90*time.Minute + 400*time.Millisecond,
			want: waybill.Outcome{Status: waybill.Dead, Deferred: true, Error: "given up after 1h30m0s of deferrals (give-up-after 1h0m0s): throttled: deferred for 1m0s"}},
		{name: "deferral spread beyond the longest", err: waybill.Defer(20 * time.Hour), giveUp: 48 * time.Hour, want: deferredFor(20*time.Hour, 24*time.Hour, "deferred for 20h0m0s")},
		{name: "deferral for more than the longest", err: waybill.Defer(30 * time.Hour), giveUp: 48 * time.Hour,
			want: noticed(deferredFor(24*time.Hour, 24*time.Hour, "deferred for 30h0m0s"), cut)},
		{name: "deferral for as long as there is", err: waybill.Defer(math.MaxInt64), giveUp: 48 * time.Hour,
			want: noticed(deferredFor(24*time.Hour, 24*time.Hour, "deferred for 2562047h47m16.854775807s"), cut)},
		{name: "deferral that counts", err: waybill.Defer(time.Minute), want: noticed(failed(time.Minute, "deferred for 1m0s"), uncounted)},
		{name: "deferral that counts, on the last attempt", err: waybill.Defer(time.Minute), attempt: 5, want: noticed(dead("deferred for 1m0s"), uncounted)},
		{name: "deferral that counts, for more than the longest", err: waybill.Defer(30 * time.Hour), want: noticed(failed(24*time.Hour, "deferred for 30h0m0s"), uncounted)},
		{name: "deferral for nothing", err: waybill.Defer(0), giveUp: time.Hour, want: failed(halfBackoff, "defer 0s: the wait must be positive")},
		{name: "deferral for less than nothing", err: waybill.Defer(-time.Second), giveUp: time.Hour, want: failed(halfBackoff, "defer -1s: the wait must be positive")},

		{name: "permanent", err: waybill.Permanent(broken), attempt: 1, want: dead("connection refused")},
		{name: "permanent, wrapped", err: fmt.Errorf("order 7: %w", waybill.Permanent(broken)), attempt: 1, want: dead("order 7: connection refused")},
		{name: "permanent of nothing", err: waybill.Permanent(nil), want: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}},
		{name: "permanent beats a retry", err: waybill.Permanent(waybill.RetryAfter(time.Minute)), attempt: 1, want: dead("retry after 1m0s")},
		{name: "permanent beats a retry, the other way round", err: errors.Join(waybill.RetryAfter(time.Minute), waybill.Permanent(broken)), attempt: 1,
			want: dead("retry after 1m0s\nconnection refused")},
		{name: "permanent beats a deferral", err: waybill.Permanent(waybill.Defer(time.Minute)), giveUp: time.Hour, want: dead("deferred for 1m0s")},

		{name: "text with a NUL", err: errors.New("a\x00b"), want: failed(halfBackoff, "a\uFFFDb")},
		{name: "text that is not UTF-8", err: errors.New("a\xffb"), want: failed(halfBackoff, "a\uFFFDb")},
		{name: "no text", err: errors.New(""), want: failed(halfBackoff, "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.attempt == 0 {
				c.attempt = 3
			}
			receiver := &waybill.Receiver{Options: waybill.Options{
				Backoff: waybill.Backoff{Base: 2 * time.Second, Cap: time.Hour}, GiveUpAfter: c.giveUp,
			}}
			d := &waybill.Delivery{Attempt: c.attempt, MaxAttempts: 5, DueAt: due}
			got := waybill.Judge(receiver, d, c.err, due.Add(c.age), 0.5)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// What was deferred together returns spread over one to two times the wait: never
// earlier than was asked for, never as one wave.
// Trap 26: what was deferred together comes back together, or early.
func TestDeferralIsSpreadUpwards(t *testing.T) {
	t.Parallel()
	receiver := &waybill.Receiver{Options: waybill.Options{GiveUpAfter: time.Hour}}
	for _, c := range []struct {
		random float64
		want   time.Duration
	}{{0, time.Minute}, {0.25, 75 * time.Second}, {math.Nextafter(1, 0), 2 * time.Minute}} {
		got := waybill.Judge(receiver, &waybill.Delivery{DueAt: noon.Time()}, waybill.Defer(time.Minute), noon.Time(), c.random)
		if off := c.want - got.Wait; off < 0 || off > time.Microsecond {
			t.Errorf("at random %g the wait is %s, want %s", c.random, got.Wait, c.want)
		}
	}
}

func TestErrorTextIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       int // bytes that are kept
	}{
		{"short", "connection refused", 18},
		{"the longest", strings.Repeat("x", 2000), 2000},
		{"one more", strings.Repeat("x", 2001), 2000},
		{"much longer", strings.Repeat("x", 1<<20), 2000},
		{"cut inside a character", strings.Repeat("x", 1995) + strings.Repeat("日", 10), 1995 + 3},
		{"longer once it is made valid", strings.Repeat("\x00", 1000), 3*665 + 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := waybill.Judge(&waybill.Receiver{}, &waybill.Delivery{}, waybill.Permanent(errors.New(c.text)), time.Time{}, 0).Error
			if len(got) != c.want {
				t.Errorf("kept %d bytes, want %d", len(got), c.want)
			}
			if !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
				t.Errorf("no database keeps %q", got)
			}
			if cut := len(c.text) != c.want; cut != strings.HasSuffix(got, "…") {
				t.Errorf("text ends in %.12q, although it was cut: %t", got[len(got)-5:], cut)
			}
		})
	}
}

func TestOutcomesWithoutARun(t *testing.T) {
	t.Parallel()
	orphaned := waybill.OrphanedOutcome("ma\x00il")
	if diff := cmp.Diff(waybill.Outcome{Status: waybill.Orphaned, Error: `receiver "ma\x00il" is not declared`}, orphaned); diff != "" {
		t.Errorf("orphaned (-want +got):\n%s", diff)
	}
	parked := waybill.ParkedOutcome(10)
	if parked.Status != waybill.Dead || parked.Attempted || parked.Deferred || !strings.Contains(parked.Error, "10 runs") {
		t.Errorf("parked: %+v, want dead without an attempt, and how many runs were lost", parked)
	}
}

func TestIsPermanent(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {broken, false}, {waybill.RetryAfter(1), false}, {waybill.Permanent(nil), false},
		{waybill.Permanent(broken), true}, {fmt.Errorf("wrapped: %w", waybill.Permanent(broken)), true},
	} {
		if got := waybill.IsPermanent(c.err); got != c.want {
			t.Errorf("%v is permanent: %t, want %t", c.err, got, c.want)
		}
	}
	if err := waybill.Permanent(broken); !errors.Is(err, broken) {
		t.Errorf("%v does not wrap its cause", err)
	}
}

func TestStatusOwed(t *testing.T) {
	t.Parallel()
	for status, want := range map[waybill.Status]bool{
		waybill.Pending: true, waybill.Claimed: true, waybill.Failed: true,
		waybill.Succeeded: false, waybill.Dead: false, waybill.Orphaned: false, waybill.Cancelled: false,
	} {
		if got := status.Owed(); got != want {
			t.Errorf("%s is owed: %t, want %t", status, got, want)
		}
	}
}

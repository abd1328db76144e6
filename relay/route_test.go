package relay

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
)

// room is a queue that holds so many messages.
type room int

func (r room) Enqueue(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	return waybill.AllResults(len(messages), waybill.EnqueueAccepted, nil), nil
}
func (r room) Room() int              { return int(r) }
func (r room) Freed() <-chan struct{} { return nil }

func TestOutageWaitDoublesUpToItsCap(t *testing.T) {
	t.Parallel()
	for i, want := range []time.Duration{1, 2, 4, 8, 15, 15, 15} {
		failures, want := i+1, want*time.Second
		for range 200 {
			if got := outageWait(failures); got > want || got < want*3/4 {
				t.Fatalf("wait %s after %d failures, want %s or up to a quarter less", got, failures, want)
			}
		}
	}
	if got := outageWait(1_000_000); got > outageCap {
		t.Errorf("wait %s after a million failures, want at most %s", got, outageCap)
	}
}

func TestRefusedRowsWaitLongerEachTime(t *testing.T) {
	t.Parallel()
	r := newRoute(waybill.SiteTask, room(1))
	for i, want := range []time.Duration{1, 2, 4, 8, 15, 15} {
		if got := r.refused(7); got != want*time.Second {
			t.Errorf("refusal %d: %s, want %ds", i+1, got, want)
		}
	}
	if got := r.refused(8); got != time.Second {
		t.Errorf("first refusal of another row: %s, want 1s", got)
	}
}

func TestMemoryOfRefusedRowsIsBounded(t *testing.T) {
	t.Parallel()
	r := newRoute(waybill.SiteTask, room(1))
	for id := range int64(3 * maxRefusals) {
		r.refused(id)
	}
	if len(r.refusals) > maxRefusals {
		t.Errorf("%d refused rows are remembered, want at most %d", len(r.refusals), maxRefusals)
	}
}

func TestRouteLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRoute(waybill.SiteTask, room(30))
		want := func(when string, batch, want int) {
			t.Helper()
			if got := r.limit(batch); got != want {
				t.Errorf("%s: limit(%d) is %d, want %d", when, batch, got, want)
			}
		}
		want("room for less than a batch", 100, 30)
		want("room for more", 20, 20)
		want("nothing wanted", 0, 0)
		wait := r.failed(errors.New("gone"))
		want("down", 100, 0)
		time.Sleep(wait - time.Nanosecond)
		want("shortly before the next try", 100, 0)
		time.Sleep(time.Nanosecond)
		want("at the next try", 100, 1)
		want("at the next try, nothing wanted", 0, 0)
		r.recovered()
		want("well again", 100, 30)
	})
}

func TestNoBackendRefusesAndNamesTheSite(t *testing.T) {
	t.Parallel()
	r := newRoute(waybill.SiteRelay, nil)
	results, err := r.backend.Enqueue(t.Context(), make([]waybill.Message, 3))
	if err == nil || !strings.Contains(err.Error(), "no backend for site=relay") {
		t.Errorf("error %v, want one that names site=relay", err)
	}
	if len(results) != 3 {
		t.Fatalf("%d results, want 3", len(results))
	}
	for _, result := range results {
		if result.Status != waybill.EnqueueRefused || result.Err == nil {
			t.Errorf("result %v %v, want refused with a reason", result.Status, result.Err)
		}
	}
}

func TestUnknownReceiversKeepTheirAgeWhileTheyAreSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const forget = time.Minute
		u := unknownReceivers{}
		note := func(receiver string, wantAge time.Duration, wantFirst bool) {
			t.Helper()
			if age, first := u.note(receiver, time.Now(), forget); age != wantAge || first != wantFirst {
				t.Errorf("%s: age %s, first %t; want %s, %t", receiver, age, first, wantAge, wantFirst)
			}
		}
		note("gone", 0, true)
		note("other", 0, true)
		time.Sleep(forget)
		note("gone", forget, false)
		time.Sleep(forget)
		note("gone", 2*forget, false)
		if len(u) != 1 {
			t.Errorf("%d receivers are remembered, want 1: the other was not seen again", len(u))
		}
		time.Sleep(forget + 1)
		note("gone", 0, true)
	})
}

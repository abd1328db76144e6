package waybill_test

import (
	"math"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

func TestBackoffCeilingDoublesUpToTheCap(t *testing.T) {
	t.Parallel()
	standard := waybill.Backoff{Base: waybill.DefaultBackoffBase, Cap: waybill.DefaultBackoffCap}
	for _, c := range []struct {
		name    string
		backoff waybill.Backoff
		attempt int
		want    time.Duration
	}{
		{"before the first", standard, 0, 2 * time.Second},
		{"first", standard, 1, 2 * time.Second},
		{"second", standard, 2, 4 * time.Second},
		{"third", standard, 3, 8 * time.Second},
		{"last below the cap", standard, 11, 2048 * time.Second},
		{"first at the cap", standard, 12, time.Hour},
		{"attempt 64, where a shift would wrap", standard, 64, time.Hour},
		{"attempt 10,000", standard, 10_000, time.Hour},
		{"the largest attempt", standard, math.MaxInt, time.Hour},
		{"cap that doubling hits exactly", waybill.Backoff{Base: time.Second, Cap: 8 * time.Second}, 4, 8 * time.Second},
		{"and after it", waybill.Backoff{Base: time.Second, Cap: 8 * time.Second}, 5, 8 * time.Second},
		{"cap between two doublings", waybill.Backoff{Base: time.Second, Cap: 7 * time.Second}, 4, 7 * time.Second},
		{"constant", waybill.Backoff{Base: time.Minute, Cap: time.Minute}, 9, time.Minute},
		{"cap below the base, unchecked", waybill.Backoff{Base: time.Minute, Cap: time.Second}, 1, time.Second},
		{"the largest cap", waybill.Backoff{Base: time.Second, Cap: math.MaxInt64}, 10_000, math.MaxInt64},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.backoff.Ceiling(c.attempt); got != c.want {
				t.Errorf("ceiling after attempt %d is %s, want %s", c.attempt, got, c.want)
			}
		})
	}
}

// Full jitter: the wait is spread over the whole range below the ceiling.
func TestBackoffWaitIsAShareOfTheCeiling(t *testing.T) {
	t.Parallel()
	backoff := waybill.Backoff{Base: 2 * time.Second, Cap: time.Hour}
	for _, c := range []struct {
		attempt int
		random  float64
		want    time.Duration
	}{
		{1, 0, 0}, {1, 0.25, 500 * time.Millisecond}, {1, 0.5, time.Second},
		{3, 0.5, 4 * time.Second}, {10_000, 0.5, 30 * time.Minute}, {10_000, 0, 0},
	} {
		if got := backoff.Wait(c.attempt, c.random); got != c.want {
			t.Errorf("wait after attempt %d at %g is %s, want %s", c.attempt, c.random, got, c.want)
		}
	}
	almost := math.Nextafter(1, 0)
	for attempt := range 40 {
		if got, ceiling := backoff.Wait(attempt, almost), backoff.Ceiling(attempt); got > ceiling || got < ceiling-time.Microsecond {
			t.Errorf("longest wait after attempt %d is %s, want the ceiling %s", attempt, got, ceiling)
		}
	}
}

func TestBackoffDeclaredByHalves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		declared, want waybill.Backoff
	}{
		{"nothing", waybill.Backoff{}, waybill.Backoff{Base: 2 * time.Second, Cap: time.Hour}},
		{"base", waybill.Backoff{Base: time.Minute}, waybill.Backoff{Base: time.Minute, Cap: time.Hour}},
		{"base above the default cap", waybill.Backoff{Base: 3 * time.Hour}, waybill.Backoff{Base: 3 * time.Hour, Cap: 3 * time.Hour}},
		{"cap", waybill.Backoff{Cap: time.Minute}, waybill.Backoff{Base: 2 * time.Second, Cap: time.Minute}},
		{"cap below the default base", waybill.Backoff{Cap: time.Second}, waybill.Backoff{Base: time.Second, Cap: time.Second}},
		{"both", waybill.Backoff{Base: 1, Cap: 2}, waybill.Backoff{Base: 1, Cap: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			reg := waybill.NewRegistry()
			reg.Add(waybill.Receiver{Key: "r", Event: "e", Run: ignoreAny, Options: waybill.Options{Backoff: c.declared}})
			receiver, ok := reg.Receiver("r")
			if !ok {
				t.Fatal(reg.Err())
			}
			if receiver.Backoff != c.want {
				t.Errorf("backoff %+v, want %+v", receiver.Backoff, c.want)
			}
		})
	}
}

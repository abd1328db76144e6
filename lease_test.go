package waybill_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

// TestStampedLease is the table of docs/operations.md, whatever set of receivers it
// is asked about: those of a lane, those in no named lane, or all of some other kind.
func TestStampedLease(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, c := range []struct {
		name  string
		needs []time.Duration
		want  time.Duration
	}{
		{"a lane that nobody is in", nil, 330 * s},
		{"a lane whose receivers declare none", []time.Duration{300 * s, 300 * s, 300 * s}, 330 * s},
		{"a lane of 15 minutes: the rows are extended, and not the claim", []time.Duration{900 * s, 900 * s}, 330 * s},
		{"every lane at once", []time.Duration{60 * s, 300 * s, 1800 * s}, 330 * s},
		{"the receivers whose first run is in the firing process, whatever their lanes", []time.Duration{30 * s, 30 * s}, 33 * s},
		{"all 60 s", []time.Duration{60 * s, 60 * s}, 66 * s},
		{"the default itself", []time.Duration{300 * s}, 330 * s},
		{"longer than the default", []time.Duration{1800 * s}, 330 * s},
		{"mixed", []time.Duration{60 * s, 120 * s}, 330 * s},
		{"mixed, in the other order", []time.Duration{120 * s, 60 * s, 60 * s}, 330 * s},
		{"a tenth that floats would miss", []time.Duration{70 * time.Millisecond}, 77 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := waybill.StampedLease(300*s, c.needs); got != c.want {
				t.Errorf("stamped %s, want %s", got, c.want)
			}
		})
	}
}

func TestNeedsExtension(t *testing.T) {
	t.Parallel()
	const need = time.Minute
	for _, c := range []struct {
		name    string
		stamped time.Duration
		want    bool
	}{
		{"just below the need", need - 1, true},
		{"the need itself", need, false},
		{"within the tenth", need + 3*time.Second, false},
		{"the whole tenth", need + 6*time.Second, false},
		{"just above the tenth", need + 6*time.Second + 1, true},
		{"the longest of a mixed lane", 330 * time.Second, true},
		{"what a claim for this receiver alone stamps", waybill.StampedLease(300*time.Second, []time.Duration{need}), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := waybill.NeedsExtension(c.stamped, need); got != c.want {
				t.Errorf("stamped %s for a need of %s, extension needed: %t, want %t", c.stamped, need, got, c.want)
			}
		})
	}
}

func TestLeaseMargin(t *testing.T) {
	t.Parallel()
	for lease, want := range map[time.Duration]time.Duration{
		time.Second: 100 * time.Millisecond, 30 * time.Second: 3 * time.Second, 50 * time.Second: 5 * time.Second,
		51 * time.Second: 5 * time.Second, time.Hour: 5 * time.Second,
	} {
		if got := waybill.LeaseMargin(lease); got != want {
			t.Errorf("margin of %s is %s, want %s", lease, got, want)
		}
	}
}

var heldRow = waybill.Message{DeliveryID: 42, Claim: waybill.Claim{By: "worker:1", At: noon}}

// endsAfter waits for ctx and fails unless it ends just then, for that cause.
func endsAfter(t *testing.T, ctx context.Context, start time.Time, want time.Duration, cause error) {
	t.Helper()
	<-ctx.Done()
	if got := time.Since(start); got != want {
		t.Errorf("ended after %s, want %s", got, want)
	}
	if got := context.Cause(ctx); !errors.Is(got, cause) {
		t.Errorf("ended because of %v, want %v", got, cause)
	}
}

func TestLeaseEndsTheRunAtItsMargin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		lease, want time.Duration
		late        time.Duration // the answer to the request took that long
	}{
		{"a tenth before", 30 * time.Second, 27 * time.Second, 0},
		{"at most 5 s before", 5 * time.Minute, 295 * time.Second, 0},
		{"counted from the request", 30 * time.Second, 27 * time.Second, 20 * time.Second},
		{"at once, if the answer came too late", 30 * time.Second, 29 * time.Second, 29 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requested := time.Now()
				time.Sleep(c.late)
				lease := waybill.NewLease(requested, heldRow, c.lease)
				if got, want := lease.Deadline().Sub(requested), c.lease-waybill.LeaseMargin(c.lease); got != want {
					t.Errorf("deadline %s after the request, want %s", got, want)
				}
				ctx, stop := lease.Context(t.Context())
				defer stop()
				if _, ok := ctx.Deadline(); ok {
					t.Error("the context has a fixed deadline, which no extension could move")
				}
				endsAfter(t, ctx, requested, c.want, waybill.ErrLeaseLost)
			})
		})
	}
}

func TestLeaseEndsWithItsParent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancelCause(t.Context())
		start := time.Now()
		ctx, stop := waybill.NewLease(start, heldRow, time.Minute).Context(parent)
		defer stop()
		time.AfterFunc(10*time.Second, func() { cancel(waybill.ErrStopping) })
		endsAfter(t, ctx, start, 10*time.Second, waybill.ErrStopping)
	})
}

// A run that returned is not told, later, that it lost its lease.
func TestLeaseReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, stop := waybill.NewLease(start, heldRow, time.Minute).Context(t.Context())
		time.Sleep(time.Second)
		stop()
		endsAfter(t, ctx, start, time.Second, context.Canceled)
		stop()
		time.Sleep(time.Hour)
		if cause := context.Cause(ctx); cause != context.Canceled {
			t.Errorf("an hour later the cause is %v", cause)
		}
	})
}

// A worker runs thousands of deliveries within one lease: each must be forgotten
// when it is over, and not when its timer would have fired.
func TestReleaseStopsTheTimer(t *testing.T) {
	t.Parallel()
	const runs = 1000
	alive := func(release bool) func() int {
		leases := make([]weak.Pointer[waybill.Lease], runs)
		for i := range leases {
			lease := waybill.NewLease(time.Now(), heldRow, time.Hour)
			_, stop := lease.Context(context.Background())
			if release {
				stop()
			} else {
				t.Cleanup(stop)
			}
			leases[i] = weak.Make(lease)
		}
		return func() (n int) {
			runtime.GC()
			for _, lease := range leases {
				if lease.Value() != nil {
					n++
				}
			}
			return n
		}
	}
	released, held := alive(true), alive(false)
	deadline := time.Now().Add(10 * time.Second)
	for released() > runs/10 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if n := released(); n > runs/10 {
		t.Errorf("%d of %d released leases are still held by their timers", n, runs)
	}
	if n := held(); n != runs {
		t.Errorf("%d of %d leases that are in use are alive: the test shows nothing", n, runs)
	}
}

// extender is the part of a store that a heartbeat uses, by a function of the time
// since the start.
type extender struct {
	start  time.Time
	answer func(ctx context.Context, after time.Duration) error // nil: extended
	asked  []time.Duration
	got    []waybill.Extension
}

var errRefused = errors.New("the row is under another claim")

func (e *extender) Extend(ctx context.Context, rows []waybill.Extension) ([]int64, error) {
	after := time.Since(e.start)
	e.asked = append(e.asked, after)
	e.got = append(e.got, rows...)
	switch err := e.answer(ctx, after); {
	case errors.Is(err, errRefused):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []int64{heldRow.DeliveryID}, nil
}

// keep runs a lease of a minute under a heartbeat until its context ends, or until
// the end, and returns the context, what was asked and what was told.
func keep(t *testing.T, end time.Duration, answer func(context.Context, time.Duration) error) (context.Context, *extender, []error) {
	t.Helper()
	store := &extender{start: time.Now(), answer: answer}
	lease := waybill.NewLease(store.start, heldRow, time.Minute)
	ctx, stop := lease.Context(t.Context())
	timer := time.AfterFunc(end, stop)
	defer timer.Stop()
	var beats []error
	lease.Keep(ctx, store, func(err error) { beats = append(beats, err) })
	if ctx.Err() == nil {
		t.Error("the heartbeat ended before its run")
	}
	return ctx, store, beats
}

func TestKeepExtendsAtEachThird(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, store, beats := keep(t, 2*time.Hour+time.Second, func(context.Context, time.Duration) error { return nil })
		endsAfter(t, ctx, start, 2*time.Hour+time.Second, context.Canceled)
		const want = 360 // 2 h at a third of a minute
		if len(store.asked) != want || len(beats) != want {
			t.Fatalf("extended %d times and told of %d, want %d", len(store.asked), len(beats), want)
		}
		for i, after := range store.asked {
			if due := time.Duration(i+1) * 20 * time.Second; after != due || beats[i] != nil {
				t.Fatalf("extension %d came after %s with %v, want %s", i+1, after, beats[i], due)
			}
			if diff := cmp.Diff(waybill.Extension{Message: heldRow, Lease: time.Minute}, store.got[i]); diff != "" {
				t.Fatalf("extension %d (-want +got):\n%s", i+1, diff)
			}
		}
	})
}

func TestKeepGivesUpAtTheMarginWhenTheStoreIsDown(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	for _, c := range []struct {
		name  string
		since time.Duration // from then on the store does not extend
		hangs bool          // it does not answer at all
		want  time.Duration // the margin after the last extension was asked for
	}{
		{"from the start", 0, false, 55 * time.Second},
		{"later", 90 * time.Second, false, 80*time.Second + 55*time.Second},
		{"silent from the start", 0, true, 55 * time.Second},
		{"silent later", 90 * time.Second, true, 80*time.Second + 55*time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, _, beats := keep(t, time.Hour, func(ctx context.Context, after time.Duration) error {
					if after < c.since {
						return nil
					}
					if c.hangs {
						<-ctx.Done()
						return ctx.Err()
					}
					return down
				})
				endsAfter(t, ctx, start, c.want, waybill.ErrLeaseLost)
				if !c.hangs && (len(beats) == 0 || !errors.Is(beats[len(beats)-1], down)) {
					t.Errorf("told of %v, want the store's error", beats)
				}
			})
		})
	}
}

// An outage that is shorter than what is left of the lease costs nothing: the store
// is asked again soon, and not only at the next third.
func TestKeepOutlastsAShortOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, store, _ := keep(t, 5*time.Minute, func(_ context.Context, after time.Duration) error {
			if 20*time.Second <= after && after < 50*time.Second {
				return errors.New("connection refused")
			}
			return nil
		})
		endsAfter(t, ctx, start, 5*time.Minute, context.Canceled)
		want := []time.Duration{20, 25, 30, 35, 40, 45, 50, 70, 90}
		for i, after := range want {
			if store.asked[i] != after*time.Second {
				t.Fatalf("asked after %v, want %d s and so on", store.asked[:len(want)], want)
			}
		}
	})
}

// A slow answer does not lengthen the lease: it counts from when it was asked for.
func TestKeepCountsFromTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, _, _ := keep(t, time.Hour, func(ctx context.Context, after time.Duration) error {
			if after > 20*time.Second {
				return errors.New("connection refused")
			}
			time.Sleep(30 * time.Second)
			return nil
		})
		endsAfter(t, ctx, start, 20*time.Second+55*time.Second, waybill.ErrLeaseLost)
	})
}

func TestKeepEndsTheRunOnceTheClaimIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, store, _ := keep(t, time.Hour, func(_ context.Context, after time.Duration) error {
			if after < time.Minute {
				return nil
			}
			return errRefused
		})
		endsAfter(t, ctx, start, time.Minute, waybill.ErrLeaseLost)
		if got := len(store.asked); got != 3 {
			t.Errorf("the store was asked %d times, want 3: the third refused", got)
		}
	})
}

// A heartbeat never outlives its run, wherever it is when that returns.
func TestKeepEndsWithTheRun(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Duration{time.Second, 20 * time.Second, 21 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			ctx, _, beats := keep(t, at, func(ctx context.Context, _ time.Duration) error {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(2 * time.Second):
					return nil
				}
			})
			endsAfter(t, ctx, start, at, context.Canceled)
			if got := time.Since(start); got != at || len(beats) != 0 {
				t.Errorf("the heartbeat ended after %s and told of %v, want %s and nothing", got, beats, at)
			}
		})
	}
}

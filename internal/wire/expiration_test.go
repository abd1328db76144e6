package wire

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
)

var noRun = func(context.Context, *waybill.Delivery) error { return nil }

// A message is of use until its row is claimed again: for its hand-off lease, the
// lane's or its receiver's own, and with the window for as long as that keeps lapsed
// rows back.
func TestExpiration(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	for key, options := range map[string]waybill.Options{
		"own": {Lane: "own", Lease: time.Minute}, "longer": {Lane: "own", Lease: time.Hour},
		"deep": {Lane: "deep", Lease: time.Minute}, "slow": {Lane: "slow", Lease: time.Hour},
		"ages": {Lane: "ages", Lease: math.MaxInt64},
	} {
		waybill.OnAny(reg, key, noRun, options)
	}
	reg.AddLane("deep", waybill.LaneOptions{HandOffLease: 25 * time.Minute})
	reg.AddLane("slow", waybill.LaneOptions{HandOffLease: time.Minute})
	reg.AddLane("empty", waybill.LaneOptions{HandOffLease: time.Minute})
	for lane, want := range map[string]struct{ on, off time.Duration }{
		"own": {20 * time.Hour, time.Hour}, "deep": {500 * time.Minute, 25 * time.Minute}, "slow": {20 * time.Minute, time.Minute},
		"ages": {0, math.MaxInt64}, "empty": {0, 0},
	} {
		on, off := BackendConfig{Registry: reg}.expiration(lane), BackendConfig{Registry: reg, WindowOff: true}.expiration(lane)
		if on != want.on || off != want.off {
			t.Errorf("lane %s: %s with the window on, and %s with it off; want %s and %s", lane, on, off, want.on, want.off)
		}
	}
	if none := (BackendConfig{}).expiration("own"); none != 0 {
		t.Errorf("%s without a registry, want never", none)
	}
}

// A message that nobody takes leaves the queue when it cannot be of use any more, and
// no sooner.
func TestMessagesExpireWithTheirLease(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	waybill.OnAny(reg, "soon", noRun, waybill.Options{Lane: "short", Lease: 50 * time.Millisecond})
	waybill.OnAny(reg, "later", noRun, waybill.Options{Lane: "short", Lease: time.Second})
	waybill.OnAny(reg, "runs long", noRun, waybill.Options{Lane: "quick", Lease: time.Hour})
	reg.AddLane("quick", waybill.LaneOptions{HandOffLease: 50 * time.Millisecond})
	waybill.OnAny(reg, "much later", noRun, waybill.Options{Lane: "long", Lease: time.Hour})
	for name, expiring := range map[string][]string{"window off": {"short", "quick"}, "window on": {"quick"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backend, err := OpenBackend(BackendConfig{URL: services.RabbitMQ(t), Registry: reg, WindowOff: name == "window off"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(backend.Close)
			ready := map[string]func() int64{}
			for _, lane := range append([]string{"long"}, expiring...) {
				ready[lane] = sendOne(t, backend, lane)
			}
			for _, lane := range expiring {
				poll.Until(t, "the message of lane "+lane+" expires", func() bool { return ready[lane]() == 0 })
			}
			if n := ready["long"](); n != 1 {
				t.Errorf("%d messages are in the long lane, want the 1 that can still be of use", n)
			}
		})
	}
}

// sendOne sends a message and returns how many are in the queue.
func sendOne(t *testing.T, backend Backend, lane string) (ready func() int64) {
	t.Helper()
	queue, err := backend.Queue(lane)
	if err != nil {
		t.Fatal(err)
	}
	message := waybill.Message{DeliveryID: 1, Claim: waybill.Claim{By: "relay:1:ab", At: 1}}
	results, err := queue.Enqueue(t.Context(), []waybill.Message{message})
	if err != nil || results[0].Status != waybill.EnqueueAccepted {
		t.Fatalf("enqueue: %v, %v", results, err)
	}
	return func() int64 {
		backlog, err := queue.(waybill.BacklogReader).Backlog(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n, _ := backlog.Ready.Value() // unknown is what an empty quorum queue is
		return n
	}
}

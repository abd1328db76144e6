package waybill_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

// threeLanes declares receivers in the lanes default, bulk and mail.
func threeLanes(t *testing.T) *waybill.Registry {
	t.Helper()
	reg := orders(t)
	add := func(key, lane string, lease time.Duration) {
		waybill.On(reg, key, ignore, waybill.Options{Lane: lane, Lease: lease})
	}
	add("z.receipt", "mail", time.Minute)
	add("stock", "", 0)
	add("a.receipt", "mail", 2*time.Minute)
	add("export", "bulk", time.Hour)
	add("audit", "default", 3*time.Minute)
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	return reg
}

// Trap 65: a second receiver of one key that takes the place of the first.
func TestRegistryRefusesAKeyTwice(t *testing.T) {
	t.Parallel()
	reg := orders(t, "mail")
	waybill.On(reg, "mail", ignore, waybill.Options{Lane: "other"})
	wantErrSays(t, reg.Err(), `receiver "mail": that key is declared already; every receiver needs its own`)
	if receiver, _ := reg.Receiver("mail"); receiver.Lane != waybill.DefaultLane {
		t.Errorf("the second declaration replaced the first: lane %q", receiver.Lane)
	}
	if got := len(reg.Receivers()); got != 1 {
		t.Errorf("there are %d receivers, want 1", got)
	}
}

func TestRegistryRefusesAReceiverOfAnUndeclaredType(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	waybill.On(reg, "mail", ignore, waybill.Options{})
	waybill.OnTx(reg, "stock", "pgx.Tx", func(context.Context, any, orderShipped) error { return nil }, waybill.Options{})
	wantErrSays(t, reg.Err(), `receiver "mail": waybill_test.orderPlaced is not a declared event; call waybill.Declare[orderPlaced] first`,
		`receiver "stock"`, "call waybill.Declare[orderShipped]")
	if got := reg.Receivers(); len(got) != 0 {
		t.Errorf("%d receivers were registered all the same", len(got))
	}
}

func TestRegistryRefusesTargetsOfAnotherType(t *testing.T) {
	t.Parallel()
	reg := orders(t)
	waybill.On(reg, "fan", ignore, waybill.Options{
		Targets: waybill.TargetsOf(func(context.Context, orderShipped) ([]string, error) { return nil, nil }),
	})
	wantErrSays(t, reg.Err(), `receiver "fan": its targets take a waybill_test.orderShipped, the receiver a waybill_test.orderPlaced`)
	if _, ok := reg.Receiver("fan"); ok {
		t.Error("it was registered all the same")
	}
}

func TestRegistryLanes(t *testing.T) {
	t.Parallel()
	reg := threeLanes(t)
	if diff := cmp.Diff([]string{"bulk", "default", "mail"}, reg.Lanes()); diff != "" {
		t.Errorf("lanes (-want +got):\n%s", diff)
	}
	for lane, want := range map[string][]string{
		"default": {"audit", "stock"}, "mail": {"a.receipt", "z.receipt"}, "bulk": {"export"}, "none": {},
	} {
		if diff := cmp.Diff(want, waybill.Keys(reg.LaneReceivers(lane))); diff != "" {
			t.Errorf("receivers of lane %s (-want +got):\n%s", lane, diff)
		}
	}
	if diff := cmp.Diff([]string{"a.receipt", "export", "z.receipt"}, reg.NamedKeys()); diff != "" {
		t.Errorf("keys of named lanes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"z.receipt", "stock", "a.receipt", "export", "audit"}, waybill.Keys(reg.Receivers())); diff != "" {
		t.Errorf("receivers in order of declaration (-want +got):\n%s", diff)
	}
	wantLeases := []waybill.ReceiverLease{
		{Receiver: "a.receipt", Lane: "mail", Lease: 2 * time.Minute}, {Receiver: "audit", Lane: "default", Lease: 3 * time.Minute},
		{Receiver: "export", Lane: "bulk", Lease: time.Hour}, {Receiver: "stock", Lane: "default", Lease: waybill.DefaultLease},
		{Receiver: "z.receipt", Lane: "mail", Lease: time.Minute},
	}
	if diff := cmp.Diff(wantLeases, reg.Leases()); diff != "" {
		t.Errorf("leases (-want +got):\n%s", diff)
	}
}

func TestRegistryWithoutReceiversHasTheDefaultLane(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	if diff := cmp.Diff([]string{"default"}, reg.Lanes()); diff != "" {
		t.Errorf("lanes (-want +got):\n%s", diff)
	}
	if err := reg.CheckLane("default"); err != nil {
		t.Error(err)
	}
}

func TestCheckLaneNamesTheDeclaredOnes(t *testing.T) {
	t.Parallel()
	reg := threeLanes(t)
	for _, lane := range []string{"default", "mail", "bulk"} {
		if err := reg.CheckLane(lane); err != nil {
			t.Errorf("lane %s: %v", lane, err)
		}
	}
	for _, lane := range []string{"maill", "", "Mail"} {
		wantErrSays(t, reg.CheckLane(lane), fmt.Sprintf("unknown lane %q; declared: bulk, default, mail", lane))
	}
}

// What a caller does to what it was given is no business of the registry.
func TestRegistryHandsOutCopies(t *testing.T) {
	t.Parallel()
	reg := threeLanes(t)
	clear(reg.Receivers())
	clear(reg.LaneReceivers("mail"))
	clear(reg.Leases())
	if diff := cmp.Diff([]string{"a.receipt", "z.receipt"}, waybill.Keys(reg.LaneReceivers("mail"))); diff != "" {
		t.Errorf("receivers of lane mail (-want +got):\n%s", diff)
	}
}

func TestRegistryIsSafeForManyGoroutines(t *testing.T) {
	t.Parallel()
	reg := orders(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				waybill.On(reg, fmt.Sprintf("r.%d.%d", i, j), ignore, waybill.Options{Lane: fmt.Sprintf("lane%d", i)})
				plan(t, reg, orderPlaced{})
				reg.Lanes()
				reg.Leases()
			}
		})
	}
	wg.Wait()
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	if got := len(plan(t, reg, orderPlaced{}).Deliveries); got != 160 {
		t.Errorf("%d deliveries, want 160", got)
	}
}

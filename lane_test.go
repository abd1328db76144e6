package waybill_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

// A lane without a hand-off lease leaves each receiver its own; one with it has that
// for all, whether it is declared before its receivers or after them. Their runs keep
// their own leases.
func TestHandOffLeaseIsTheLanes(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	add := func(key, lane string, site waybill.Site, lease time.Duration) {
		waybill.On(reg, key, ignore, waybill.Options{Lane: lane, Site: site, Lease: lease})
	}
	reg.AddLane("deep", waybill.LaneOptions{HandOffLease: 25 * time.Minute})
	add("receipt", "deep", "", time.Minute)
	add("export", "slow", "", time.Hour)
	reg.AddLane("slow", waybill.LaneOptions{HandOffLease: time.Minute})
	add("stock", "", "", 0)
	add("near", "", waybill.SiteRelay, time.Second)
	add("audit", "", "", 3*time.Minute)
	add("crm", "plain", "", 2*time.Minute)
	reg.AddLane("plain", waybill.LaneOptions{})
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	got, own := map[string]time.Duration{}, map[string]time.Duration{}
	for _, receiver := range reg.Receivers() {
		got[receiver.Key] = reg.HandOffLease(receiver)
	}
	for _, lease := range reg.Leases() {
		own[lease.Receiver] = lease.Lease
	}
	if diff := cmp.Diff(map[string]time.Duration{
		"receipt": 25 * time.Minute, "export": time.Minute, "stock": waybill.DefaultLease, "near": time.Second, "audit": 3 * time.Minute,
		"crm": 2 * time.Minute,
	}, got); diff != "" {
		t.Errorf("hand-off leases (-want +got):\n%s", diff)
	}
	if own["receipt"] != time.Minute || own["export"] != time.Hour {
		t.Errorf("a take stamps %v", own)
	}
	for _, c := range []struct {
		lane string
		site waybill.Site
		want time.Duration
	}{
		{"deep", waybill.SiteTask, 25 * time.Minute}, {"slow", waybill.SiteTask, time.Minute}, {"plain", waybill.SiteTask, 2 * time.Minute},
		{"default", waybill.SiteTask, 3 * time.Minute}, {"default", waybill.SiteRelay, time.Second},
		{"deep", waybill.SiteRelay, waybill.DefaultLease}, {"none", waybill.SiteTask, waybill.DefaultLease},
	} {
		if got := reg.LaneHandOffLease(c.lane, c.site); got != c.want {
			t.Errorf("the shortest of lane %s, site %s: %s, want %s", c.lane, c.site, got, c.want)
		}
	}
}

// The last receiver moves to another lane, and the relay of the lane still starts.
func TestLaneExistsWithoutReceivers(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	reg.AddLane("mail", waybill.LaneOptions{})
	if diff := cmp.Diff([]string{"default", "mail"}, reg.Lanes()); diff != "" {
		t.Errorf("lanes (-want +got):\n%s", diff)
	}
	if err := reg.CheckLane("mail"); err != nil {
		t.Error(err)
	}
	if _, ok := reg.Lane("mail"); !ok {
		t.Error("lane mail is not declared")
	}
	if _, ok := reg.Lane("default"); ok {
		t.Error("the default lane counts as declared")
	}
}

func TestLaneIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lane  string
		lease time.Duration
		want  string
	}{
		{"", 0, `lane "": must be lower-case letters and digits, with single - or _ between them`},
		{"Mail", 0, `lane "Mail": must be lower-case letters and digits`},
		{"mail", -time.Minute, `lane "mail": hand-off lease -1m0s must be at least 1µs`},
		{"mail", time.Nanosecond, `lane "mail": hand-off lease 1ns must be at least 1µs`},
	} {
		reg := waybill.NewRegistry()
		reg.AddLane(c.lane, waybill.LaneOptions{HandOffLease: c.lease})
		wantErrSays(t, reg.Err(), c.want)
		if _, ok := reg.Lane(c.lane); ok {
			t.Errorf("lane %q was declared all the same", c.lane)
		}
	}
	reg := waybill.NewRegistry()
	reg.AddLane("mail", waybill.LaneOptions{HandOffLease: time.Microsecond})
	reg.AddLane("mail", waybill.LaneOptions{HandOffLease: time.Hour})
	wantErrSays(t, reg.Err(), `lane "mail": it is declared already; every lane has one declaration`)
	if lane, _ := reg.Lane("mail"); lane.HandOffLease != time.Microsecond {
		t.Errorf("the second declaration replaced the first: %s", lane.HandOffLease)
	}
}

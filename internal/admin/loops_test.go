package admin_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/admin"
)

func TestARelayThatDoesNotMoveIsNotLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var loops admin.Loops
		if err := loops.Live(); err != nil {
			t.Errorf("a process without relays: %v", err)
		}
		loops.Add("mail", time.Second)
		loops.Add("crm", time.Hour)
		// An outage of an hour: each pass fails after ten seconds, and waits fifteen.
		for range 144 {
			time.Sleep(25 * time.Second)
			loops.Observe(waybill.Observation{Kind: waybill.ObservedPass, Lane: "mail", Err: errors.New("nobody answers")})
			if err := loops.Live(); err != nil {
				t.Fatalf("in an outage: %v", err)
			}
		}
		loops.Observe(waybill.Observation{Kind: waybill.ObservedClaim, Lane: "mail", Count: 1})
		loops.Observe(waybill.Observation{Kind: waybill.ObservedGiveBack, Lane: "crm", Count: 1})
		loops.Observe(waybill.Observation{Kind: waybill.ObservedPass, Lane: "unknown"})
		time.Sleep(admin.StepBound)
		// What a worker does is no sign of a relay.
		loops.Observe(waybill.Observation{Kind: waybill.ObservedTake, Lane: "mail"})
		if err := loops.Live(); err != nil {
			t.Errorf("within the bound: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err, want := loops.Live(), "relay of lane mail: has not moved for 2m2s"; err == nil || err.Error() != want {
			t.Errorf("live says %v, want %s", err, want)
		}
		loops.Observe(waybill.Observation{Kind: waybill.ObservedEnqueue, Lane: "mail"})
		if err := loops.Live(); err != nil {
			t.Errorf("when it moves again: %v", err)
		}
	})
}

package waybill_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

// Traps 26 and 27: the pause is for what was asked for, not for the spread wait of
// the row, and a run that is no deferral, or is one of a fan-out, makes none.
func TestDeferralPausesItsLane(t *testing.T) {
	t.Parallel()
	receiver := &waybill.Receiver{Key: "crm.notify", Options: waybill.Options{Lane: "crm", GiveUpAfter: 48 * time.Hour}}
	counting := &waybill.Receiver{Key: "crm.notify", Options: waybill.Options{Lane: "crm"}}
	for _, c := range []struct {
		name     string
		receiver *waybill.Receiver
		target   string
		age      time.Duration
		err      error
		want     time.Duration
	}{
		{name: "deferral", receiver: receiver, err: waybill.Defer(time.Minute), want: time.Minute},
		{name: "deferral that is clamped", receiver: receiver, err: waybill.Defer(30 * time.Hour), want: 24 * time.Hour},
		{name: "deferral of a target", receiver: receiver, target: "https://a.example", err: waybill.Defer(time.Minute)},
		{name: "deferral that counts", receiver: counting, err: waybill.Defer(time.Minute)},
		{name: "deferral past the bound", receiver: receiver, age: 48 * time.Hour, err: waybill.Defer(time.Minute)},
		{name: "retry after", receiver: receiver, err: waybill.RetryAfter(time.Minute)},
		{name: "success", receiver: receiver},
	} {
		d := &waybill.Delivery{ID: 42, Target: c.target, Attempt: 1, MaxAttempts: 5, DueAt: noon.Time()}
		out := waybill.Judge(c.receiver, d, c.err, noon.Time().Add(c.age), 0.9)
		got, pauses := waybill.DeferralPause(c.receiver, d, out, workerID)
		if pauses != (c.want > 0) {
			t.Errorf("%s: pauses %t: %+v", c.name, pauses, got)
		}
		want := waybill.PauseRequest{}
		if c.want > 0 {
			want = waybill.PauseRequest{Lane: "crm", For: c.want, By: workerID, Reason: "crm.notify, delivery 42: " + out.Error}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestPauseRequestIsMadeFitForAStore(t *testing.T) {
	t.Parallel()
	got, err := waybill.PauseRequest{Lane: "crm", For: 1, By: "a\x00b", Reason: strings.Repeat("x", 3000) + "\xff", Exact: true}.Checked()
	if err != nil || got.For != time.Microsecond || got.By != "a\uFFFDb" || len(got.Reason) > 2000 || !got.Exact {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := (waybill.PauseRequest{Lane: "crm"}).Checked(); err != nil || got.For != 0 {
		t.Errorf("without an end: %+v, %v", got, err)
	}
	for _, wrong := range []waybill.PauseRequest{{}, {Lane: "CRM", For: 1}, {Lane: "crm", For: -time.Second}} {
		if got, err := wrong.Checked(); err == nil {
			t.Errorf("%+v is as good as %+v", wrong, got)
		}
	}
}

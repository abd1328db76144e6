package ops_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/ops"
)

var noon = waybill.StampOf(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))

// rows is a store that holds what a test says.
type rows struct {
	tallies []waybill.Tally
	events  []waybill.OwedEvent
	flight  []waybill.InFlight
	pauses  []waybill.Pause
	broken  string
}

var errDown = errors.New("the database is down")

func (r rows) fails(step string) error {
	if r.broken == step {
		return errDown
	}
	return nil
}
func (r rows) Now(context.Context) (waybill.Stamp, error)       { return noon, r.fails("now") }
func (r rows) Tallies(context.Context) ([]waybill.Tally, error) { return r.tallies, r.fails("tallies") }
func (r rows) InFlight(context.Context) ([]waybill.InFlight, error) {
	return r.flight, r.fails("in flight")
}
func (r rows) Pauses(context.Context) ([]waybill.Pause, error) { return r.pauses, r.fails("pauses") }
func (r rows) OwedEvents(context.Context) ([]waybill.OwedEvent, error) {
	return r.events, r.fails("events")
}

func registry(t *testing.T) *waybill.Registry {
	t.Helper()
	reg := waybill.NewRegistry()
	run := func(context.Context, *waybill.Delivery) error { return nil }
	reg.Add(waybill.Receiver{Key: "mail", Event: "order.placed", Run: run, Options: waybill.Options{Lane: "mail"}})
	reg.Add(waybill.Receiver{Key: "audit", Event: waybill.AnyEvent, Run: run})
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	return reg
}

func everything() rows {
	ago := func(d time.Duration) waybill.Stamp { return noon.Add(-d) }
	return rows{
		tallies: []waybill.Tally{
			{Receiver: "mail", Status: waybill.Pending, Rows: 5, OldestDue: ago(90 * time.Second)},
			{Receiver: "mail", Status: waybill.Claimed, Rows: 2, OldestDue: ago(2 * time.Hour)},
			{Receiver: "mail", Status: waybill.Failed, Rows: 1, OldestDue: ago(1500 * time.Millisecond)},
			{Receiver: "mail", Status: waybill.Succeeded, Rows: 100, OldestDue: ago(9999 * time.Hour)},
			{Receiver: "mail", Status: waybill.Cancelled, Rows: 4, OldestDue: ago(9999 * time.Hour)},
			{Receiver: "old.hook", Status: waybill.Pending, Rows: 3, OldestDue: ago(-time.Hour)}, // due in an hour
			{Receiver: "old.hook", Status: waybill.Orphaned, Rows: 7},
			{Receiver: "gone\x1b[31m", Status: waybill.Dead, Rows: 6},
		},
		events: []waybill.OwedEvent{
			{Receiver: "mail", Event: "order.placed", Rows: 7},
			{Receiver: "mail", Event: "order.renamed", Rows: 1},
			{Receiver: "old.hook", Event: "x", Rows: 3},
			{Receiver: "audit", Event: "anything", Rows: 0},
		},
		flight: []waybill.InFlight{
			{Receiver: "mail", Waiting: 1, OldestHandedOff: ago(1500 * time.Millisecond), Running: 1, OldestTaken: ago(time.Second)},
			{Receiver: "audit", Running: 2, OldestTaken: ago(time.Second)},
			{Receiver: "old.hook", Waiting: 4, OldestHandedOff: ago(90 * time.Second), GivenBack: 3},
		},
	}
}

func TestStatusCountsAndNamesWhatIsUnknown(t *testing.T) {
	t.Parallel()
	got, err := ops.Status(context.Background(), everything(), registry(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := ops.Report{
		Counts: ops.Counts{Owed: 11, Claimed: 2, Failed: 1, Succeeded: 100, Dead: 6, Orphaned: 7, Cancelled: 4, OldestOwedSeconds: 7200},
		Receivers: []ops.Receiver{
			{Key: "audit", Lane: "default", Known: true},
			{Key: "gone\x1b[31m", Lane: "default", Counts: ops.Counts{Dead: 6}},
			{Key: "mail", Lane: "mail", Known: true, Counts: ops.Counts{Owed: 8, Claimed: 2, Failed: 1, Succeeded: 100, Cancelled: 4, OldestOwedSeconds: 7200}},
			{Key: "old.hook", Lane: "default", Counts: ops.Counts{Owed: 3, Orphaned: 7}},
		},
		UnknownReceivers: []string{"old.hook"},
		UnknownEvents:    []ops.UnknownEvent{{Event: "order.renamed", Receiver: "mail", Owed: 1}},
		Lanes: []ops.Lane{
			{Lane: "default", Waiting: 4, Running: 2, GivenBack: 3, OldestWaitingSeconds: 90},
			{Lane: "mail", Waiting: 1, Running: 1, OldestWaitingSeconds: 1.5},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// What is scheduled is owed, and no reason to worry.
func TestStatusCountsWhatIsScheduled(t *testing.T) {
	t.Parallel()
	store := rows{tallies: []waybill.Tally{
		{Receiver: "mail", Status: waybill.Pending, Rows: 5, OldestDue: noon.Add(time.Hour), Scheduled: 4},
		{Receiver: "audit", Status: waybill.Pending, Rows: 2, OldestDue: noon.Add(time.Minute), Scheduled: 2},
	}}
	report, err := ops.Status(context.Background(), store, registry(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := (ops.Counts{Owed: 7, Scheduled: 6}); report.Counts != want || report.Receivers[1].Scheduled != 4 {
		t.Errorf("counts %+v and %+v, want %+v", report.Counts, report.Receivers, want)
	}
	var text strings.Builder
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if want := "\n6 of what is owed is scheduled for later.\n"; !strings.Contains(text.String(), want) {
		t.Errorf("text\n%s\nlacks %q", text.String(), want)
	}
}

func TestJSONOfNothing(t *testing.T) {
	t.Parallel()
	report, err := ops.Status(context.Background(), rows{}, waybill.NewRegistry(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"owed":0,"scheduled":0,"claimed":0,"succeeded":0,"failed":0,"dead":0,"orphaned":0,"cancelled":0,"oldest_owed_seconds":0,` +
		`"receivers":[],"unknown_receivers":[],"unknown_events":[],` +
		`"lanes":[{"lane":"default","queue":null,"waiting":0,"running":0,"given_back":0,"oldest_waiting_seconds":0,"pause":null}],"wake_ups":null,"live":null}`
	if string(got) != want {
		t.Errorf("JSON = %s\nwant   %s", got, want)
	}
}

func TestJSONOfAReceiver(t *testing.T) {
	t.Parallel()
	store := rows{tallies: []waybill.Tally{{Receiver: "mail", Status: waybill.Failed, Rows: 1, OldestDue: noon.Add(-1234567 * time.Microsecond)}}}
	report, err := ops.Status(context.Background(), store, registry(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(report.Receivers[1])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"key":"mail","lane":"mail","known":true,"owed":1,"scheduled":0,"claimed":0,"succeeded":0,"failed":1,"dead":0,"orphaned":0,"cancelled":0,"oldest_owed_seconds":1.235}`
	if string(got) != want {
		t.Errorf("JSON = %s\nwant   %s", got, want)
	}
}

func TestTextIsAligned(t *testing.T) {
	t.Parallel()
	report, err := ops.Status(context.Background(), everything(), registry(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := report.WriteText(&got); err != nil {
		t.Fatal(err)
	}
	want := `RECEIVER        LANE            OWED  CLAIMED  FAILED  SUCCEEDED  DEAD  ORPHANED  CANCELLED  OLDEST OWED
audit           default            0        0       0          0     0         0          0            -
"gone\x1b[31m"  (not declared)     0        0       0          0     6         0          0            -
mail            mail               8        2       1        100     0         0          4       2h0m0s
old.hook        (not declared)     3        0       0          0     0         7          0           0s
all                               11        2       1        100     6         7          4       2h0m0s

LANE     WAITING  RUNNING  GIVEN BACK  OLDEST
default        4        2           3   1m30s
mail           1        1           0      2s

Owed to receivers that are not declared: old.hook

Owed to receivers that are declared for another event, and left alone:
  order.renamed to mail: 1
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestStatusOfAStoreThatIsDown(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"now", "tallies", "events", "in flight", "pauses"} {
		if _, err := ops.Status(context.Background(), rows{broken: step}, registry(t), nil); !errors.Is(err, errDown) {
			t.Errorf("%s fails: Status returns %v", step, err)
		}
	}
}

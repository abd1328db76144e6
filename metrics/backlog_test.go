package metrics_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqlitetest"
	"github.com/waybill-go/waybill/metrics"
)

func TestWhatIsOwed(t *testing.T) {
	t.Parallel()
	s := newStore()
	s.tallies = []waybill.Tally{
		{Receiver: "a", Status: waybill.Pending, Rows: 3, OldestDue: s.ago(-time.Hour), Scheduled: 2},
		{Receiver: "a", Status: waybill.Failed, Rows: 2, OldestDue: s.ago(90 * time.Second)},
		{Receiver: "a", Status: waybill.Succeeded, Rows: 900, OldestDue: s.ago(24 * time.Hour)},
		{Receiver: "a", Status: waybill.Dead, Rows: 1, OldestDue: s.ago(24 * time.Hour)},
		{Receiver: "gone", Status: waybill.Pending, Rows: 4, OldestDue: s.ago(time.Hour)},
		{Receiver: "lost", Status: waybill.Pending, Rows: 5, OldestDue: s.ago(time.Minute)},
	}
	s.inFlight = []waybill.InFlight{
		{Receiver: "a", Waiting: 2, OldestHandedOff: s.ago(7 * time.Second), Running: 3, OldestTaken: s.ago(time.Hour), GivenBack: 1},
		{Receiver: "gone", Running: 1},
	}
	c := newCollector(t, metrics.Config{Registry: declare(t, twoReceivers), Store: s})
	want := map[string]float64{
		`waybill_oldest_owed_seconds{lane="mail",receiver="a"}`:                90,
		`waybill_oldest_owed_seconds{lane="default",receiver="b"}`:             0,
		`waybill_oldest_owed_seconds{lane="default",receiver="(undeclared)"}`:  3600,
		`waybill_in_flight_rows{lane="mail",state="waiting"}`:                  2,
		`waybill_in_flight_rows{lane="mail",state="running"}`:                  3,
		`waybill_in_flight_rows{lane="mail",state="given_back"}`:               1,
		`waybill_in_flight_rows{lane="default",state="waiting"}`:               0,
		`waybill_in_flight_rows{lane="default",state="running"}`:               1,
		`waybill_in_flight_rows{lane="default",state="given_back"}`:            0,
		`waybill_oldest_waiting_seconds{lane="mail"}`:                          7,
		`waybill_oldest_waiting_seconds{lane="default"}`:                       0,
		`waybill_scheduled_deliveries{lane="mail",receiver="a"}`:               2,
		`waybill_scheduled_deliveries{lane="default",receiver="b"}`:            0,
		`waybill_scheduled_deliveries{lane="default",receiver="(undeclared)"}`: 0,
		`waybill_read_errors_total{source="deliveries"}`:                       0,
		`waybill_read_errors_total{source="in_flight"}`:                        0,
	}
	for owner, counts := range map[string][5]float64{
		`lane="mail",receiver="a"`: {3, 0, 2, 1, 0}, `lane="default",receiver="b"`: {}, `lane="default",receiver="(undeclared)"`: {9, 0, 0, 0, 0},
	} {
		for i, status := range []string{"pending", "claimed", "failed", "dead", "orphaned"} {
			want[fmt.Sprintf(`waybill_deliveries{%s,status=%q}`, owner, status)] = counts[i]
		}
	}
	if diff := cmp.Diff(want, scrape(t, c)); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

// The same of a real store, whose clock is not this test's.
func TestWhatIsOwedInAStore(t *testing.T) {
	t.Parallel()
	reg := declare(t, map[string]waybill.Options{"a": {Lane: "mail"}})
	store := sqlitetest.Open(t, reg)
	store.SetClockOffset(-time.Hour)
	sqlitetest.Fire(t, store, 5, func(int) waybill.RawEvent { return waybill.RawEvent{Name: "parcel.sent", Payload: []byte(`{}`)} })
	store.SetClockOffset(0)
	if _, err := store.Claim(t.Context(), waybill.ClaimRequest{By: "relay", Receivers: []string{"a"}, Limit: 2, Lease: time.Minute}); err != nil {
		t.Fatal(err)
	}
	got := scrape(t, newCollector(t, metrics.Config{Registry: reg, Store: store}))
	for name, want := range map[string]float64{
		`waybill_deliveries{lane="mail",receiver="a",status="pending"}`: 3,
		`waybill_deliveries{lane="mail",receiver="a",status="claimed"}`: 2,
		`waybill_in_flight_rows{lane="mail",state="waiting"}`:           2,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v, there: %t, want %v", name, value, ok, want)
		}
	}
	if oldest := got[`waybill_oldest_owed_seconds{lane="mail",receiver="a"}`]; oldest < 3600 || oldest > 3700 {
		t.Errorf("the oldest is owed for %v s, want an hour", oldest)
	}
}

// What a queue does not know has no sample, and no zero.
func TestUnknownIsAbsent(t *testing.T) {
	t.Parallel()
	answers := map[string]waybill.Backlog{
		"mail":    {Ready: waybill.Known[int64](0), Oldest: waybill.Known(1500 * time.Millisecond)},
		"default": {Running: waybill.Known[int64](4), Consumers: waybill.Known[int64](10)},
		"crm":     {},
	}
	queues := map[string]waybill.BacklogReader{"down": queue(func(context.Context) (waybill.Backlog, error) { return answers["mail"], errDown })}
	for lane, answer := range answers {
		queues[lane] = queue(func(context.Context) (waybill.Backlog, error) { return answer, nil })
	}
	got := scrape(t, newCollector(t, metrics.Config{Registry: declare(t, nil), Queues: queues}))
	want := map[string]float64{
		`waybill_queue_messages{lane="mail",state="ready"}`:      0,
		`waybill_queue_oldest_seconds{lane="mail"}`:              1.5,
		`waybill_queue_messages{lane="default",state="running"}`: 4,
		`waybill_queue_consumers{lane="default"}`:                10,
		`waybill_read_errors_total{source="queue"}`:              1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
}

package ops_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/ops"
)

// asked is a store that notes whose rows it was asked for.
type asked struct {
	receivers, except []string
	limit             int
	inFlight          []waybill.InFlight
	err               error
}

func (a *asked) History(_ context.Context, request waybill.HistoryRequest) ([]waybill.HistoryRow, error) {
	a.receivers, a.except, a.limit = request.Receivers, request.Except, request.Limit
	return []waybill.HistoryRow{{ID: 2, DueAt: waybill.StampOf(time.Unix(20, 0))}, {ID: 1, DueAt: waybill.StampOf(time.Unix(10, 0))}}, a.err
}

func (a *asked) Due(_ context.Context, request waybill.DueRequest) (waybill.Due, error) {
	if !cmp.Equal(request.Receivers, a.receivers) || !cmp.Equal(request.Except, a.except) {
		return waybill.Due{}, errors.New("due rows of others")
	}
	return waybill.Due{Rows: 5, Since: 50}, nil
}

func (*asked) Now(context.Context) (waybill.Stamp, error) { return 100, nil }
func (*asked) Tallies(context.Context) ([]waybill.Tally, error) {
	return nil, errors.New("the whole table is read")
}
func (a *asked) InFlight(context.Context) ([]waybill.InFlight, error)  { return a.inFlight, nil }
func (*asked) OwedEvents(context.Context) ([]waybill.OwedEvent, error) { return nil, nil }
func (*asked) Pauses(context.Context) ([]waybill.Pause, error) {
	return []waybill.Pause{{Lane: "crm"}}, nil
}

// eagerly is a store whose newest row ran without a queue.
type eagerly struct{ asked }

func (e *eagerly) History(ctx context.Context, request waybill.HistoryRequest) ([]waybill.HistoryRow, error) {
	rows, err := e.asked.History(ctx, request)
	return append([]waybill.HistoryRow{{ID: 3, Status: waybill.Succeeded, TakenAt: 40, SettledAt: 50}}, rows...), err
}

// What ran eagerly tells nothing of the queue and of its workers.
func TestRunningLeavesEagerRowsOut(t *testing.T) {
	t.Parallel()
	r, _, err := ops.Running(t.Context(), &eagerly{}, waybill.NewRegistry(), "default", nil)
	if err != nil || len(r.Rows) != 2 || r.Rows[0].ID != 2 {
		t.Errorf("rows %+v, %v, want those that waited in the queue", r.Rows, err)
	}
}

// A lane is asked for the rows behind its queue: not those that the relay runs, and in
// the default lane all that are in no other.
func TestRunningAsksForTheLanesRows(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	for _, receiver := range []struct {
		key     string
		options waybill.Options
	}{
		{"mail.b", waybill.Options{Lane: "mail", Lease: 2 * time.Minute}},
		{"mail.a", waybill.Options{Lane: "mail", Lease: time.Minute, Timeout: time.Hour, Heartbeat: true}},
		{"mail.here", waybill.Options{Lane: "mail", Site: waybill.SiteRelay, Lease: time.Second}},
		{"crm", waybill.Options{Lane: "crm", Site: waybill.SiteRelay, Lease: time.Second}},
		{"plain", waybill.Options{}},
		{"plain.here", waybill.Options{Site: waybill.SiteRelay}},
		{"deep", waybill.Options{Lane: "deep"}},
	} {
		waybill.OnAny(reg, receiver.key, func(context.Context, *waybill.Delivery) error { return nil }, receiver.options)
	}
	reg.AddLane("deep", waybill.LaneOptions{HandOffLease: time.Hour})
	reg.AddLane("empty", waybill.LaneOptions{})
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	inFlight := []waybill.InFlight{
		{Receiver: "mail.a", Waiting: 1, OldestHandedOff: 30, Running: 10}, {Receiver: "mail.b", Waiting: 2, OldestHandedOff: 20},
		{Receiver: "mail.here", Waiting: 4, OldestHandedOff: 5}, {Receiver: "nobody", Waiting: 8, OldestHandedOff: 40},
		{Receiver: "plain.here", Waiting: 16, OldestHandedOff: 1},
	}
	named := []string{"crm", "deep", "mail.a", "mail.b", "mail.here"}
	for _, test := range []struct {
		lane              string
		receivers, except []string
		lease             time.Duration
		longRuns, paused  bool
		waiting, running  int
		since             waybill.Stamp
	}{
		{lane: "mail", receivers: []string{"mail.a", "mail.b"}, lease: time.Minute, waiting: 3, running: 10, since: 20},
		{lane: "crm", receivers: []string{"crm"}, lease: time.Second, paused: true},
		{lane: "default", except: append(named, "plain.here"), lease: 5 * time.Minute, waiting: 8, since: 40},
		{lane: "deep", receivers: []string{"deep"}, lease: time.Hour, longRuns: true},
		{lane: "empty", receivers: []string{}, lease: 5 * time.Minute, longRuns: true},
	} {
		store := &asked{inFlight: inFlight}
		r, queueError, err := ops.Running(t.Context(), store, reg, test.lane, nil)
		if err != nil || queueError != "" {
			t.Fatalf("%s: %v %s", test.lane, err, queueError)
		}
		if !cmp.Equal(store.receivers, test.receivers) || !cmp.Equal(store.except, test.except) {
			t.Errorf("%s: asked for %q but %q, want %q but %q", test.lane, store.receivers, store.except, test.receivers, test.except)
		}
		if r.Lease.Value != test.lease || r.LongRuns != test.longRuns || r.Paused != test.paused || r.Waiting != test.waiting || r.Running != test.running ||
			r.WaitingSince != test.since || r.Due != 5 || r.DueSince != 50 || r.Now != 100 || len(r.Rows) != 2 {
			t.Errorf("%s: %+v", test.lane, r)
		}
	}
	times, err := ops.DueTimes(t.Context(), &asked{}, reg, "mail", 7)
	if diff := cmp.Diff([]time.Time{time.Unix(20, 0).UTC(), time.Unix(10, 0).UTC()}, times); diff != "" || err != nil {
		t.Errorf("due times (-want +got): %v\n%s", err, diff)
	}
	if _, _, err := ops.Running(t.Context(), &asked{err: errors.New("away")}, reg, "mail", nil); err == nil || err.Error() != "lane mail: away" {
		t.Errorf("%v", err)
	}
}

// What the queue says of itself counts, and one that cannot be asked is unknown.
func TestRunningAsksTheQueue(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	r, _, err := ops.Running(t.Context(), &asked{}, reg, "default", answering{backlog: waybill.Backlog{Ready: waybill.Known(int64(70)), Consumers: waybill.Known(int64(8))}})
	depth, known := r.Depth.Value()
	if consumers, ok := r.Consumers.Value(); err != nil || !known || depth != 70 || !ok || consumers != 8 {
		t.Errorf("%+v, %v", r, err)
	}
	r, queueError, err := ops.Running(t.Context(), &asked{}, reg, "default", answering{err: errors.New("away")})
	if _, known := r.Depth.Value(); err != nil || known || queueError != "away" {
		t.Errorf("%+v, %q, %v", r, queueError, err)
	}
}

type answering struct {
	backlog waybill.Backlog
	err     error
}

func (a answering) Backlog(context.Context) (waybill.Backlog, error) { return a.backlog, a.err }

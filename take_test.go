package waybill_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waybill-go/waybill"
)

// shelf is a Store of a few rows: the three methods that Take and Record use, on
// states that a test sets.
type shelf struct {
	waybill.Store // everything else is not called
	registry      *waybill.Registry
	rows          map[int64]*waybill.RowState
	slow          time.Duration // what a take needs

	takes    []waybill.TakeRequest
	acks     [][]waybill.Ack
	looked   [][]int64
	takeErr  error
	ackErr   error // told after the outcomes were written: the answer is lost
	lookErr  error
	takeHook func() // between a take and the look after it
	paused   bool   // the lane of every receiver
}

const workerID = "worker:1"

// newShelf holds rows 1 to 6, claimed by a relay at noon under receiver "mail".
func newShelf(t *testing.T) *shelf {
	t.Helper()
	reg := orders(t)
	waybill.On(reg, "mail", ignore, waybill.Options{Lease: time.Minute})
	s := &shelf{registry: reg, rows: map[int64]*waybill.RowState{}}
	for id := int64(1); id <= 6; id++ {
		s.rows[id] = &waybill.RowState{
			ID: id, Status: waybill.Claimed, Claim: relayClaim, Receiver: "mail", HandedOffAt: relayClaim.At,
		}
	}
	return s
}

var (
	relayClaim = waybill.Claim{By: "relay:1", At: noon}
	staleClaim = waybill.Claim{By: "relay:1", At: noon - 1_000_000}
)

func message(id int64, claim waybill.Claim) waybill.Message {
	return waybill.Message{DeliveryID: id, Claim: claim}
}

func (s *shelf) Registry() *waybill.Registry { return s.registry }

func (s *shelf) Take(_ context.Context, request waybill.TakeRequest) ([]*waybill.Delivery, error) {
	s.takes = append(s.takes, request)
	time.Sleep(s.slow)
	if s.takeErr != nil {
		return nil, s.takeErr
	}
	var taken []*waybill.Delivery
	for _, m := range request.Messages {
		row, ok := s.rows[m.DeliveryID]
		known := ok && slices.ContainsFunc(request.Leases, func(l waybill.ReceiverLease) bool { return l.Receiver == row.Receiver })
		if s.paused || !known || row.Status != waybill.Claimed || row.Claim != m.Claim {
			continue
		}
		row.Claim = waybill.Claim{By: request.By, At: row.Claim.At + 1}
		row.TakenAt = row.Claim.At
		taken = append(taken, &waybill.Delivery{ID: row.ID, Receiver: row.Receiver, Claim: row.Claim, Lease: request.Leases[0].Lease})
	}
	slices.Reverse(taken) // a store answers in any order
	if s.takeHook != nil {
		s.takeHook()
	}
	return taken, nil
}

func (s *shelf) Look(_ context.Context, ids []int64) ([]waybill.RowState, error) {
	s.looked = append(s.looked, slices.Sorted(slices.Values(ids)))
	if s.lookErr != nil {
		return nil, s.lookErr
	}
	var rows []waybill.RowState
	for _, id := range ids {
		if row, ok := s.rows[id]; ok {
			rows = append(rows, *row)
		}
	}
	return rows, nil
}

func (s *shelf) Ack(_ context.Context, acks []waybill.Ack) ([]int64, error) {
	s.acks = append(s.acks, acks)
	var landed []int64
	for _, ack := range acks {
		if row, ok := s.rows[ack.DeliveryID]; ok && row.Status == waybill.Claimed && row.Claim == ack.Claim {
			row.Status = ack.Outcome.Status
			landed = append(landed, row.ID)
		}
	}
	if s.ackErr != nil {
		return nil, s.ackErr
	}
	return landed, nil
}

// take offers messages and returns, of each answer, the refusal.
func (s *shelf) take(t *testing.T, messages ...waybill.Message) []waybill.Taken {
	t.Helper()
	answers, err := waybill.Take(context.Background(), s, workerID, messages)
	if err != nil {
		t.Fatal(err)
	}
	if len(answers) != len(messages) {
		t.Fatalf("%d answers for %d messages", len(answers), len(messages))
	}
	for i, answer := range answers {
		if answer.Message != messages[i] {
			t.Errorf("answer %d is to %+v, want %+v", i, answer.Message, messages[i])
		}
		if run := answer.Delivery != nil && answer.Lease != nil; run == (answer.Refused != "") || (answer.Delivery == nil) != (answer.Lease == nil) {
			t.Errorf("answer %d is neither a delivery with its lease nor a refusal: %+v", i, answer)
		}
		want := ""
		if answer.Refused != waybill.RefusedNoRow && answer.Refused != waybill.RefusedUnclear {
			want = s.rows[answer.Message.DeliveryID].Receiver
		}
		if answer.Receiver != want {
			t.Errorf("answer %d, refused as %q, is of receiver %q, want %q", i, answer.Refused, answer.Receiver, want)
		}
	}
	return answers
}

func refusals(answers []waybill.Taken) []waybill.Refusal {
	refused := make([]waybill.Refusal, len(answers))
	for i, answer := range answers {
		refused[i] = answer.Refused
	}
	return refused
}

func TestTakeMovesTheClaimToTheWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		s.slow = 2 * time.Second
		requested := time.Now()
		answers := s.take(t, message(2, relayClaim), message(1, relayClaim), message(3, relayClaim))
		for i, id := range []int64{2, 1, 3} {
			d := answers[i].Delivery
			if d == nil || d.ID != id || d.Claim.By != workerID || d.Claim == relayClaim {
				t.Fatalf("answer %d is %+v, want delivery %d under the worker's claim", i, answers[i], id)
			}
			// The lease counts from before the request: it ends early, never late.
			if got, want := answers[i].Lease.Deadline().Sub(requested), 54*time.Second; got < want || got > want+time.Second {
				t.Errorf("the lease of delivery %d ends %s after the request, want %s", id, got, want)
			}
		}
		want := []waybill.TakeRequest{{
			By: workerID, Leases: []waybill.ReceiverLease{{Receiver: "mail", Lane: "default", Lease: time.Minute}},
			Messages: []waybill.Message{message(2, relayClaim), message(1, relayClaim), message(3, relayClaim)},
		}}
		if diff := cmp.Diff(want, s.takes); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if len(s.looked) != 0 {
			t.Errorf("looked at %v although nothing was refused", s.looked)
		}
	})
}

// A row of a paused lane is refused for that, and only if it would have been taken.
func TestTakeOfAPausedLane(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.paused = true
	s.rows[2].Status = waybill.Succeeded
	s.rows[3].Receiver = "other"
	delete(s.rows, 4)
	got := refusals(s.take(t, message(1, relayClaim), message(2, relayClaim), message(3, relayClaim), message(4, relayClaim), message(5, staleClaim)))
	want := []waybill.Refusal{waybill.RefusedPaused, waybill.RefusedSettled, waybill.RefusedReceiver, waybill.RefusedNoRow, waybill.RefusedReclaimed}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

func TestTakeSaysWhyARowRefused(t *testing.T) {
	t.Parallel()
	later := waybill.Claim{By: "relay:2", At: noon + 60_000_000}
	for _, c := range []struct {
		name string
		row  func(*waybill.RowState)
		want waybill.Refusal
	}{
		{"claimed anew, waiting", func(r *waybill.RowState) { r.Claim, r.HandedOffAt = later, later.At }, waybill.RefusedReclaimed},
		{"claimed anew by the same relay", func(r *waybill.RowState) {
			r.Claim = waybill.Claim{By: relayClaim.By, At: later.At}
			r.HandedOffAt = later.At
		}, waybill.RefusedReclaimed},
		{"claimed anew, running", func(r *waybill.RowState) {
			r.Claim = waybill.Claim{By: "worker:2", At: later.At + 5}
			r.HandedOffAt, r.TakenAt = later.At, later.At+5
		}, waybill.RefusedReclaimed},
		{"claimed anew, failed since", func(r *waybill.RowState) {
			r.Status, r.HandedOffAt = waybill.Failed, later.At
			r.Claim = waybill.Claim{By: "worker:2", At: later.At + 5}
		}, waybill.RefusedReclaimed},
		{"claimed anew and given back", func(r *waybill.RowState) { r.Claim, r.HandedOffAt = later, 0 }, waybill.RefusedReclaimed},
		{"taken by another copy, running", func(r *waybill.RowState) {
			r.Claim, r.TakenAt = waybill.Claim{By: "worker:2", At: noon + 5}, noon+5
		}, waybill.RefusedTaken},
		{"taken by another copy of this worker", func(r *waybill.RowState) {
			r.Claim, r.TakenAt = waybill.Claim{By: workerID, At: noon + 5}, noon+5
		}, waybill.RefusedTaken},
		{"taken by another copy, failed since", func(r *waybill.RowState) {
			r.Status, r.TakenAt = waybill.Failed, noon+5
			r.Claim = waybill.Claim{By: "worker:2", At: noon + 5}
		}, waybill.RefusedTaken},
		{"reopened", func(r *waybill.RowState) { r.Status, r.HandedOffAt = waybill.Pending, 0 }, waybill.RefusedTaken},
		{"succeeded", func(r *waybill.RowState) { r.Status = waybill.Succeeded }, waybill.RefusedSettled},
		{"dead", func(r *waybill.RowState) { r.Status = waybill.Dead }, waybill.RefusedSettled},
		{"orphaned", func(r *waybill.RowState) { r.Status = waybill.Orphaned }, waybill.RefusedSettled},
		{"cancelled", func(r *waybill.RowState) { r.Status = waybill.Cancelled }, waybill.RefusedCancelled},
		{"of a receiver that this worker does not know", func(r *waybill.RowState) { r.Receiver = "other" }, waybill.RefusedReceiver},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShelf(t)
			c.row(s.rows[1])
			before := *s.rows[1]
			got := s.take(t, message(1, relayClaim))
			if got[0].Refused != c.want {
				t.Errorf("refused as %q, want %q", got[0].Refused, c.want)
			}
			if diff := cmp.Diff(before, *s.rows[1]); diff != "" {
				t.Errorf("the row changed (-before +after):\n%s", diff)
			}
		})
	}
	t.Run("gone", func(t *testing.T) {
		if got := newShelf(t).take(t, message(99, relayClaim)); got[0].Refused != waybill.RefusedNoRow {
			t.Errorf("refused as %q, want %q", got[0].Refused, waybill.RefusedNoRow)
		}
	})
}

func TestTakeAnswersCopiesInOneBatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		messages []waybill.Message
		want     []waybill.Refusal
		rounds   int
	}{
		{"none", nil, []waybill.Refusal{}, 0},
		{"a message twice: the first is taken", []waybill.Message{message(1, relayClaim), message(1, relayClaim)},
			[]waybill.Refusal{"", waybill.RefusedTaken}, 2},
		{"the current copy behind a stale one", []waybill.Message{message(1, staleClaim), message(2, relayClaim), message(1, relayClaim)},
			[]waybill.Refusal{waybill.RefusedReclaimed, "", ""}, 2},
		{"the current copy before a stale one", []waybill.Message{message(1, relayClaim), message(1, staleClaim)},
			[]waybill.Refusal{"", waybill.RefusedReclaimed}, 2},
		{"many of many", []waybill.Message{message(1, staleClaim), message(2, relayClaim), message(1, staleClaim), message(2, relayClaim), message(1, relayClaim), message(3, relayClaim)},
			[]waybill.Refusal{waybill.RefusedReclaimed, "", waybill.RefusedReclaimed, waybill.RefusedTaken, "", ""}, 3},
		{"half a claim before the whole one", []waybill.Message{message(1, waybill.Claim{By: "relay:1"}), message(1, relayClaim)},
			[]waybill.Refusal{waybill.RefusedNoRow, ""}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShelf(t)
			if diff := cmp.Diff(c.want, refusals(s.take(t, c.messages...)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("refusals (-want +got):\n%s", diff)
			}
			if got := len(s.takes); got != c.rounds {
				t.Errorf("asked the store %d times, want %d", got, c.rounds)
			}
			for _, request := range s.takes {
				ids := map[int64]bool{}
				for _, m := range request.Messages {
					if ids[m.DeliveryID] {
						t.Errorf("a request names delivery %d twice: %+v", m.DeliveryID, request.Messages)
					}
					ids[m.DeliveryID] = true
				}
			}
		})
	}
}

// Half a claim must not match a row that has the other half alone.
// Trap 33: half a claim that passes for a whole one.
func TestTakeNeverOffersHalfAClaim(t *testing.T) {
	t.Parallel()
	for _, half := range []waybill.Claim{{}, {By: relayClaim.By}, {At: relayClaim.At}} {
		s := newShelf(t)
		s.rows[1].Claim = half // as a careless condition would match
		got := s.take(t, message(1, half), message(2, relayClaim))
		if diff := cmp.Diff([]waybill.Refusal{waybill.RefusedNoRow, ""}, refusals(got)); diff != "" {
			t.Errorf("claim %+v: refusals (-want +got):\n%s", half, diff)
		}
		if got := s.takes[0].Messages; len(got) != 1 || got[0].DeliveryID != 2 {
			t.Errorf("claim %+v: the store was offered %+v, want the whole claim only", half, got)
		}
	}
}

func TestTakeError(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.takeErr = errors.New("connection refused")
	answers, err := waybill.Take(context.Background(), s, workerID, []waybill.Message{message(1, relayClaim)})
	if want := "take 1 deliveries: connection refused"; !errors.Is(err, s.takeErr) || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	if answers != nil {
		t.Errorf("there are answers beside the error: %+v", answers)
	}
}

// A row that was taken has to be run, also when the store cannot say any more why
// it refused another.
func TestTakeKeepsWhatItTookWhenTheLookFails(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.lookErr = errors.New("connection refused")
	got := s.take(t, message(1, relayClaim), message(2, staleClaim))
	if diff := cmp.Diff([]waybill.Refusal{"", waybill.RefusedUnclear}, refusals(got)); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	if got[0].Lease == nil {
		t.Error("the row that was taken has no lease")
	}
}

// A row that is pruned between the take and the look is no row.
func TestTakeOfARowThatGoesMeanwhile(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.takeHook = func() { delete(s.rows, 1) }
	if got := s.take(t, message(1, staleClaim)); got[0].Refused != waybill.RefusedNoRow {
		t.Errorf("refused as %q, want %q", got[0].Refused, waybill.RefusedNoRow)
	}
}

package waybill_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

func ack(id int64, claim waybill.Claim, status waybill.Status) waybill.Ack {
	return waybill.Ack{Message: message(id, claim), Outcome: waybill.Outcome{Status: status, Attempted: true}}
}

func (s *shelf) record(t *testing.T, acks ...waybill.Ack) []bool {
	t.Helper()
	landed, err := waybill.Record(context.Background(), s, acks)
	if err != nil {
		t.Fatal(err)
	}
	return landed
}

func TestRecordReportsWhatLanded(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.rows[3].Status = waybill.Cancelled
	got := s.record(t,
		ack(1, relayClaim, waybill.Succeeded),
		ack(2, staleClaim, waybill.Succeeded),
		ack(3, relayClaim, waybill.Succeeded),
		ack(99, relayClaim, waybill.Succeeded),
		ack(4, relayClaim, waybill.Failed),
	)
	if diff := cmp.Diff([]bool{true, false, false, false, true}, got); diff != "" {
		t.Errorf("landed (-want +got):\n%s", diff)
	}
}

func TestRecordOfNothing(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	if got := s.record(t); len(got) != 0 || len(s.acks) != 0 {
		t.Errorf("landed %v after %d requests, want none", got, len(s.acks))
	}
}

// The answer to an acknowledgement may be lost after it was written. The second try
// finds no claimed row, and must not report that the run lost it.
func TestRecordRecognisesAnOutcomeWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	for _, status := range []waybill.Status{waybill.Succeeded, waybill.Failed, waybill.Dead, waybill.Orphaned} {
		s := newShelf(t)
		s.ackErr = errors.New("connection reset")
		if _, err := waybill.Record(context.Background(), s, []waybill.Ack{ack(1, relayClaim, status)}); !errors.Is(err, s.ackErr) {
			t.Fatalf("error %v, want %v", err, s.ackErr)
		}
		s.ackErr = nil
		if got := s.record(t, ack(1, relayClaim, status), ack(2, relayClaim, status)); !got[0] || !got[1] {
			t.Errorf("%s: landed %v at the second try, want both", status, got)
		}
	}
}

func TestRecordDoesNotMistakeTheOutcomeOfAnother(t *testing.T) {
	t.Parallel()
	mine := waybill.Claim{By: workerID, At: noon + 5}
	for _, c := range []struct {
		name   string
		status waybill.Status
		claim  waybill.Claim
	}{
		{"another worker settled it", waybill.Succeeded, waybill.Claim{By: "worker:2", At: noon + 9}},
		{"another run of this worker settled it", waybill.Succeeded, waybill.Claim{By: workerID, At: noon + 9}},
		{"another worker, at the same moment", waybill.Succeeded, waybill.Claim{By: "worker:2", At: mine.At}},
		{"another run failed", waybill.Failed, waybill.Claim{By: "worker:2", At: noon + 9}},
		{"it is claimed anew", waybill.Claimed, waybill.Claim{By: "relay:2", At: noon + 9}},
		{"it was cancelled", waybill.Cancelled, mine},
		{"it was reopened", waybill.Pending, mine},
		{"it died under this claim", waybill.Dead, mine},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShelf(t)
			s.rows[1].Status, s.rows[1].Claim = c.status, c.claim
			before := *s.rows[1]
			if got := s.record(t, ack(1, mine, waybill.Succeeded)); got[0] {
				t.Error("reported as landed")
			}
			if diff := cmp.Diff(before, *s.rows[1]); diff != "" {
				t.Errorf("the row changed:\n%s", diff)
			}
		})
	}
}

func TestRecordOfOneRowTwice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		acks []waybill.Ack
		want []bool
	}{
		{"the same outcome", []waybill.Ack{ack(1, relayClaim, waybill.Succeeded), ack(1, relayClaim, waybill.Succeeded)}, []bool{true, true}},
		{"a stale one first", []waybill.Ack{ack(1, staleClaim, waybill.Failed), ack(1, relayClaim, waybill.Succeeded)}, []bool{false, true}},
		{"a stale one second", []waybill.Ack{ack(1, relayClaim, waybill.Succeeded), ack(1, staleClaim, waybill.Succeeded)}, []bool{true, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShelf(t)
			if diff := cmp.Diff(c.want, s.record(t, c.acks...)); diff != "" {
				t.Errorf("landed (-want +got):\n%s", diff)
			}
			for _, batch := range s.acks {
				if len(batch) != 1 {
					t.Errorf("one request names a row twice: %+v", batch)
				}
			}
		})
	}
}

func TestRecordErrors(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	s.lookErr = errors.New("connection refused")
	landed, err := waybill.Record(context.Background(), s, []waybill.Ack{ack(1, staleClaim, waybill.Succeeded)})
	if !errors.Is(err, s.lookErr) || landed != nil {
		t.Errorf("got %v, %v; want the error of the look", landed, err)
	}
	wantErrSays(t, err, "look at 1 unacknowledged deliveries")
	s.ackErr, s.lookErr = s.lookErr, nil
	_, err = waybill.Record(context.Background(), s, []waybill.Ack{ack(1, relayClaim, waybill.Succeeded)})
	wantErrSays(t, err, "record 1 outcomes: connection refused")
}

package relay

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// rowStates is as much of a store as sent rows ask.
type rowStates struct {
	waybill.Store
	now   map[int64]waybill.RowState
	asked [][]int64
}

func (s *rowStates) Look(_ context.Context, ids []int64) (states []waybill.RowState, err error) {
	s.asked = append(s.asked, ids)
	for _, id := range ids {
		if state, ok := s.now[id]; ok {
			states = append(states, state)
		}
	}
	return states, nil
}

// hand hands n rows off, as of one second after another.
func hand(s *rowStates, sent *sentRows, n int) {
	s.now = map[int64]waybill.RowState{}
	for id := int64(1); id <= int64(n); id++ {
		claim := waybill.Claim{By: "me", At: waybill.Stamp(id * 1e6)}
		s.now[id] = waybill.RowState{ID: id, Status: waybill.Claimed, Claim: claim, HandedOffAt: claim.At}
		sent.add(waybill.Message{DeliveryID: id, Claim: claim}, time.Time{})
	}
}

// set makes the rows something else.
func (s *rowStates) set(from, to int64, change func(*waybill.RowState)) {
	for id := from; id <= to; id++ {
		state := s.now[id]
		change(&state)
		s.now[id] = state
	}
}

func taken(r *waybill.RowState) {
	r.Claim.By, r.Claim.At, r.TakenAt = "worker", r.Claim.At+5e6, r.Claim.At+5e6
}
func settled(r *waybill.RowState) {
	taken(r)
	r.Status = waybill.Succeeded
}

// A look is about the oldest 500 rows, and about the next only where more than half of
// those moved.
func TestLookIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		moved int64 // so many of the oldest were settled
		whole bool
		asked []int // rows of each question
		left  int
	}{
		{"nothing moved", 0, false, []int{500}, 1800},
		{"less than half moved", 250, false, []int{500}, 1550},
		{"more than half moved", 251, false, []int{500, 500}, 1549},
		{"a chunk and a half", 751, false, []int{500, 500, 500}, 1049},
		{"all moved", 1800, false, []int{500, 500, 500, 300}, 0},
		{"all are looked at", 0, true, []int{500, 500, 500, 300}, 1800},
	} {
		var s rowStates
		var sent sentRows
		hand(&s, &sent, 1800)
		s.set(1, c.moved, settled)
		found, err := sent.look(t.Context(), &s, c.whole)
		if err != nil {
			t.Fatal(err)
		}
		var asked []int
		for _, ids := range s.asked {
			asked = append(asked, len(ids))
		}
		if !slices.Equal(asked, c.asked) || len(sent.queued) != c.left || len(sent.apart) != 0 {
			t.Errorf("%s: questions about %v rows, %d are left; want %v and %d", c.name, asked, len(sent.queued), c.asked, c.left)
		}
		if want := (seen{int(c.moved), int(c.moved), waybill.Stamp(c.moved * 1e6)}); found != want {
			t.Errorf("%s: %+v, want %+v", c.name, found, want)
		}
	}
}

// Rows that run are looked at in turn, 500 at a time, and in none they hide.
func TestRunningRowsHaveTheirTurn(t *testing.T) {
	t.Parallel()
	var s rowStates
	var sent sentRows
	hand(&s, &sent, 1200)
	s.set(1, 1200, taken)
	found, err := sent.look(t.Context(), &s, false)
	if err != nil || found.taken != 1200 || found.settled != 0 || len(sent.apart) != 1200 {
		t.Fatalf("%+v (%v), want 1200 that run", found, err)
	}
	s.set(1, 1200, settled)
	for i, want := range []int{500, 500, 200, 0} {
		found, err = sent.look(t.Context(), &s, false)
		if err != nil || found.taken != 0 || found.settled != want {
			t.Errorf("look %d: %+v (%v), want %d settled", i+1, found, err, want)
		}
	}
}

// What is no more the relay's own is forgotten, and counts as nothing.
func TestRowsOfOthersAreForgotten(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*waybill.RowState){
		"given back": func(r *waybill.RowState) { r.HandedOffAt = 0 },
		"claimed by another": func(r *waybill.RowState) {
			r.HandedOffAt += 60e6
			r.Claim = waybill.Claim{By: "other", At: r.HandedOffAt}
		},
		"claimed by another, earlier": func(r *waybill.RowState) {
			r.HandedOffAt -= 60e6
			r.Claim = waybill.Claim{By: "other", At: r.Claim.At + 1}
		},
		"settled for another": func(r *waybill.RowState) { r.HandedOffAt += 60e6; settled(r) },
		"withdrawn":           func(r *waybill.RowState) { r.Status = waybill.Cancelled },
		"deleted":             func(r *waybill.RowState) { r.ID = 0 },
	} {
		var s rowStates
		var sent sentRows
		hand(&s, &sent, 3)
		s.set(2, 2, change)
		if s.now[2].ID == 0 {
			delete(s.now, 2)
		}
		found, err := sent.look(t.Context(), &s, false)
		if err != nil || found != (seen{}) || len(sent.queued) != 2 || len(sent.apart) != 0 {
			t.Errorf("%s: %+v (%v), %d wait and %d are apart; want two that wait", name, found, err, len(sent.queued), len(sent.apart))
		}
	}
}

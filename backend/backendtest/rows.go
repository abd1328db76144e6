package backendtest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// rows is a waybill.Store in memory: the rows that say what a queue's losses,
// copies and delays amount to. Its clock can be moved on, so that no test waits
// for a lease.
type rows struct {
	registry *waybill.Registry

	mu     sync.Mutex
	offset time.Duration
	rows   map[int64]*row
}

type row struct {
	waybill.RowState
	availableAt      waybill.Stamp
	leaseEnds        waybill.Stamp
	attempts, starts int
}

var _ waybill.Store = (*rows)(nil)

func newRows(receiver string, lease time.Duration) *rows {
	reg := waybill.NewRegistry()
	waybill.OnAny(reg, receiver, func(context.Context, *waybill.Delivery) error { return nil }, waybill.Options{Lease: lease})
	return &rows{registry: reg, rows: make(map[int64]*row)}
}

// add fires n deliveries to the receiver.
func (s *rows) add(receiver string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		id := int64(len(s.rows) + 1)
		s.rows[id] = &row{
			RowState:    waybill.RowState{ID: id, Status: waybill.Pending, Receiver: receiver},
			availableAt: s.now(),
		}
	}
}

// pass lets time pass for the rows.
func (s *rows) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += d
}

// count returns how many rows have the status.
func (s *rows) count(status waybill.Status) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.rows {
		if r.Status == status {
			n++
		}
	}
	return n
}

// size returns how many rows there are.
func (s *rows) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

func (s *rows) now() waybill.Stamp { return waybill.StampOf(time.Now().Add(s.offset)) }

func (s *rows) Registry() *waybill.Registry { return s.registry }

func (s *rows) Check(context.Context) error { return nil }

func (s *rows) Claim(_ context.Context, request waybill.ClaimRequest) ([]waybill.ClaimedRow, error) {
	return s.claim(request.By, request.Limit, request.Lease, func(r *row, now waybill.Stamp) bool {
		return (r.Status == waybill.Pending || r.Status == waybill.Failed) && r.availableAt <= now &&
			slices.Contains(request.Receivers, r.Receiver)
	})
}

func (s *rows) ClaimLapsed(_ context.Context, request waybill.LapsedRequest) ([]waybill.ClaimedRow, error) {
	return s.claim(request.By, request.Limit, request.Lease, func(r *row, now waybill.Stamp) bool {
		kept := request.Hold.Longest > 0 && r.TakenAt == 0 && r.HandedOffAt != 0 &&
			r.HandedOffAt >= max(request.Hold.Overtaken, now.Add(-request.Hold.Longest))
		return r.Status == waybill.Claimed && r.leaseEnds <= now && !kept && among(r.Receiver, request.Receivers, request.Except)
	})
}

// among reports whether the receiver is one of the named ones or, with none named, none
// of the excepted ones.
func among(receiver string, named, except []string) bool {
	return (named == nil || slices.Contains(named, receiver)) && !slices.Contains(except, receiver)
}

func (s *rows) Progress(_ context.Context, request waybill.ProgressRequest) (progress waybill.Progress, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, r := range s.rows {
		switch {
		case r.Status != waybill.Claimed || !among(r.Receiver, request.Receivers, request.Except):
		case r.TakenAt != 0:
			progress.HandedOff, progress.Taken = max(progress.HandedOff, r.HandedOffAt), max(progress.Taken, r.TakenAt)
		case r.HandedOffAt != 0 && r.leaseEnds <= now:
			progress.Lapsed = true
		}
	}
	return progress, nil
}

func (s *rows) claim(by string, limit int, lease time.Duration, due func(*row, waybill.Stamp) bool) ([]waybill.ClaimedRow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var found []*row
	for _, r := range s.rows {
		if due(r, now) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.availableAt, b.availableAt), cmp.Compare(a.ID, b.ID))
	})
	var claimed []waybill.ClaimedRow
	for _, r := range found[:min(limit, len(found))] {
		r.Status = waybill.Claimed
		r.Claim = waybill.Claim{By: by, At: max(now, r.Claim.At+1)}
		r.HandedOffAt, r.TakenAt = r.Claim.At, 0
		r.leaseEnds = now.Add(lease)
		claimed = append(claimed, waybill.ClaimedRow{
			Message:  waybill.Message{DeliveryID: r.ID, Claim: r.Claim},
			Receiver: r.Receiver, AvailableAt: r.availableAt, LostRuns: r.starts - r.attempts,
		})
	}
	return claimed, nil
}

func (s *rows) OwedReceivers(_ context.Context, except []string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for _, r := range s.rows {
		if (r.Status == waybill.Pending || r.Status == waybill.Failed) && !slices.Contains(except, r.Receiver) {
			keys = append(keys, r.Receiver)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// held returns the row if it is claimed under the message's claim. The caller
// holds the lock.
func (s *rows) held(m waybill.Message) *row {
	r, ok := s.rows[m.DeliveryID]
	if !ok || r.Status != waybill.Claimed || r.Claim != m.Claim {
		return nil
	}
	return r
}

func (s *rows) GiveBack(_ context.Context, giveBacks []waybill.GiveBack) (ids []int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range giveBacks {
		r := s.held(g.Message)
		if r == nil {
			continue
		}
		if r.TakenAt != 0 {
			r.starts--
		}
		r.HandedOffAt, r.TakenAt = 0, 0
		r.leaseEnds = s.now().Add(g.Delay)
		ids = append(ids, r.ID)
	}
	return ids, nil
}

// Listen hears nothing: a poll is the floor.
func (s *rows) Listen(ctx context.Context, _ string, _ func()) error {
	<-ctx.Done()
	return nil
}

func (s *rows) Take(_ context.Context, request waybill.TakeRequest) (taken []*waybill.Delivery, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, m := range request.Messages {
		r := s.held(m)
		if r == nil {
			continue
		}
		i := slices.IndexFunc(request.Leases, func(l waybill.ReceiverLease) bool { return l.Receiver == r.Receiver })
		if i < 0 {
			continue
		}
		r.Claim = waybill.Claim{By: request.By, At: max(now, r.Claim.At+1)}
		r.TakenAt = now
		r.starts++
		r.leaseEnds = now.Add(request.Leases[i].Lease)
		taken = append(taken, &waybill.Delivery{
			ID: r.ID, Receiver: r.Receiver, Event: &waybill.Event{ID: r.ID, Name: "event", Payload: []byte("{}")},
			Attempt: r.attempts + 1, Start: r.starts, Claim: r.Claim, HandedOffAt: r.HandedOffAt.Time(), Lease: request.Leases[i].Lease,
		})
	}
	return taken, nil
}

func (s *rows) Look(_ context.Context, ids []int64) (states []waybill.RowState, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if r, ok := s.rows[id]; ok {
			states = append(states, r.RowState)
		}
	}
	return states, nil
}

func (s *rows) Extend(_ context.Context, extensions []waybill.Extension) (ids []int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range extensions {
		if r := s.held(e.Message); r != nil {
			r.leaseEnds = s.now().Add(e.Lease)
			ids = append(ids, r.ID)
		}
	}
	return ids, nil
}

// No lane is ever paused here.

func (s *rows) PauseLane(context.Context, waybill.PauseRequest) (waybill.Pause, error) {
	return waybill.Pause{}, errors.New("these rows know no pauses")
}

func (s *rows) ResumeLane(context.Context, string) (bool, error) { return false, nil }

func (s *rows) Pauses(context.Context) ([]waybill.Pause, error) { return nil, nil }

func (s *rows) Ack(_ context.Context, acks []waybill.Ack) (ids []int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range acks {
		r := s.held(a.Message)
		if r == nil {
			continue
		}
		r.Status = a.Outcome.Status
		if a.Outcome.Attempted {
			r.attempts++
		}
		if a.Outcome.Deferred {
			r.starts--
		}
		if r.Status == waybill.Failed {
			r.availableAt = s.now().Add(a.Outcome.Wait)
		}
		ids = append(ids, r.ID)
	}
	return ids, nil
}

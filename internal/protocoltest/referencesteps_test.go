package protocoltest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// stamp is the stamp of a claim or take of a row: later than any the row had.
func (s *reference) stamp(now waybill.Stamp, r row) waybill.Stamp {
	if s.weak == stampGrows {
		return now
	}
	return max(now, r.claim.At+1)
}

// leave is what becomes of the claim of a row that leaves the status claimed: it stays.
func (s *reference) leave(r *row) {
	if s.weak == stampStays {
		r.claim.At = never
	}
}

// held reports whether a row is claimed under just this claim or, of a weak guard,
// whether it passes that.
func (s *reference) held(r row, claim waybill.Claim, idOnly, noStatus, idAndStatus, noStamp guard) bool {
	claimed, by, at := r.status == waybill.Claimed, r.claim.By == claim.By, r.claim.At == claim.At
	switch s.weak {
	case "":
	case idOnly:
		return true
	case noStatus:
		return by && at
	case idAndStatus:
		return claimed
	case noStamp:
		return claimed && by
	}
	return claimed && by && at
}

func (s *reference) Claim(ctx context.Context, request waybill.ClaimRequest) (claimed []waybill.ClaimedRow, err error) {
	err = s.statement(ctx, func(now waybill.Stamp) {
		claimed = s.claim(request.By, request.Limit, request.Lease, now, func(r row) bool {
			due := (r.status == waybill.Pending || r.status == waybill.Failed) && r.available <= now
			return due && slices.Contains(request.Receivers, r.receiver)
		})
	})
	return claimed, err
}

func (s *reference) ClaimLapsed(ctx context.Context, request waybill.LapsedRequest) (claimed []waybill.ClaimedRow, err error) {
	err = s.statement(ctx, func(now waybill.Stamp) {
		claimed = s.claim(request.By, request.Limit, request.Lease, now, func(r row) bool {
			served := request.Receivers == nil || slices.Contains(request.Receivers, r.receiver)
			lapsed := r.expires <= now
			switch s.weak {
			case claimLapsed:
				lapsed = true
			case claimAnew:
				lapsed = r.handedOff == never // given back
			}
			return r.status == waybill.Claimed && lapsed && served && !slices.Contains(request.Except, r.receiver)
		})
	})
	return claimed, err
}

// claim claims the oldest of the rows that may be claimed.
func (s *reference) claim(by string, limit int, lease time.Duration, now waybill.Stamp, may func(r row) bool) (claimed []waybill.ClaimedRow) {
	var found []row
	for _, r := range s.rows {
		if may(r) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.available, b.available), cmp.Compare(a.id, b.id))
	})
	for _, r := range found[:min(limit, len(found))] {
		r.status, r.claim = waybill.Claimed, waybill.Claim{By: by, At: s.stamp(now, r)}
		r.handedOff, r.taken, r.expires = now, never, now.Add(lease)
		s.rows[r.id] = r
		claimed = append(claimed, waybill.ClaimedRow{
			Message:  waybill.Message{DeliveryID: r.id, Claim: r.claim},
			Receiver: r.receiver, AvailableAt: r.available, LostRuns: r.starts - r.attempts,
		})
	}
	return claimed
}

func (s *reference) Take(ctx context.Context, request waybill.TakeRequest) (taken []*waybill.Delivery, err error) {
	err = s.statement(ctx, func(now waybill.Stamp) {
		leases := map[string]waybill.ReceiverLease{}
		for _, lease := range request.Leases {
			leases[lease.Receiver] = lease
		}
		may := func(message waybill.Message) bool {
			r, ok := s.rows[message.DeliveryID]
			lease, known := leases[r.receiver]
			return ok && known && !s.paused(lease.Lane, now) && s.held(r, message.Claim, "", "", takeClaim, takeAt)
		}
		found := filter(request.Messages, may)
		if s.weak == takeOnce && s.between != nil {
			meanwhile := s.between
			s.between = nil
			meanwhile()
		}
		for _, message := range found {
			r := s.rows[message.DeliveryID]
			if s.weak != takeMoves {
				r.claim = waybill.Claim{By: request.By, At: s.stamp(now, r)}
			}
			lease := leases[r.receiver].Lease
			r.taken, r.expires = now, now.Add(lease)
			r.starts++
			s.rows[r.id] = r
			taken = append(taken, &waybill.Delivery{
				ID: r.id, Event: s.events[r.event], Receiver: r.receiver, Target: r.target,
				Attempt: r.attempts + 1, MaxAttempts: r.most, Start: r.starts,
				DueAt: r.due.Time(), HandedOffAt: stampTime(r.handedOff), Claim: r.claim, Lease: lease,
			})
		}
	})
	return taken, err
}

func (s *reference) Look(ctx context.Context, ids []int64) (states []waybill.RowState, err error) {
	err = s.statement(ctx, func(waybill.Stamp) {
		for _, id := range ids {
			if r, ok := s.rows[id]; ok {
				states = append(states, waybill.RowState{
					ID: id, Status: r.status, Claim: waybill.Claim{By: r.claim.By, At: max(0, r.claim.At)}, Receiver: r.receiver,
					HandedOffAt: max(0, r.handedOff), TakenAt: max(0, r.taken),
				})
			}
		}
	})
	return states, err
}

func (s *reference) Extend(ctx context.Context, extensions []waybill.Extension) (held []int64, err error) {
	err = s.statement(ctx, func(now waybill.Stamp) {
		for _, e := range extensions {
			if r, ok := s.rows[e.DeliveryID]; ok && s.held(r, e.Claim, "", "", extendClaim, "") {
				r.expires = now.Add(e.Lease)
				s.rows[r.id] = r
				held = append(held, r.id)
			}
		}
	})
	return held, err
}

func (s *reference) GiveBack(ctx context.Context, backs []waybill.GiveBack) (released []int64, err error) {
	err = s.statement(ctx, func(now waybill.Stamp) {
		for _, back := range backs {
			r, ok := s.rows[back.DeliveryID]
			if !ok || !s.held(r, back.Claim, "", "", giveBackClaim, "") {
				continue
			}
			r.expires = longAgo
			if back.Delay > 0 {
				r.expires = now.Add(back.Delay)
			}
			if r.taken != never {
				r.starts--
			}
			r.handedOff, r.taken = never, never
			s.rows[r.id] = r
			released = append(released, r.id)
		}
	})
	return released, err
}

func (s *reference) Ack(ctx context.Context, acks []waybill.Ack) (landed []int64, err error) {
	err = s.statement(ctx, func(now waybill.Stamp) { landed = s.ack(acks, now) })
	return landed, err
}

func (s *reference) ack(acks []waybill.Ack, now waybill.Stamp) (landed []int64) {
	for _, ack := range acks {
		r, ok := s.rows[ack.DeliveryID]
		if !ok || !s.held(r, ack.Claim, ackID, ackStatus, ackClaim, ackAt) {
			continue
		}
		r.status, r.lastError, r.expires = ack.Outcome.Status, ack.Outcome.Error, never
		if ack.Outcome.Attempted {
			r.attempts++
		}
		if ack.Outcome.Deferred {
			r.starts--
		}
		if r.status == waybill.Failed {
			r.available = now.Add(ack.Outcome.Wait)
		} else {
			r.settled = now
		}
		s.leave(&r)
		s.rows[r.id] = r
		landed = append(landed, r.id)
	}
	return landed
}

func (s *reference) cancel(request waybill.CancelRequest) (result waybill.CancelResult) {
	now := s.clock()
	for id, r := range s.rows {
		if request.Events != nil && !slices.Contains(request.Events, r.event) ||
			request.Deliveries != nil && !slices.Contains(request.Deliveries, id) ||
			request.Receiver != "" && request.Receiver != r.receiver || !r.status.Owed() {
			continue
		}
		if r.status == waybill.Claimed && s.weak != cancelUnclaimed {
			result.InFlight++
			continue
		}
		r.status, r.settled = waybill.Cancelled, now
		s.rows[id] = r
		result.Cancelled++
	}
	return result
}

func (s *reference) reopen(request waybill.ReopenRequest) (ids []int64) {
	now := s.clock()
	for _, id := range request.Deliveries {
		r, ok := s.rows[id]
		if !ok || r.status.Owed() && !(s.weak == replaySettled && r.status == waybill.Claimed) {
			continue
		}
		r.status, r.lastError, r.attempts, r.starts = waybill.Pending, "", 0, 0
		r.available, r.due = now, now
		r.expires, r.handedOff, r.taken, r.settled = never, never, never, never
		s.rows[id] = r
		ids = append(ids, id)
	}
	return ids
}

func (s *reference) paused(lane string, now waybill.Stamp) bool {
	p, ok := s.pauses[lane]
	return ok && (p.Until == 0 || p.Until > now)
}

func (s *reference) PauseLane(ctx context.Context, request waybill.PauseRequest) (pause waybill.Pause, err error) {
	err = s.statement(ctx, func(now waybill.Stamp) {
		pause = waybill.Pause{Lane: request.Lane, By: request.By, Reason: request.Reason, Since: now}
		if request.For > 0 {
			pause.Until = now.Add(request.For)
		}
		before, ok := s.pauses[request.Lane]
		if later := before.Until == 0 || pause.Until != 0 && before.Until >= pause.Until; ok && later && !request.Exact {
			pause = before
		}
		s.pauses[request.Lane] = pause
	})
	return pause, err
}

func (s *reference) ResumeLane(ctx context.Context, lane string) (ended bool, err error) {
	err = s.statement(ctx, func(now waybill.Stamp) {
		ended = s.paused(lane, now)
		delete(s.pauses, lane)
	})
	return ended, err
}

func (s *reference) Pauses(ctx context.Context) (pauses []waybill.Pause, err error) {
	err = s.statement(ctx, func(now waybill.Stamp) {
		for _, lane := range sortedKeys(s.pauses) {
			if s.paused(lane, now) {
				pauses = append(pauses, s.pauses[lane])
			}
		}
	})
	return pauses, err
}

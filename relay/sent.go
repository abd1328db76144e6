package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// sentRows are the rows that a relay handed off and has not seen settled. They are in
// memory only: a relay that starts anew remembers none, and finds its window too large
// by what is out.
type sentRows struct {
	// queued is in the order of the hand-offs. As far as is known their messages wait.
	queued []sentRow
	// apart were taken, or their messages are lost: they are in no order any more.
	apart []sentRow
}

// sentRow is a row under the claim that its message carries. Its hand-off is the
// moment of that claim.
type sentRow struct {
	message waybill.Message
	lapses  time.Time // when its lease is over at the latest, by the clock of this process
	taken   bool
}

// lookChunk is how many rows one question is about. Asking for more at once would
// make a look as long as the queue is.
const lookChunk = 500

// seen is what a look at sent rows brought.
type seen struct {
	taken, settled int
	frontier       waybill.Stamp // the newest hand-off among those that were taken; zero if none was
}

// add remembers messages that are in the queue, or may be.
func (s *sentRows) add(message waybill.Message, lapses time.Time) {
	s.queued = append(s.queued, sentRow{message: message, lapses: lapses})
}

// ids is how many rows a look is about, as long as no more than half of them moved.
func (s *sentRows) ids() int { return min(len(s.queued), lookChunk) + min(len(s.apart), lookChunk) }

// look finds out what became of the rows. A queue moves at its front, so that the
// oldest chunk tells, and the next only where more than half of that moved; whole has
// all of them looked at. Of the others a chunk has its turn.
func (s *sentRows) look(ctx context.Context, store waybill.Store, whole bool) (found seen, err error) {
	var kept, moved []sentRow
	for rest := s.queued; len(rest) > 0; {
		chunk := rest[:min(len(rest), lookChunk)]
		waiting, running, err := found.ask(ctx, store, chunk)
		if err != nil {
			return found, err // what was seen is seen again
		}
		kept, moved, rest = append(kept, waiting...), append(moved, running...), rest[len(chunk):]
		if !whole && 2*len(waiting) >= len(chunk) {
			kept = append(kept, rest...)
			break
		}
	}
	turn := min(len(s.apart), lookChunk)
	if whole {
		turn = len(s.apart)
	}
	looked, apart := s.apart[:turn], append([]sentRow(nil), s.apart[turn:]...)
	for len(looked) > 0 {
		chunk := looked[:min(len(looked), lookChunk)]
		waiting, running, err := found.ask(ctx, store, chunk)
		if err != nil {
			return found, err
		}
		apart, looked = append(append(apart, waiting...), running...), looked[len(chunk):]
	}
	s.queued, s.apart = kept, append(apart, moved...)
	return found, nil
}

// ask looks at some rows, counts what happened to them, and returns those that are
// still out: waiting as before, or running.
func (found *seen) ask(ctx context.Context, store waybill.Store, rows []sentRow) (waiting, running []sentRow, err error) {
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = row.message.DeliveryID
	}
	states, err := store.Look(ctx, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("look at %d rows that were handed off: %w", len(ids), err)
	}
	now := make(map[int64]waybill.RowState, len(states))
	for _, state := range states {
		now[state.ID] = state
	}
	for _, row := range rows {
		state, ok := now[row.message.DeliveryID]
		claim := row.message.Claim
		switch {
		case !ok: // deleted
		case state.HandedOffAt > claim.At: // somebody else's by now
		case state.Status == waybill.Claimed && state.HandedOffAt == 0: // given back
		case state.Status == waybill.Claimed && state.Claim == claim:
			waiting = append(waiting, row)
		case state.Status == waybill.Claimed && state.TakenAt == 0: // somebody else's, and the clock was set back
		case state.TakenAt == 0: // withdrawn
		default:
			if !row.taken {
				row.taken = true
				found.taken++
				found.frontier = max(found.frontier, claim.At)
			}
			if state.Status == waybill.Claimed {
				running = append(running, row)
			} else {
				found.settled++
			}
		}
	}
	return waiting, running, nil
}

// part sets the oldest rows apart that do not wait any more.
func (s *sentRows) part(waits func(sentRow) bool) {
	n := 0
	for n < len(s.queued) && !waits(s.queued[n]) {
		n++
	}
	s.partOldest(n)
}

// lost is how many rows are apart that nobody took.
func (s *sentRows) lost() (n int) {
	for _, row := range s.apart {
		if !row.taken {
			n++
		}
	}
	return n
}

// partOldest sets so many of the oldest apart.
func (s *sentRows) partOldest(n int) {
	if n > 0 {
		s.apart = append(s.apart, s.queued[:n]...)
		s.queued = append([]sentRow(nil), s.queued[n:]...)
	}
}

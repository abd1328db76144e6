package worker

import (
	"sync/atomic"
	"time"
)

// Stalled returns for how long the flusher that moved longest ago has been at one
// step: one try of a batch, and the wait for the next try. It is zero while there is
// nothing to flush. A step bounds its own time, also while the database does not
// answer, so that minutes of it say that the worker hangs, and not that it waits
// for something.
func (w *Worker) Stalled() time.Duration {
	return max(w.taking.lasts(), w.recording.lasts(), w.givingBack.lasts(), w.pausing.lasts())
}

// step is what a flusher is at.
type step struct{ began atomic.Pointer[time.Time] }

func (s *step) begin() {
	now := time.Now()
	s.began.Store(&now)
}

func (s *step) end() { s.began.Store(nil) }

// lasts returns for how long the step has lasted, zero between steps.
func (s *step) lasts() time.Duration {
	if began := s.began.Load(); began != nil {
		return time.Since(*began)
	}
	return 0
}

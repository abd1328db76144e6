package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// watchEvery is how often a listener looks whether another process has fired.
const watchEvery = 50 * time.Millisecond

// signals carries wakes between the goroutines of one process.
type signals struct {
	mu        sync.Mutex
	listeners map[chan struct{}]string // the lane of each
	fired     *waybill.Committed       // what is fired in the transaction at hand; nil without one
}

func (s *signals) add(lane string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners == nil {
		s.listeners = map[chan struct{}]string{}
	}
	signal := make(chan struct{}, 1)
	s.listeners[signal] = lane
	return signal
}

func (s *signals) remove(signal chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, signal)
}

// during returns what is fired while work runs. It is called under the write lock:
// while it is held, nobody else's fire succeeds.
func (s *signals) during(work func() error) (fired waybill.Committed, err error) {
	s.mu.Lock()
	s.fired = new(waybill.Committed)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		fired, s.fired = *s.fired, nil
	}()
	return waybill.Committed{}, work()
}

// note adds to what is fired in the transaction at hand. One that is the caller's own
// is followed by a Wake of the caller's.
func (s *signals) note(add func(fired *waybill.Committed)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fired != nil {
		add(s.fired)
	}
}

// Wake tells the relays of these lanes in this process, of all lanes if none is
// named, that rows have become due. Call it after the commit of a transaction that
// fired. Relays of other processes see the new rows of their lanes by themselves,
// within a twentieth of a second.
//
// Every wake is sent: it costs a look at a map, and signals that a relay has not
// seen yet are one.
func (s *Store) Wake(_ context.Context, lanes ...string) {
	if s.bound != nil {
		return
	}
	s.signals.mu.Lock()
	defer s.signals.mu.Unlock()
	for signal, lane := range s.signals.listeners {
		if len(lanes) > 0 && !slices.Contains(lanes, lane) {
			continue
		}
		select {
		case signal <- struct{}{}:
		default: // it has one to answer already
		}
	}
}

// tell tells of what a transaction has fired, now that it is committed.
func (s *Store) tell(ctx context.Context, fired waybill.Committed) {
	if lanes := s.commits.Tell(ctx, fired); len(lanes) > 0 {
		s.Wake(ctx, lanes...)
	}
}

// Listen calls wake once at the start, and then whenever this process wakes the
// relays of the lane or any process has committed new rows of it, until ctx ends; it
// then returns nil. A row whose receiver this process does not know is of any lane.
func (s *Store) Listen(ctx context.Context, lane string, wake func()) error {
	if s.bound != nil {
		return waybill.ErrDeaf // nobody else sees what is fired there
	}
	signal := s.signals.add(lane)
	defer s.signals.remove(signal)
	watch, err := s.watch(ctx, lane)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("listen: %w", err)
	}
	defer watch.close()
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for wake(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-signal:
			wake()
		case <-ticker.C:
			fired, err := watch.fired(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return fmt.Errorf("listen: %w", err)
			}
			if fired {
				wake()
			}
		}
	}
}

// WakeInterval is negative: every wake is sent, and looks for what was left out would
// only compete for the one lock that whoever writes has to have.
func (s *Store) WakeInterval() time.Duration { return -1 }

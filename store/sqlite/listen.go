package sqlite

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// watchEvery is how often a listener looks whether another process has fired.
const watchEvery = 50 * time.Millisecond

// signals carries wakes between the goroutines of one process.
type signals struct {
	mu        sync.Mutex
	listeners map[chan struct{}]struct{}
}

func (s *signals) add() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners == nil {
		s.listeners = map[chan struct{}]struct{}{}
	}
	signal := make(chan struct{}, 1)
	s.listeners[signal] = struct{}{}
	return signal
}

func (s *signals) remove(signal chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, signal)
}

// Wake tells the relays of this process that rows may have become due. Call it
// after the commit of a transaction that fired. Relays of other processes see the
// new rows by themselves, within a twentieth of a second.
func (s *Store) Wake(context.Context, ...string) {
	s.signals.mu.Lock()
	defer s.signals.mu.Unlock()
	for signal := range s.signals.listeners {
		select {
		case signal <- struct{}{}:
		default: // it has one to answer already
		}
	}
}

// Listen calls wake once at the start, and then whenever this process wakes its
// relays or any process has committed new rows, until ctx ends; it then returns
// nil.
func (s *Store) Listen(ctx context.Context, lane string, wake func()) error {
	signal := s.signals.add()
	defer s.signals.remove(signal)
	watch, err := s.watch(ctx)
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

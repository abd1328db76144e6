package amqp

import (
	"fmt"
	"sync"
)

// alarm is whether the broker takes messages.
type alarm struct {
	mu     sync.Mutex
	reason string
	raised chan struct{} // closed while the broker takes none
}

func (a *alarm) raise(reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.raised:
	default:
		close(a.raised)
	}
	a.reason = reason
}

func (a *alarm) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raised = make(chan struct{})
}

// state returns a channel that is closed while the alarm lasts, and an error then.
func (a *alarm) state() (<-chan struct{}, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.raised:
		return a.raised, fmt.Errorf("%w: %s", ErrBlocked, a.reason)
	default:
		return a.raised, nil
	}
}

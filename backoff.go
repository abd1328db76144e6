package waybill

import (
	"fmt"
	"time"
)

// Defaults of a receiver's backoff curve.
const (
	DefaultBackoffBase = 2 * time.Second
	DefaultBackoffCap  = time.Hour
)

// Backoff is a curve of exponential backoff with full jitter: before attempt n+1
// a delivery waits a random share of min(Cap, Base·2^(n-1)). The jitter spreads
// over the whole range, so that what failed together does not return together.
type Backoff struct {
	Base time.Duration // Defaults to 2s.
	Cap  time.Duration // Defaults to 1h.
}

// Ceiling returns the longest wait after the given attempt (1 is the first).
func (b Backoff) Ceiling(attempt int) time.Duration {
	ceiling := b.Base
	for i := 1; i < attempt && ceiling < b.Cap; i++ {
		if ceiling > b.Cap/2 { // doubling would pass the cap, or overflow
			return b.Cap
		}
		ceiling *= 2
	}
	return min(ceiling, b.Cap)
}

// Wait returns the wait after the given attempt; random is in [0, 1).
func (b Backoff) Wait(attempt int, random float64) time.Duration {
	return time.Duration(random * float64(b.Ceiling(attempt)))
}

// withDefaults fills in what was not declared. A declared half keeps its value:
// a base above the default cap raises the cap with it.
func (b Backoff) withDefaults() Backoff {
	if b.Base == 0 {
		b.Base = DefaultBackoffBase
		if b.Cap > 0 {
			b.Base = min(b.Base, b.Cap)
		}
	}
	if b.Cap == 0 {
		b.Cap = max(DefaultBackoffCap, b.Base)
	}
	return b
}

func (b Backoff) validate() error {
	if b.Base < 0 || b.Cap < 0 {
		return fmt.Errorf("backoff base %s and cap %s must be positive", b.Base, b.Cap)
	}
	if b.Base > 0 && b.Cap > 0 && b.Cap < b.Base {
		return fmt.Errorf("backoff cap %s is below its base %s", b.Cap, b.Base)
	}
	return nil
}

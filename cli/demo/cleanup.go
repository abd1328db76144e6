package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// cleanupTimeout bounds the removal of all that a run has made.
const cleanupTimeout = 20 * time.Second

// cleanup is what a run has made and opened, and how each thing is removed again.
type cleanup []leaving

type leaving struct {
	what   string // named to the user; empty for what ends with the process anyway
	remove func(ctx context.Context) error
}

// closes adds what has to be closed.
func (c *cleanup) closes(f func()) {
	*c = append(*c, leaving{remove: func(context.Context) error { f(); return nil }})
}

// removes adds what would stay for others to find.
func (c *cleanup) removes(what string, f func(ctx context.Context) error) {
	*c = append(*c, leaving{what, f})
}

// made names all that others can see.
func (c cleanup) made() (what []string) {
	for _, l := range c {
		if l.what != "" {
			what = append(what, l.what)
		}
	}
	return what
}

// run removes everything, the last first, also when ctx has ended. What cannot be
// removed is named, and then matters more than the error that came before.
func (c cleanup) run(ctx context.Context, before error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	var errs []error
	for _, l := range slices.Backward(c) {
		if err := l.remove(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s of the demo's is left behind: %w", l.what, err))
		}
	}
	switch left := errors.Join(errs...); {
	case left == nil:
		return before
	case before == nil:
		return left
	default:
		return fmt.Errorf("%w; before that: %v", left, before)
	}
}

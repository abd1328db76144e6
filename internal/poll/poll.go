// Package poll waits in tests for what other goroutines bring about.
package poll

import (
	"testing"
	"time"
)

const (
	// patience is ample on a busy machine where a server starts, and longer than River
	// takes to look for stuck jobs again: 30 s.
	patience = time.Minute
	interval = 5 * time.Millisecond
)

// Until returns once the condition holds. It ends the test if that takes too long,
// and says what was waited for.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(interval) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

//go:build soak

package protocol_test

import "testing"

// TestModelOfEachGuard weakens every one of them.
func TestModelOfEachGuard(t *testing.T) {
	t.Parallel()
	check(t, "quick")
}

//go:build soak

package postgres_test

import "testing"

// TestStoreOverEachDB runs the conformance suite over each driver.
func TestStoreOverEachDB(t *testing.T) { overEach(t, conform) }

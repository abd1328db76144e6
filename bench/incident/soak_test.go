//go:build soak

package main

import "testing"

// Every variant in full size keeps what is promised of it.
func TestSoakIncident(t *testing.T) {
	for _, variant := range scaled().variants() {
		for _, window := range []bool{false, true} {
			t.Run(variant.Backend+" "+variant.Fault+" window "+onOff(window), func(t *testing.T) {
				for _, miss := range mustPlay(t, variant, window).misses() {
					t.Error(miss)
				}
			})
		}
	}
}

package demo

import (
	"strings"
	"testing"
)

// The demo's exit code rests on this: each thing that can go wrong is one that the
// books show.
func TestBalance(t *testing.T) {
	t.Parallel()
	good := Ledger{Events: 10, Deliveries: 30, Succeeded: 28, Dead: 2, Runs: 40, hopeless: 2, reservations: 10, reserved: 10}
	if err := good.Balance(); err != nil {
		t.Fatalf("books that balance: %v", err)
	}
	for says, spoil := range map[string]func(*Ledger){
		"nothing was delivered":                         func(l *Ledger) { *l = Ledger{} },
		"3 deliveries are still owed":                   func(l *Ledger) { l.Owed = 3 },
		"27 succeeded and 2 dead are not the 30":        func(l *Ledger) { l.Succeeded = 27 },
		"3 are dead, 2 were bound to die":               func(l *Ledger) { l.Succeeded, l.Dead = 27, 3 },
		"1 runs overlapped under valid leases":          func(l *Ledger) { l.DoubleRuns = 1 },
		"wrote 9 rows for 10 deliveries (0 twice)":      func(l *Ledger) { l.reservations = 9 },
		"wrote 10 rows for 10 deliveries (1 twice)":     func(l *Ledger) { l.doubleRows = 1 },
		"wrote 11 rows for 10 deliveries (1 twice)":     func(l *Ledger) { l.reservations, l.doubleRows = 11, 1 },
		"2 are dead, 0 were bound to die":               func(l *Ledger) { l.hopeless = 0 },
		"4 deliveries are still owed\n26 succeeded and": func(l *Ledger) { l.Owed, l.Succeeded = 4, 26 },
	} {
		l := good
		spoil(&l)
		if err := l.Balance(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("balance of %+v: %v, want %q", l, err, says)
		}
	}
}

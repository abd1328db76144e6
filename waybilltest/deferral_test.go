package waybilltest_test

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/waybilltest"
)

// A run for a target puts off its own delivery, whose lane is not paused: nothing but
// its time keeps it from the next drain.
func TestTheNextDrainLeavesWhatWasDeferredToo(t *testing.T) {
	t.Parallel()
	reg := register(t, func(reg *waybill.Registry) {
		waybill.On(reg, "mail", func(context.Context, orderPlaced) error { return waybill.Defer(time.Minute) }, waybill.Options{
			GiveUpAfter: time.Hour,
			Targets:     waybill.TargetsOf(func(context.Context, orderPlaced) ([]string, error) { return []string{"ada"}, nil }),
		})
	})
	store := waybilltest.SQLite(t, reg)
	waybilltest.Fire(t, store, orderPlaced{})
	came(t, waybilltest.Drain(t, store), 1, waybilltest.Drained{Runs: 1, Deferred: 1})
	came(t, waybilltest.Drain(t, store), 0, waybilltest.Drained{})
	waybilltest.Advance(t, store, 2*time.Minute)
	came(t, waybilltest.Drain(t, store), 1, waybilltest.Drained{Runs: 1, Deferred: 1})
}

package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill"
)

// wakeFlags say how relays learn of what was fired. Both sides are told the same: the
// ones that fire, workers among them because receivers do, and the one that looks for
// what they left out. A command without these flags fires nothing.
type wakeFlags struct {
	by       string
	interval time.Duration
}

func (f *wakeFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.by, "wake", "notify", "how relays learn of what was fired: notify, or poll to do without wake-ups")
	flags.DurationVar(&f.interval, "wake-interval", waybill.DefaultWakeInterval, "for how long one wake-up stands for those after it; 0 sends every one")
	fromEnv(flags, "wake", "WAYBILL_WAKE")
	fromEnv(flags, "wake-interval", "WAYBILL_WAKE_INTERVAL")
}

func (f *wakeFlags) check() error {
	switch {
	case f.by != "notify" && f.by != "poll":
		return usagef("--wake %s: must be notify or poll", f.by)
	case f.interval < 0:
		return usagef("--wake-interval %s: must not be negative", f.interval)
	}
	return nil
}

func (f *wakeFlags) pollOnly() bool { return f.by == "poll" }

// every is what a Config calls an interval of nothing.
func (f *wakeFlags) every() time.Duration {
	if f.interval == 0 {
		return -1
	}
	return f.interval
}

package cli

import (
	"time"

	"github.com/spf13/pflag"
)

// windowFlags say how many rows a relay lets wait in its queue.
type windowFlags struct {
	window  string
	horizon time.Duration
}

func (f *windowFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.window, "window", "auto", "how many rows may wait in the queue: auto, as many as workers start within the horizon, or off, all that are due")
	flags.DurationVar(&f.horizon, "window-horizon", 0, "how long a row waits in the queue at most, and workers go on without a relay (default 10s, or a quarter of the lane's shortest hand-off lease)")
	fromEnv(flags, "window", "WAYBILL_WINDOW")
	fromEnv(flags, "window-horizon", "WAYBILL_WINDOW_HORIZON")
}

func (f *windowFlags) check(flags *pflag.FlagSet) error {
	given := flags.Changed("window-horizon")
	switch {
	case f.window != "auto" && f.window != "off":
		return usagef("--window %s: must be auto or off", f.window)
	case given && f.off():
		return usagef("--window-horizon is for --window auto")
	case given && f.horizon <= 0:
		return usagef("--window-horizon %s: must be longer than nothing", f.horizon)
	}
	return nil
}

func (f *windowFlags) off() bool { return f.window == "off" }

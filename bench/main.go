// Command bench measures how many deliveries a second go from fire to ack
// through Postgres and Asynq on Redis, and says how near that comes to what the
// two reach by themselves.
//
// Three things are measured in turn, in each run, with the same rows and the
// same statements:
//
//   - sql: fire → claim → take → ack in batches of 100, with no queue;
//   - asynq: messages enqueued in batches of 100 and received by a handler that
//     does nothing;
//   - end to end: fire → claim → enqueue → take → run → ack, through a Relay
//     and a Worker whose receiver does nothing.
//
// All of it shares the machine, so the bound of the last is the harmonic one,
// 1/(1/sql + 1/asynq): what would be left if the bridge itself cost nothing.
// Then events are fired at a steady 50 a second, and the time from the start of
// the firing transaction to the run of the receiver is taken.
//
// With -backends it measures the last two for every backend instead, one beside
// the other.
//
// It works in databases and queues of its own, on the servers that
// WAYBILL_TEST_POSTGRES, WAYBILL_TEST_REDIS and WAYBILL_TEST_AMQP name, and
// removes all of it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// config is what the flags say.
type config struct {
	postgres, redis, amqp string

	backends   bool
	deliveries int
	runs       int
	slots      []int
	servers    int
	prefetch   int
	latency    time.Duration
	windowOff  bool
	profile    string
}

func main() {
	c, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (config, error) {
	c := config{postgres: os.Getenv("WAYBILL_TEST_POSTGRES"), redis: os.Getenv("WAYBILL_TEST_REDIS"), amqp: os.Getenv("WAYBILL_TEST_AMQP")}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&c.backends, "backends", false, "compare all backends")
	flags.IntVar(&c.deliveries, "n", 20_000, "deliveries in a run")
	flags.IntVar(&c.runs, "runs", 3, "runs, of which the median is told")
	slots := flags.String("slots", "16,64,256", "how many receivers run at once, one column each")
	flags.IntVar(&c.servers, "servers", 2, "Asynq servers of the worker")
	flags.IntVar(&c.prefetch, "prefetch", 0, "messages that the worker's queue holds beyond those that run")
	flags.BoolVar(&c.windowOff, "window-off", false, "let the queue hold all that is due")
	flags.DurationVar(&c.latency, "latency", 10*time.Second, "how long latency is measured; 0 is not at all")
	flags.StringVar(&c.profile, "cpuprofile", "", "write a CPU profile of the end-to-end runs to this file")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	for text := range strings.SplitSeq(*slots, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return c, fmt.Errorf("-slots %s: want numbers such as 16,64,256", *slots)
		}
		c.slots = append(c.slots, n)
	}
	switch {
	case flags.NArg() > 0:
		return c, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case c.deliveries < batch || c.runs < 1 || c.servers < 1 || c.prefetch < 0 || c.latency < 0:
		return c, fmt.Errorf("-n must be at least %d, -runs and -servers at least 1, -prefetch and -latency not negative", batch)
	case c.backends && c.latency == 0:
		return c, errors.New("-backends measures latency too: -latency must be positive")
	case c.postgres == "" || c.redis == "" || c.amqp == "":
		return c, errors.New(`WAYBILL_TEST_POSTGRES, WAYBILL_TEST_REDIS and WAYBILL_TEST_AMQP are not set: run make bench, or eval "$(make -s services)" first`)
	}
	return c, nil
}

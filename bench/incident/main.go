// Command incident has the incident of docs/lease-sizing.md happen on real parts: a
// burst of 28,000 rows falls on a queue that holds a fraction of them within their
// lease. With every constant of time twenty times shorter than in the report the lease
// is 45 s, and the workers drain 400 rows a second.
//
// The burst runs once with the relay's window off and once with it on, and both
// ledgers are printed beside each other: how deep the queue got, how long a row waited
// in it, how many stale copies reached a worker and how many had to be expected
// (sizing.Predict, by the drain and the relay's rate that were measured in the run),
// when all was done, and what it cost in writes. A picture shows both over time.
//
// With -fault something breaks as half of the rows are settled: the workers are killed
// and stay away for 30 s, Redis loses all it has, or one of two relays is killed. Relays
// and workers are processes of their own, this program with another role, and what is
// killed is killed with SIGKILL.
//
// It works in databases and queues of its own, on the servers that
// WAYBILL_TEST_POSTGRES, WAYBILL_TEST_REDIS and WAYBILL_TEST_AMQP name, and removes
// all of it. Redis loses only the numbered database that the run has there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if role, ok := roleOf(os.Args); ok {
		os.Exit(role.main())
	}
	c, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "incident:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, c, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "incident:", err)
		os.Exit(1)
	}
}

// Command testapp is an application of the kind that embeds Waybill: it fires
// events in its own transactions and has receivers of its own, one of them
// transactional. The end-to-end tests run it, and have it killed at a given
// point of the protocol.
//
//	testapp fire   -orders 100 ...
//	testapp relay  -at claimed:3=kill ...
//	testapp worker -slots 16 ...
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/worker"
)

// app is one process of the application.
type app struct {
	postgres, redis, sink string

	lane      string
	lease     time.Duration
	poll      time.Duration
	batch     int
	windowOff bool
	slots     int
	drain     time.Duration

	orders int
	over   time.Duration
	ahead  int

	hooks *hooks
	pool  *pgxpool.Pool
	store store
}

func main() {
	signals, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(context.WithoutCancel(signals))
	defer cancel()
	told := make(chan struct{})
	context.AfterFunc(signals, func() {
		stop() // a second signal ends the process at once
		cancel()
		close(told) // when every context that rests on ctx has ended
	})
	if err := run(ctx, told, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testapp:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, told <-chan struct{}, args []string) error {
	if len(args) == 0 {
		return errors.New("want fire, relay or worker")
	}
	a, err := parse(told, args[0], args[1:])
	if err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(a.postgres)
	if err != nil {
		return err
	}
	config.MaxConns = int32(a.slots) + 4 // a run in a transaction holds one
	if a.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	defer a.pool.Close()
	registry, err := a.registry()
	if err != nil {
		return err
	}
	opened, err := postgres.Open(ctx, a.pool, registry)
	if err != nil {
		return err
	}
	a.store = store{Store: opened, hooks: a.hooks}
	switch args[0] {
	case "fire":
		return a.fire(ctx)
	case "relay":
		return a.relay(ctx)
	case "worker":
		return a.worker(ctx)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

func parse(told <-chan struct{}, name string, args []string) (*app, error) {
	a := &app{}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.StringVar(&a.postgres, "postgres", "", "URL of the database")
	flags.StringVar(&a.redis, "redis", "", "URL of Redis")
	flags.StringVar(&a.sink, "sink", "http://127.0.0.1:1/", "where mail.post posts to")
	flags.StringVar(&a.lane, "lane", waybill.DefaultLane, "lane of the receivers")
	flags.DurationVar(&a.lease, "lease", time.Minute, "lease of the receivers")
	flags.DurationVar(&a.poll, "poll", 50*time.Millisecond, "poll of the relay and of the queue")
	flags.IntVar(&a.batch, "batch", 50, "rows of a claim")
	flags.BoolVar(&a.windowOff, "window-off", false, "claim all that is due")
	flags.IntVar(&a.slots, "slots", 16, "slots of the worker")
	flags.DurationVar(&a.drain, "drain", 5*time.Second, "drain of the worker")
	flags.IntVar(&a.orders, "orders", 0, "orders to place")
	flags.DurationVar(&a.over, "over", 0, "time to place them in, evenly; 0 is at once")
	flags.IntVar(&a.ahead, "ahead", 0, "place no order while this many deliveries are owed; 0 is no bound")
	at := flags.String("at", "", "POINT:N=kill|term, what to do at the Nth time the point is reached")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	var err error
	a.hooks, err = newHooks(told, *at)
	return a, err
}

func (a *app) relay(ctx context.Context) error {
	return a.withQueue(func(q *asynq.Backend) error {
		r, err := relay.New(relay.Config{
			Store: a.store, Backend: queue{Backend: q, hooks: a.hooks}, Lane: a.lane, BatchSize: a.batch, Poll: a.poll, WindowOff: a.windowOff,
		})
		if err != nil {
			return err
		}
		return r.Run(ctx)
	})
}

func (a *app) worker(ctx context.Context) error {
	return a.withQueue(func(q *asynq.Backend) error {
		w, err := worker.New(worker.Config{
			Store: a.store, Backend: q, Slots: a.slots, Drain: a.drain, Observer: a.hooks.observe,
		})
		if err != nil {
			return err
		}
		return w.Run(ctx)
	})
}

// withQueue closes the client of Redis after f has returned, and not before.
func (a *app) withQueue(f func(*asynq.Backend) error) error {
	options, err := asynq.Options(a.redis)
	if err != nil {
		return err
	}
	client := redis.NewUniversalClient(options)
	defer client.Close()
	q, err := asynq.New(asynq.Config{Redis: client, Lane: a.lane, CheckInterval: a.poll})
	if err != nil {
		return err
	}
	return f(q)
}

package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

// OrderPlaced is the event of the examples.
type OrderPlaced struct {
	ID int `json:"id"`
}

// channel is a queue of one's own: the sending side is what a relay needs, and the
// receiving side calls Deliver.
type channel chan waybill.Message

// Enqueue sends what there is room for.
func (c channel) Enqueue(_ context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	results := waybill.AllResults(len(messages), waybill.EnqueueAccepted, nil)
	for i, message := range messages {
		select {
		case c <- message:
		default:
			results[i] = waybill.Result{Status: waybill.EnqueueNotSent, Err: errors.New("the channel is full")}
		}
	}
	return results, nil
}

// Any queue will do: here it is a channel, between a relay and a worker in one process.
func ExampleWorker_Deliver() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	quiet := slog.New(slog.DiscardHandler)

	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", func(_ context.Context, order OrderPlaced) error {
		fmt.Println("receipt for order", order.ID)
		stop() // one is enough here
		return nil
	}, waybill.Options{})
	store, err := sqlite.Open(ctx, sqlite.Memory, reg)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	queue := make(channel, 100)
	r, err := relay.New(relay.Config{Store: store, Backend: queue, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	w, err := worker.New(worker.Config{Store: store, Logger: quiet}) // without a Backend
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- r.Run(ctx) }()
	go func() { ended <- w.Run(ctx) }()
	go func() {
		for {
			select {
			case message := <-queue:
				go func() {
					if err := w.Deliver(ctx, message); err != nil {
						log.Print(err) // the row's lease brings it back
					}
				}()
			case <-ctx.Done():
				return
			}
		}
	}()

	err = store.InTx(ctx, func(tx *sql.Tx) error {
		_, err := store.Fire(ctx, tx, OrderPlaced{ID: 7})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(errors.Join(<-ended, <-ended))
	// Output:
	// receipt for order 7
	// <nil>
}

// Middlewares are written once, for all receivers. Here one tells how each run ended,
// and within it another keeps a receiver from being called.
func ExampleMiddleware() {
	telling := func(next worker.RunFunc) worker.RunFunc {
		return func(ctx context.Context, d *waybill.Delivery) error {
			begun := time.Now()
			err := next(ctx, d)
			waybill.LoggerFrom(ctx).Debug("run ended", "took", time.Since(begun))
			fmt.Printf("%s ended: %v\n", d.Receiver, err)
			return err
		}
	}
	closed := func(next worker.RunFunc) worker.RunFunc {
		return func(ctx context.Context, d *waybill.Delivery) error {
			if d.Receiver == "crm.sync" {
				return fmt.Errorf("closed at night: %w", waybill.RetryAfter(8*time.Hour))
			}
			return next(ctx, d)
		}
	}

	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "crm.sync", func(context.Context, OrderPlaced) error {
		fmt.Println("the crm was called")
		return nil
	}, waybill.Options{})
	run(reg, worker.Config{Middleware: []worker.Middleware{telling, closed}})
	// Output:
	// crm.sync ended: closed at night: retry after 8h0m0s
}

// run fires one event and delivers it to its one receiver.
func run(reg *waybill.Registry, config worker.Config) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store, err := sqlite.Open(ctx, sqlite.Memory, reg)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	config.Store, config.Logger = store, slog.New(slog.DiscardHandler)
	w, err := worker.New(config)
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	err = store.InTx(ctx, func(tx *sql.Tx) error {
		_, err := store.Fire(ctx, tx, OrderPlaced{ID: 7})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	rows, err := store.Claim(ctx, waybill.ClaimRequest{By: "example", Receivers: waybill.Keys(reg.Receivers()), Limit: 1, Lease: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range rows {
		if err := w.Deliver(ctx, row.Message); err != nil {
			log.Fatal(err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}
}

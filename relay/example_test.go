package relay_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/local"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

// OrderPlaced is the event of the examples.
type OrderPlaced struct {
	ID int `json:"id"`
}

// shop returns a store in memory, in which an order was just placed.
func shop(ctx context.Context, reg *waybill.Registry) (*sqlite.Store, error) {
	store, err := sqlite.Open(ctx, sqlite.Memory, reg)
	if err != nil {
		return nil, err
	}
	err = store.InTx(ctx, func(tx *sql.Tx) error {
		_, err := store.Fire(ctx, tx, OrderPlaced{ID: 7})
		return err
	})
	return store, err
}

var quiet = slog.New(slog.DiscardHandler)

// A relay runs until its context ends: at a signal, in a service. Here the first receipt
// is the signal.
func ExampleRelay_Run() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", func(_ context.Context, order OrderPlaced) error {
		fmt.Println("receipt for order", order.ID)
		stop()
		return nil
	}, waybill.Options{Lane: "mail"})
	store, err := shop(ctx, reg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	queue, queueErr := local.New(local.Config{}) // or Asynq, River, RabbitMQ
	r, relayErr := relay.New(relay.Config{Store: store, Backend: queue, Lane: "mail", Logger: quiet})
	w, workerErr := worker.New(worker.Config{Store: store, Backend: queue, Logger: quiet})
	if err := errors.Join(queueErr, relayErr, workerErr); err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 2)
	go func() { ended <- r.Run(ctx) }()
	go func() { ended <- w.Run(ctx) }() // in this process, or in others
	fmt.Println("stopped:", errors.Join(<-ended, <-ended))
	// Output:
	// receipt for order 7
	// stopped: <nil>
}

// Once hands off what is due and returns: for a job of cron's, or a script.
func ExampleRelay_Once() {
	ctx := context.Background()
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	for _, key := range []string{"mail.receipt", "search.index"} {
		waybill.On(reg, key, func(context.Context, OrderPlaced) error { return nil }, waybill.Options{})
	}
	store, err := shop(ctx, reg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	queue, err := local.New(local.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}

	r, err := relay.New(relay.Config{Store: store, Backend: queue, Logger: quiet})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		n, err := r.Once(ctx, 0)
		fmt.Println("handed off:", n, err)
	}
	// Output:
	// handed off: 2 <nil>
	// handed off: 0 <nil>
}

// Receivers that are declared with SiteRelay run beside the relay, on a worker of its
// own process; a lane that has no others needs no task queue.
func ExampleConfig_local() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "cache.purge", func(_ context.Context, order OrderPlaced) error {
		fmt.Println("purged order", order.ID)
		stop()
		return nil
	}, waybill.Options{Site: waybill.SiteRelay})
	store, err := shop(ctx, reg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	beside, besideErr := local.New(local.Config{})
	r, relayErr := relay.New(relay.Config{Store: store, Local: beside, Logger: quiet})
	w, workerErr := worker.New(worker.Config{Store: store, Backend: beside, Slots: 4, Logger: quiet})
	if err := errors.Join(besideErr, relayErr, workerErr); err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 2)
	go func() { ended <- r.Run(ctx) }()
	go func() { ended <- w.Run(ctx) }()
	fmt.Println("stopped:", errors.Join(<-ended, <-ended))
	// Output:
	// purged order 7
	// stopped: <nil>
}

// A mistake is told before the relay starts. One for a lane that nobody declared would look
// healthy, and never hand anything off.
func ExampleNew() {
	ctx := context.Background()
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", func(context.Context, OrderPlaced) error { return nil }, waybill.Options{Lane: "mail"})
	store, err := shop(ctx, reg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	_, err = relay.New(relay.Config{Store: store, Lane: "mial"})
	fmt.Println(err)
	// Output:
	// relay: unknown lane "mial"; declared: default, mail
}

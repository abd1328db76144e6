package local_test

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

// OrderPlaced is the event of the example.
type OrderPlaced struct {
	ID int `json:"id"`
}

// Everything in one process: the relay hands off to the worker beside it. What the queue
// holds ends with the process, and is still owed.
func ExampleNew() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
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
		fmt.Println(err)
		return
	}
	defer store.Close()

	queue, queueErr := local.New(local.Config{Capacity: 100})
	r, relayErr := relay.New(relay.Config{Store: store, Backend: queue, Logger: quiet})
	w, workerErr := worker.New(worker.Config{Store: store, Backend: queue, Logger: quiet})
	if err := errors.Join(queueErr, relayErr, workerErr); err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 2)
	go func() { ended <- r.Run(ctx) }()
	go func() { ended <- w.Run(ctx) }()

	err = store.InTx(ctx, func(tx *sql.Tx) error {
		_, err := store.Fire(ctx, tx, OrderPlaced{ID: 7})
		return err
	})
	if err != nil {
		fmt.Println(err)
		stop()
	}
	fmt.Println("stopped:", errors.Join(<-ended, <-ended))
	// Output:
	// receipt for order 7
	// stopped: <nil>
}

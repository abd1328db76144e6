package worker_test

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

// The process that takes orders runs the eager receiver itself, right after the commit.
// A relay and a worker, here or elsewhere, are what makes it certain: they do what this
// process does not, because it is busy, was not up yet, or died.
func ExampleEager() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	quiet := slog.New(slog.DiscardHandler)
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", func(_ context.Context, order OrderPlaced) error {
		fmt.Println("receipt for order", order.ID)
		stop()
		return nil
	}, waybill.Options{Eager: true})
	store, err := sqlite.Open(ctx, sqlite.Memory, reg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	eager, eagerErr := worker.NewEager(worker.EagerConfig{Store: store, Slots: 4, Logger: quiet})
	queue, queueErr := local.New(local.Config{})
	r, relayErr := relay.New(relay.Config{Store: store, Backend: queue, Logger: quiet})
	w, workerErr := worker.New(worker.Config{Store: store, Backend: queue, Logger: quiet})
	if err := errors.Join(eagerErr, queueErr, relayErr, workerErr); err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 3)
	go func() { ended <- eager.Run(ctx) }()
	go func() { ended <- r.Run(ctx) }()
	go func() { ended <- w.Run(ctx) }()

	err = store.InTx(ctx, func(tx *sql.Tx) error { // tells the Eager, at its commit
		_, err := store.Fire(ctx, tx, OrderPlaced{ID: 7})
		return err
	})
	if err != nil {
		fmt.Println(err)
		stop()
	}
	fmt.Println("stopped:", errors.Join(<-ended, <-ended, <-ended))
	// Output:
	// receipt for order 7
	// stopped: <nil>
}

package asynq_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	waybillasynq "github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

// A lane through Redis: the relay and the worker have a Backend of the same lane each, in
// as many processes as one likes.
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
	}, waybill.Options{Lane: "mail"})
	store, err := sqlite.Open(ctx, sqlite.Memory, reg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	server, err := miniredis.Run() // a Redis
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	options, err := waybillasynq.Options("redis://" + server.Addr())
	if err != nil {
		fmt.Println(err)
		return
	}
	client := redis.NewUniversalClient(options)
	defer client.Close() // after the worker has ended

	queue, queueErr := waybillasynq.New(waybillasynq.Config{Redis: client, Lane: "mail", Logger: quiet})
	r, relayErr := relay.New(relay.Config{Store: store, Backend: queue, Lane: "mail", Logger: quiet})
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

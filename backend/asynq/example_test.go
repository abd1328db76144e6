package asynq_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/alicebob/miniredis/v2"
	queue "github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	waybillasynq "github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

// OrderPlaced is the event of the example.
type OrderPlaced struct {
	ID int `json:"id"`
}

// A team that runs an Asynq server already mounts Waybill in its mux, beside its own
// tasks. The relay knows nothing of that.
func ExampleHandler() {
	ctx, stop := context.WithCancel(context.Background())
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
		log.Fatal(err)
	}
	defer store.Close()

	server, err := miniredis.Run() // a Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	options, err := waybillasynq.Options("redis://" + server.Addr())
	if err != nil {
		log.Fatal(err)
	}
	client := redis.NewUniversalClient(options)
	defer client.Close()

	// The relay, in this process or another.
	backend, err := waybillasynq.New(waybillasynq.Config{Redis: client, Lane: "mail", Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	r, err := relay.New(relay.Config{Store: store, Backend: backend, Lane: "mail", Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}

	// The team's server, and the worker behind it: without a Backend, and with a slot
	// for each task that the server runs at a time.
	w, err := worker.New(worker.Config{Store: store, Slots: 20, Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	mux := queue.NewServeMux()
	mux.HandleFunc("report:make", func(context.Context, *queue.Task) error { return nil })
	mux.Handle(waybill.MessageKind, waybillasynq.Handler(w.Deliver))
	own := queue.NewServerFromRedisClient(client, queue.Config{
		Concurrency:       20,
		Queues:            map[string]int{"default": 1, waybill.QueueName("mail"): 2},
		TaskCheckInterval: 50 * time.Millisecond,
		ShutdownTimeout:   30 * time.Second, // the worker's Drain, and more
		LogLevel:          queue.FatalLevel,
	})
	if err := own.Start(mux); err != nil {
		log.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- r.Run(ctx) }()
	go func() { ended <- w.Run(ctx) }()

	err = store.InTx(ctx, func(tx *sql.Tx) error {
		_, err := store.Fire(ctx, tx, OrderPlaced{ID: 7})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	<-ctx.Done() // told to stop: fetch no more, let runs end, and only then shut down
	own.Stop()
	err = errors.Join(<-ended, <-ended)
	own.Shutdown()
	fmt.Println(err)
	// Output:
	// receipt for order 7
	// <nil>
}

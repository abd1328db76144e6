package amqp_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	client "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

// OrderPlaced is the event of the example.
type OrderPlaced struct {
	ID int `json:"id"`
}

// A lane through RabbitMQ: the relay and the worker have a Backend of the same lane each,
// in as many processes as one likes. Either declares the queue, if it is not there.
func ExampleNew() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	quiet := slog.New(slog.DiscardHandler)
	lane := "mail-" + strings.ToLower(rand.Text()) // in this test nobody else's; else "mail"
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", func(_ context.Context, order OrderPlaced) error {
		fmt.Println("receipt for order", order.ID)
		stop() // one is enough here
		return nil
	}, waybill.Options{Lane: lane})
	store, err := sqlite.Open(ctx, sqlite.Memory, reg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	config, err := amqp.ParseURLs(os.Getenv("WAYBILL_TEST_AMQP")) // amqp://shop:secret@mq1,amqp://shop:secret@mq2
	if err != nil {
		fmt.Println(err)
		return
	}
	defer deleteQueue(config.URLs[0], lane)
	config.Lane, config.Logger = lane, quiet
	queue, err := amqp.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer queue.Close()

	r, relayErr := relay.New(relay.Config{Store: store, Backend: queue, Lane: lane, Logger: quiet})
	w, workerErr := worker.New(worker.Config{Store: store, Backend: queue, Logger: quiet})
	if err := errors.Join(relayErr, workerErr); err != nil {
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

// deleteQueue leaves the server as it was.
func deleteQueue(url, lane string) {
	connection, err := client.Dial(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err == nil {
		_, err = channel.QueueDelete(waybill.QueueName(lane), false, false, false)
	}
	if err != nil {
		fmt.Println(err)
	}
}

// The nodes of a cluster stand in one text, as in an environment variable.
func ExampleParseURLs() {
	config, err := amqp.ParseURLs("amqp://shop:secret@mq1/shop?queue_type=classic,amqp://shop:secret@mq2/shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(config.URLs), "nodes,", config.Type, "queue")

	_, err = amqp.ParseURLs("http://shop:secret@mq1")
	fmt.Println(errors.Is(err, amqp.ErrURL), strings.Contains(err.Error(), "secret"))
	// Output:
	// 2 nodes, classic queue
	// true false
}

package river_test

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"
	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/waybill-go/waybill/backend/river"
)

func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/shop")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	migrator, err := river.NewMigrator(pool, "") // or `bridge migrate`
	if err != nil {
		log.Fatal(err)
	}
	if _, err := migrator.Up(ctx); err != nil {
		log.Fatal(err)
	}
	backend, err := river.New(river.Config{Pool: pool, Lane: "mail"})
	if err != nil {
		log.Fatal(err)
	}
	_ = backend // for relay.Config and worker.Config
}

// A team that runs River already adds one worker, and one queue for each lane, to
// its own client.
func ExampleNewWithClient() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/shop")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	worker := river.NewWorker()
	workers := queue.NewWorkers()
	queue.AddWorker(workers, worker) // beside the team's own
	client, err := queue.NewClient(riverpgxv5.New(pool), &queue.Config{
		Workers: workers,
		Queues: map[string]queue.QueueConfig{
			queue.QueueDefault: {MaxWorkers: 100},
			"waybill-mail":     {MaxWorkers: 50}, // what worker.Config has as Slots
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	backend, err := river.NewWithClient(client, worker, river.Config{Pool: pool, Lane: "mail"})
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Start(ctx); err != nil {
		log.Fatal(err)
	}
	// Run Waybill's worker on the backend here, and when that has ended:
	_ = backend
	if err := client.Stop(ctx); err != nil {
		log.Fatal(err)
	}
}

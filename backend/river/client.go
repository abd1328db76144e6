package river

import (
	"context"
	"fmt"
	"log/slog"

	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
)

// clientFunc returns the client that inserts the jobs of one transaction.
type clientFunc[TTx any] func() (*queue.Client[TTx], error)

// insertOnly returns a new client for each transaction, which costs little: it is
// never started. A client announces a queue once in a while and no more, and that
// while begins as it inserts, not as that is committed. So the jobs beside a
// transaction that is rolled back, or committed late, would wait for the poll.
func insertOnly[TTx any](driver riverdriver.Driver[TTx], schema string, logger *slog.Logger) clientFunc[TTx] {
	return func() (*queue.Client[TTx], error) {
		return queue.NewClient(driver, &queue.Config{Schema: schema, MaxAttempts: 1, Logger: logger})
	}
}

// ofTeam returns a team's own client.
func ofTeam[TTx any](client *queue.Client[TTx]) clientFunc[TTx] {
	return func() (*queue.Client[TTx], error) { return client, nil }
}

// insert adds the jobs in a transaction.
func (client clientFunc[TTx]) insert(ctx context.Context, tx TTx, jobs []queue.InsertManyParams) error {
	c, err := client()
	if err == nil {
		_, err = c.InsertManyFastTx(ctx, tx, jobs)
	}
	if err != nil {
		return fmt.Errorf("insert jobs: %w", err)
	}
	return nil
}

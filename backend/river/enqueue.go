package river

import (
	"context"
	"fmt"
	"slices"

	queue "github.com/riverqueue/river"

	"github.com/waybill-go/waybill"
)

// batchSize bounds what one transaction of Enqueue inserts.
const batchSize = 1000

// sending is a message on its way.
type sending struct {
	job    queue.InsertManyParams
	result *waybill.Result
}

// Enqueue inserts the messages as jobs, up to 1000 in a transaction. A message
// that the database refuses is found by halving the batch, so that it costs the
// others nothing but time.
func (b *Backend) Enqueue(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	results := make([]waybill.Result, len(messages))
	var sendings []sending
	for i, message := range messages {
		job, err := b.job(message)
		if err != nil {
			results[i] = waybill.Result{Status: waybill.EnqueueRefused, Err: err}
			continue
		}
		sendings = append(sendings, sending{job, &results[i]})
	}
	var unwell error
	for batch := range slices.Chunk(sendings, batchSize) {
		if unwell != nil {
			settle(batch, waybill.EnqueueNotSent, unwell)
			continue
		}
		if err := b.send(ctx, batch); err != nil {
			unwell = fmt.Errorf("enqueue on %s: %w", b.queue, err)
		}
	}
	return results, unwell
}

// send inserts a batch and settles what became of each message. Its error is the
// queue's, not that of a message.
func (b *Backend) send(ctx context.Context, batch []sending) error {
	status, err := b.insert(ctx, batch)
	switch {
	case err == nil:
		settle(batch, waybill.EnqueueAccepted, nil)
		return nil
	case !b.database.refuses(err):
		settle(batch, status, err)
		return err
	case len(batch) == 1:
		settle(batch, waybill.EnqueueRefused, err)
		return nil
	}
	half := len(batch) / 2
	if err := b.send(ctx, batch[:half]); err != nil {
		settle(batch[half:], waybill.EnqueueNotSent, err)
		return err
	}
	return b.send(ctx, batch[half:])
}

func (b *Backend) insert(ctx context.Context, batch []sending) (waybill.EnqueueStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, b.config.Timeout)
	defer cancel()
	jobs := make([]queue.InsertManyParams, len(batch))
	for i, s := range batch {
		jobs[i] = s.job
	}
	return b.database.insert(ctx, jobs)
}

func settle(batch []sending, status waybill.EnqueueStatus, err error) {
	for _, s := range batch {
		*s.result = waybill.Result{Status: status, Err: err}
	}
}

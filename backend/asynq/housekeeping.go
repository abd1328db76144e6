package asynq

import (
	"context"
	"time"

	"github.com/hibiken/asynq"
)

// housekeepingInterval is how often filed-away tasks are deleted.
const housekeepingInterval = time.Hour

// keepHouse deletes archived tasks now and then, until ctx ends. Asynq archives
// what a crashed worker held; the row's lease has long brought that back. An
// archive of many thousands makes every later archiving fail half-way.
func (b *Backend) keepHouse(ctx context.Context) {
	ticker := time.NewTicker(housekeepingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			b.deleteArchived(ctx)
		}
	}
}

func (b *Backend) deleteArchived(ctx context.Context) {
	n, err := asynq.NewInspectorFromRedisClient(b.config.Redis).DeleteAllArchivedTasks(b.queue)
	switch {
	case err != nil:
		b.log.DebugContext(ctx, "deleting archived tasks failed", "error", err) // in an hour again
	case n > 0:
		b.log.InfoContext(ctx, "deleted archived tasks: messages of workers that died", "tasks", n)
	}
}

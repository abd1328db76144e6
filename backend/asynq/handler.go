package asynq

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/waybill-go/waybill"
)

// Handler mounts Waybill in the mux of an Asynq server that a team runs itself, beside
// its own tasks:
//
//	mux.Handle(waybill.MessageKind, waybillasynq.Handler(w.Deliver))
//
// deliver is Worker.Deliver of a worker without a Backend, whose Run runs beside
// the server. The server lists the lane's queue, waybill.QueueName(lane), in its
// Queues. Set its TaskCheckInterval to what a message may wait (Asynq's default is a
// second), its ShutdownTimeout above the worker's Drain, and the worker's Slots to the
// server's Concurrency.
//
// To Asynq every message is a success, as it is in a Consume: whether its row refused
// it, or its receiver failed, or deliver returned an error, which is logged as a
// warning. Retries, outcomes and debts are the row's. A task that is no message is
// dropped with a warning. Lines go to waybill.LoggerFrom: slog.Default(), unless the
// context that the server's BaseContext makes carries another.
//
// deliver gets the values of the task's context and not its end: neither a Redis that
// was away, nor an operator's cancel, nor the server's shutdown ends a run. A
// run that lasts longer than the server's ShutdownTimeout goes on under the
// worker's own Drain, while Asynq puts its task back into the queue: a copy that its
// row refuses. A program that stops calls the server's Stop, ends the worker's Run and
// waits for it, and then calls Shutdown.
func Handler(deliver waybill.Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		ctx = context.WithoutCancel(ctx)
		message, err := decode(task)
		if err != nil {
			id, _ := asynq.GetTaskID(ctx)
			waybill.LoggerFrom(ctx).WarnContext(ctx, "dropped a task that is no message",
				"task_id", id, "task_type", task.Type(), "bytes", len(task.Payload()), "error", err)
			return nil // done: it would be no message the next time either
		}
		if err := deliver(ctx, message); err != nil {
			waybill.LoggerFrom(ctx).WarnContext(ctx, "message not delivered, its row waits for its lease",
				"delivery_id", message.DeliveryID, "claimed_by", message.Claim.By,
				"claimed_at", message.Claim.At.String(), "error", err)
		}
		return nil
	})
}

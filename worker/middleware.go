package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
)

// RunFunc runs a receiver, or what is wrapped around it, on a delivery. The error is the
// outcome of the run, as a receiver's is.
type RunFunc func(ctx context.Context, d *waybill.Delivery) error

// Middleware wraps runs. It is called once, by New, and the RunFunc that it returns for
// every run of the worker, from many goroutines:
//
//	func timed(next worker.RunFunc) worker.RunFunc {
//		return func(ctx context.Context, d *waybill.Delivery) error {
//			begun := time.Now()
//			err := next(ctx, d)
//			waybill.LoggerFrom(ctx).Info("run ended", "took", time.Since(begun), "error", err)
//			return err
//		}
//	}
//
// What it returns is the outcome: it sees the very error that the receiver returned (a
// panic as a *waybill.PanicError) and may replace it, and one that does not call
// next decides the outcome alone. A panic of its own is an ordinary failed attempt. If
// the receiver ends its goroutine (see waybill.ErrGoexit) the middlewares around it
// end as well: their deferred functions are called.
//
// It runs within the run's limits: its context is the run's, which carries the
// delivery and a logger, and ends with the lease; see waybill.Receiver.Call. What it
// hands to next has to be that context, or one made from it. Around a transactional
// receiver it runs inside the transaction: what it has returned is not
// committed yet, and a success may still be rolled back.
//
// The delivery that it hands to next may be a changed copy, with another payload,
// say. The outcome is that of the row whatever the copy says.
type Middleware func(next RunFunc) RunFunc

// wrap makes one receiver of the middlewares, around whichever receiver runs. It is nil
// if there are none.
func wrap(middlewares []Middleware) (*waybill.Receiver, error) {
	if len(middlewares) == 0 {
		return nil, nil
	}
	run := RunFunc(callInnermost)
	for i := len(middlewares) - 1; i >= 0; i-- {
		if middlewares[i] == nil {
			return nil, fmt.Errorf("Config.Middleware[%d] is nil", i)
		}
		if run = middlewares[i](run); run == nil {
			return nil, fmt.Errorf("Config.Middleware[%d] returned no RunFunc", i)
		}
	}
	return &waybill.Receiver{Run: run}, nil
}

// innermost is what the middlewares of one run are around. It comes to the last of them
// by the context, because they were wrapped before it was known.
type innermost struct {
	receiver *waybill.Receiver
	tx       any
}

type innermostKey struct{}

var errForeignContext = errors.New("a middleware called the receiver with a context that is not made from the run's")

func callInnermost(ctx context.Context, d *waybill.Delivery) error {
	inner, ok := ctx.Value(innermostKey{}).(*innermost)
	if !ok {
		return errForeignContext
	}
	return inner.receiver.Call(ctx, inner.tx, d)
}

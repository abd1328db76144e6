package waybill

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// Call runs the receiver once on the delivery and returns its outcome. tx is nil
// for a plain receiver. A panic is returned as an ordinary error with its stack.
//
// The context that a receiver gets carries the delivery, for DeliveryFrom and
// LoggerFrom. A worker ends it, and context.Cause says why:
//
//   - ErrLeaseLost: the lease is over, but for a margin in which to return, or another
//     claim has the row. Whatever the run returns is recorded only if nobody has
//     claimed the row meanwhile.
//   - ErrTimeout: the run has lasted for the receiver's Timeout. What it returns is its
//     outcome.
//   - ErrStopping: the worker was stopped, and its drain is over. An error is no
//     attempt: the row is given back, and runs again elsewhere.
//
// A receiver that returns nil all the same has succeeded, whatever ended its context.
func (r *Receiver) Call(ctx context.Context, tx any, d *Delivery) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if DeliveryFrom(ctx) != d {
		ctx = WithDelivery(ctx, d)
	}
	if r.RunTx != nil {
		err = r.RunTx(ctx, tx, d)
	} else {
		err = r.Run(ctx, d)
	}
	if err != nil {
		_ = err.Error() // a nil pointer of an error type panics here, not where it would end the worker
	}
	return err
}

// ErrGoexit is the outcome of a receiver that ended its goroutine instead of returning.
// Call itself cannot tell, as it ends with it; a worker can.
var ErrGoexit = errors.New("the receiver ended its goroutine (runtime.Goexit, which FailNow of a testing.T calls as well): it has to return, with an error if it failed")

// PanicError is the outcome of a receiver that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap returns the value of the panic, if that was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

package waybill

import (
	"context"
	"fmt"
	"runtime/debug"
)

// Call runs the receiver once on the delivery and returns its outcome. tx is nil
// for a plain receiver. A panic is returned as an ordinary error with its stack.
func (r *Receiver) Call(ctx context.Context, tx any, d *Delivery) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	ctx = WithDelivery(ctx, d)
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

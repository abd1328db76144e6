package waybill

import (
	"context"
	"errors"
)

// TaskBackend is the sending side of one queue. A lane has one.
type TaskBackend interface {
	// Enqueue hands messages to the queue, in order, and says of each what
	// became of it: the results stand in the order of the messages, one each,
	// whatever the error. An error says why the queue as a whole is not well;
	// the relay then stops claiming for a while. It returns by ctx's deadline.
	//
	// A message may reach the queue although its result says otherwise, and may
	// reach it twice: the take on the row makes both harmless.
	Enqueue(ctx context.Context, messages []Message) ([]Result, error)
}

// Result is what became of one message.
type Result struct {
	Status EnqueueStatus
	Err    error // why, unless accepted
}

// EnqueueStatus says whether the queue has a message.
type EnqueueStatus int

const (
	// EnqueueUnknown: the answer was lost, so the message may be in the queue.
	// Its row waits for its lease.
	EnqueueUnknown EnqueueStatus = iota
	// EnqueueAccepted: the queue has the message.
	EnqueueAccepted
	// EnqueueRefused: the queue will not have this message. Its row is given
	// back and tried again after a backoff.
	EnqueueRefused
	// EnqueueNotSent: the message never left. Its row is given back at once.
	EnqueueNotSent
)

func (s EnqueueStatus) String() string {
	switch s {
	case EnqueueAccepted:
		return "accepted"
	case EnqueueRefused:
		return "refused"
	case EnqueueNotSent:
		return "not sent"
	default:
		return "unknown"
	}
}

// AllResults returns n results of one kind.
func AllResults(n int, status EnqueueStatus, err error) []Result {
	results := make([]Result, n)
	for i := range results {
		results[i] = Result{Status: status, Err: err}
	}
	return results
}

// TxBackend is a TaskBackend whose queue may be kept in the store's own database.
// A relay then claims rows and enqueues their messages in one transaction: a crash
// anywhere leaves both or neither.
type TxBackend interface {
	TaskBackend
	// EnqueueTx adds the messages to the queue in tx, a transaction that the
	// store hands out: they are there when it commits, and never were if it does
	// not. After an error the transaction can only be rolled back. It returns
	// ErrOtherDatabase, having done nothing, for a transaction that is not of the
	// queue's database.
	EnqueueTx(ctx context.Context, tx any, messages []Message) error
}

// ErrOtherDatabase says that store and queue do not share a database, so that they
// cannot share a transaction.
var ErrOtherDatabase = errors.New("the transaction is not one of the queue's database")

// Bounded is what a TaskBackend implements when it can hold only so much. A
// relay claims no more rows than there is room for.
type Bounded interface {
	// Room returns how many messages Enqueue would accept now.
	Room() int
	// Freed returns a channel that is signalled when there is room again.
	Freed() <-chan struct{}
}

// Checker is what a store or a backend implements when it can tell at start that
// it cannot work as configured. The error is for a person: it says what is wrong
// and what to do.
type Checker interface {
	Check(ctx context.Context) error
}

// Consumer is the receiving side of a queue.
type Consumer interface {
	// Consume calls handle for each message, at most concurrency calls at a
	// time, until ctx is cancelled; it then takes no further message, waits for
	// the calls that run and returns nil. It outlives an outage of the queue
	// and returns an error only for what no waiting can mend.
	//
	// A message is done when handle returns nil, whatever came of it. After an
	// error the queue may deliver the message again, or drop it: the row's
	// lease brings the delivery back either way. A body that is no message is
	// reported once and dropped.
	Consume(ctx context.Context, concurrency int, handle Handler) error
}

// Handler receives one message and returns when the worker has room for another:
// at once when the row refused the copy, else when the receiver has returned. So
// what a queue has handed out is what runs, and nothing is hoarded.
//
// Its context is not cancelled by trouble of the queue: the row, and not the
// queue, says how long a run may go on.
type Handler func(ctx context.Context, message Message) error

// Unordered is what a TaskBackend implements whose messages need not come out in the
// order they went in. That a later message was taken then says nothing of an earlier
// one, and a relay claims rows anew as soon as their leases are over.
type Unordered interface {
	// Unordered reports whether it is so.
	Unordered() bool
}

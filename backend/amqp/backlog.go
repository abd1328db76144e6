package amqp

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
)

// Backlog asks the broker how many messages are ready and how many slots consume,
// on a connection of its own that is kept. How many are being handled, and since
// when the oldest waits, the protocol cannot tell.
//
// A quorum queue whose leader is slow to answer is reported as empty and without
// consumers, so nothing at all is unknown, unless the broker has confirmed to this
// Backend that the queue is a classic one. A queue that does not exist is unknown
// too: on a node that is down it looks the same.
func (b *Backend) Backlog(ctx context.Context) (waybill.Backlog, error) {
	queue, err := b.inspector.look(ctx)
	if code(err) == amqp.NotFound {
		return waybill.Backlog{}, nil
	}
	if err != nil {
		return waybill.Backlog{}, fmt.Errorf("backlog of %s: %w", b.queue, err)
	}
	if queue.Messages == 0 && queue.Consumers == 0 && !b.topology.knownClassic() {
		return waybill.Backlog{}, nil
	}
	return waybill.Backlog{
		Ready:     waybill.Known(int64(queue.Messages)),
		Consumers: waybill.Known(int64(queue.Consumers)),
	}, nil
}

// inspector asks about the queue. Its session is made when it is first needed, and
// made anew after trouble, by whoever asks next.
type inspector struct {
	backend *Backend
	ctx     context.Context // ends with the Backend
	cancel  context.CancelCauseFunc
	turn    chan struct{} // held by the one who asks

	session *session
	channel *amqp.Channel // nil when the next has to be opened
}

func newInspector(b *Backend) *inspector {
	i := &inspector{backend: b, turn: make(chan struct{}, 1)}
	i.ctx, i.cancel = context.WithCancelCause(context.Background())
	return i
}

func (i *inspector) look(ctx context.Context) (queue amqp.Queue, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(i.ctx, func() { cancel(ErrClosed) })()
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-ctx.Done():
		return queue, context.Cause(ctx)
	}
	if i.ctx.Err() != nil {
		return queue, ErrClosed
	}
	if ctx.Err() != nil {
		return queue, context.Cause(ctx)
	}
	if err := i.connect(ctx); err != nil {
		return queue, err
	}
	err = i.session.call(ctx, rpcTimeout, "look at the queue", func() (err error) {
		if i.channel == nil {
			if i.channel, err = i.session.conn.Channel(); err != nil {
				return err
			}
		}
		queue, err = i.channel.QueueDeclarePassive(i.backend.queue, true, false, false, false, nil)
		return err
	})
	if err != nil {
		i.channel = nil // the broker has closed it
		if code(err) != amqp.NotFound {
			i.drop(err)
		}
	}
	return queue, err
}

func (i *inspector) connect(ctx context.Context) error {
	if i.session != nil {
		if i.session.alive() {
			return nil
		}
		i.drop(i.session.cause)
	}
	s, err := i.backend.dialer.dial(ctx, "inspect")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	i.session, i.channel = s, nil
	return nil
}

// drop gives the session up.
func (i *inspector) drop(cause error) {
	i.session.abandon(cause)
	i.session.close()
	i.session, i.channel = nil, nil
}

func (i *inspector) close() {
	i.cancel(ErrClosed)
	i.turn <- struct{}{} // whoever has it is about to return
	defer func() { <-i.turn }()
	if i.session != nil {
		i.session.close()
		i.session = nil
	}
}

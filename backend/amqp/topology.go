package amqp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// errStrict is why a session is refused with Config.Strict.
var errStrict = errors.New("the queue was declared otherwise; delete it, change Type, or do without Strict")

// topology is the queue as it is to be: durable, of its type, and nothing else,
// because the declarations of all that use the queue have to agree.
type topology struct {
	queue   string
	kind    string
	passive bool
	strict  bool
	log     *slog.Logger

	// known says that the broker has confirmed the type.
	known atomic.Bool
	told  atomic.Bool
}

// ensure sees to it that the queue is there. One that somebody has declared
// otherwise will do, and so will one that this user may not declare.
func (t *topology) ensure(ctx context.Context, s *session) error {
	if t.passive {
		if _, err := t.look(ctx, s); err != nil {
			return fmt.Errorf("%w; it is for somebody else to declare, because of passive", err)
		}
		return nil
	}
	err := s.aside(ctx, "declare queue "+t.queue, func(channel *amqp.Channel) error {
		_, err := channel.QueueDeclare(t.queue, true, false, false, false, amqp.Table{amqp.QueueTypeArg: t.kind})
		return err
	})
	t.known.Store(err == nil)
	if err == nil || !s.alive() {
		return err
	}
	if _, lookErr := t.look(ctx, s); lookErr != nil {
		return err
	}
	switch {
	case code(err) != amqp.PreconditionFailed:
		t.log.Debug("the queue may not be declared, but is there", "error", err)
	case t.strict:
		return fmt.Errorf("%w: %w", errStrict, err)
	case t.told.CompareAndSwap(false, true):
		t.log.Warn("the queue was declared otherwise and is used as it is", "error", err)
	}
	return nil
}

// look returns what the broker says of the queue, or an error if it is not there.
// It needs no permission, and tells nothing of how the queue was declared.
func (t *topology) look(ctx context.Context, s *session) (queue amqp.Queue, err error) {
	err = s.aside(ctx, "look for queue "+t.queue, func(channel *amqp.Channel) (err error) {
		queue, err = channel.QueueDeclarePassive(t.queue, true, false, false, false, nil)
		return err
	})
	return queue, err
}

// knownClassic reports whether the broker has confirmed that the queue is a
// classic one.
func (t *topology) knownClassic() bool { return t.kind == classic && t.known.Load() }

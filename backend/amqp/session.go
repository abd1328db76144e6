package amqp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// rpcTimeout bounds what the broker is asked and answers.
	rpcTimeout = 10 * time.Second
	// closeTimeout bounds an orderly end.
	closeTimeout = 2 * time.Second
)

// session is one connection, from its login to its end. It is never mended: at any
// trouble it is thrown away as a whole, with its channels, and another takes its
// place. Whoever sees trouble says so with fail; the supervisor alone closes it.
type session struct {
	conn   *amqp.Connection
	socket *socket
	place  string

	dead     chan struct{} // closed once the session is of no more use
	once     sync.Once
	cause    error          // why; to be read when dead is closed
	watchers sync.WaitGroup // end with the connection
}

func newSession(conn *amqp.Connection, socket *socket, place string) *session {
	s := &session{conn: conn, socket: socket, place: place, dead: make(chan struct{})}
	s.watchEnd("connection", conn.NotifyClose(make(chan *amqp.Error, 1)))
	return s
}

// watchEnd fails the session when the library reports the end of the connection,
// or of a channel.
func (s *session) watchEnd(what string, ended <-chan *amqp.Error) {
	s.watchers.Go(func() {
		err, ok := <-ended
		if !ok {
			err = amqp.ErrClosed
		}
		if s.conn.IsClosed() {
			what = "connection" // and the channel with it
		}
		s.fail(fmt.Errorf("%s to %s ended: %w", what, s.place, err))
	})
}

// fail makes the session dead. Only the first cause is kept.
func (s *session) fail(cause error) {
	s.once.Do(func() {
		s.cause = cause
		close(s.dead)
	})
}

// abandon is for a session whose peer does not answer: it frees every call that
// waits for it.
func (s *session) abandon(cause error) {
	s.fail(cause)
	s.socket.kill()
}

func (s *session) alive() bool {
	select {
	case <-s.dead:
		return false
	default:
		return true
	}
}

// serve returns when the session is dead, and why, or when ctx ends.
func (s *session) serve(ctx context.Context) error {
	select {
	case <-s.dead:
		return s.cause
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close ends the connection, in order if the broker answers in time, and waits
// until nothing of it is left.
func (s *session) close() {
	s.fail(ErrClosed)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.conn.CloseDeadline(time.Now().Add(closeTimeout))
	}()
	// The library sets the deadline of the socket anew for its own ends.
	timer := time.AfterFunc(closeTimeout, s.socket.kill)
	<-ended
	timer.Stop()
	s.socket.kill()
	s.watchers.Wait()
}

// call runs what the library asks of the broker. It waits for the answer without
// limit, so the session is abandoned when ctx or the timeout is over.
func (s *session) call(ctx context.Context, timeout time.Duration, what string, rpc func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer in %s: %w", timeout, context.DeadlineExceeded))
	defer cancel()
	release := context.AfterFunc(ctx, func() {
		s.abandon(fmt.Errorf("%s at %s: %w", what, s.place, context.Cause(ctx)))
	})
	err := rpc()
	if !release() {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s at %s: %w", what, s.place, err)
	}
	return nil
}

// aside runs rpc on a channel of its own, because an error of the broker closes
// the channel.
func (s *session) aside(ctx context.Context, what string, rpc func(*amqp.Channel) error) error {
	return s.call(ctx, rpcTimeout, what, func() error {
		channel, err := s.conn.Channel()
		if err != nil {
			return err
		}
		err = rpc(channel)
		if closeErr := channel.Close(); err == nil {
			err = closeErr
		}
		return err
	})
}

// code returns the broker's reply code, or 0 for an error that is not its own.
func code(err error) int {
	var reply *amqp.Error
	if errors.As(err, &reply) {
		return reply.Code
	}
	return 0
}

package river

import (
	"context"
	"errors"
	"sync"
	"time"
)

// startTimeout bounds one try to start a client.
const startTimeout = 10 * time.Second

// cutTimeout is more than a client needs that has lost its database: River tries
// three times to lay down the leadership, and sleeps 7s in between.
const cutTimeout = 15 * time.Second

// session is a River client that works jobs, with what it stands on.
type session struct {
	client interface {
		Start(ctx context.Context) error
		Stop(ctx context.Context) error
		Stopped() <-chan struct{}
	}
	cut   func() // ends what the client waits for in the database
	close func() // releases what it stands on; its calls fail from then on

	release context.CancelFunc
}

// errStartTooLong says that the database took the connection and no more.
var errStartTooLong = errors.New("no answer in " + startTimeout.String())

// start starts the client. It lives on after ctx, so that its end is one in order.
func (s *session) start(ctx context.Context) error {
	life, release := context.WithCancel(context.WithoutCancel(ctx))
	s.release = release
	timer := time.AfterFunc(startTimeout, release)
	unhook := context.AfterFunc(ctx, release)
	err := s.client.Start(life)
	switch tooLong, ended := !timer.Stop(), !unhook(); {
	case ended:
		return ctx.Err()
	case tooLong:
		return errStartTooLong
	}
	return err
}

// stop makes the client fetch no more, and does not wait.
func (s *session) stop() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.client.Stop(now) // the end of now is its only error
}

// end ends the client and reports whether it ended by itself in time.
func (s *session) end(limit time.Duration) bool {
	s.stop()
	if !s.stopped(limit) {
		s.abandon()
		return false
	}
	s.release()
	hanging := time.AfterFunc(limit, s.cut)
	defer hanging.Stop()
	s.close()
	return true
}

// abandon ends the client by force.
func (s *session) abandon() {
	s.release()
	s.cut()
	var closing sync.WaitGroup
	closing.Go(s.close)
	if s.stopped(cutTimeout) {
		closing.Wait()
	}
}

func (s *session) stopped(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.client.Stopped():
		return true
	case <-timer.C:
		return false
	}
}

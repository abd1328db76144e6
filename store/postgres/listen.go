package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// wakeTimeout bounds what a wake may cost the one who fired.
const wakeTimeout = time.Second

// channel is what wakes are sent on.
func (s *Store) channel() string { return s.schema + "_due" }

// Wake tells the relays that rows have become due: call it after the commit of a
// transaction that fired. A wake that fails, or is lost, costs no more than a
// relay's poll.
func (s *Store) Wake(ctx context.Context, lanes ...string) {
	if !s.wakeQueue.CompareAndSwap(false, true) {
		return // one that was not sent yet stands for this one too
	}
	s.waking.Lock()
	defer s.waking.Unlock()
	s.wakeQueue.Store(false)
	// What was committed is owed, also when the one who fired has left since.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(wakeTimeout, s.timeout))
	defer cancel()
	if _, err := s.pool.Exec(ctx, `SELECT pg_notify($1, '')`, s.channel()); err != nil {
		s.logger.DebugContext(ctx, "relays were not woken; their poll finds what was fired", "error", err)
	}
}

// Listen calls wake whenever rows may have become due, and once at the start. It
// has a connection of its own, not one of the pool's, returns the error when
// that is lost, and nil when ctx ends.
func (s *Store) Listen(ctx context.Context, lane string, wake func()) error {
	conn, err := s.listen(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("listen for wakes: %w", err)
	}
	defer s.within(context.WithoutCancel(ctx), conn.Close)
	for wake(); ; {
		heard, err := s.hear(ctx, conn)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("listen for wakes: %w", err)
		}
		if heard {
			wake()
		}
	}
}

func (s *Store) listen(ctx context.Context) (conn *pgx.Conn, err error) {
	pool := s.pool.Config()
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, pool.ConnConfig); err != nil {
			return nil, err
		}
	}
	err = s.within(ctx, func(ctx context.Context) error {
		if conn, err = pgx.ConnectConfig(ctx, pool.ConnConfig); err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "LISTEN "+pgx.Identifier{s.channel()}.Sanitize())
		return err
	})
	if err != nil && conn != nil {
		s.within(context.WithoutCancel(ctx), conn.Close)
	}
	return conn, err
}

// hear waits for a notification. After a silence of two calls' time it pings: a
// server that went away without a word would be waited for without end.
func (s *Store) hear(ctx context.Context, conn *pgx.Conn) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, 2*s.timeout)
	defer cancel()
	_, err := conn.WaitForNotification(waiting)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() == nil && pgconn.Timeout(err):
		return false, s.within(ctx, conn.Ping)
	default:
		return false, err
	}
}

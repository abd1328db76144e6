package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waybill-go/waybill"
)

// probeWait is how long a notification may take that a listener sends to itself. It is
// waited for half of the time there is at most: the answer that is asked for then, of a
// server that is well, brings along what was sent before.
const probeWait = 5 * time.Second

// probeChannel is what that is sent on. It has one of its own: where nobody hears it,
// the pooler is left with a connection that listens to what nobody else sends.
func (s *Store) probeChannel() string { return s.schema + "_probe" }

// Listen calls wake whenever rows of the lane may have become due, and once at the
// start, when it has seen that notifications arrive. It has a connection of its own,
// not one of the pool's, returns the error when that is lost, and nil when ctx ends.
// After a silence of two calls' time it asks the server: one that went away without a
// word is noticed within three calls' time.
//
// Behind a pooler in transaction mode nothing would ever be heard, nor over a *sql.DB
// whose driver is not pgx's: there the error wraps waybill.ErrDeaf.
func (s *Store) Listen(ctx context.Context, lane string, wake func()) error {
	err := s.listen(ctx, lane, wake)
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("listen for wakes: %w", err)
}

// CheckListen reports whether a listener would hear: nil if it would, an error that
// wraps waybill.ErrDeaf if it would not, and any other if that cannot be told. It
// takes no longer than a call.
func (s *Store) CheckListen(ctx context.Context) error {
	err := s.within(ctx, func(ctx context.Context) error {
		l, err := s.connectListener(ctx)
		if err != nil {
			return err
		}
		defer l.close(ctx)
		sent, err := l.prove(ctx)
		if !sent {
			err = fmt.Errorf("send a notification: %w", err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("check whether wakes are heard: %w", err)
	}
	return nil
}

func (s *Store) listen(ctx context.Context, lane string, wake func()) error {
	l, err := s.connectListener(ctx)
	if err != nil {
		return err
	}
	defer l.close(ctx)
	l.lane, l.wake = lane, wake
	// A pool that has no connection left says nothing about this one: the proof is
	// put off then, until nothing was heard for a while.
	if sent, err := l.prove(ctx); sent && err != nil {
		return err
	}
	if err := l.exec(ctx, "LISTEN "+quote(s.channel())); err != nil {
		return err
	}
	for wake(); ; {
		if err := l.hear(ctx); err != nil {
			return err
		}
	}
}

// listener is a connection that hears wakes.
type listener struct {
	store  *Store
	conn   *pgx.Conn
	lane   string
	wake   func()
	proven bool // something has arrived
}

// connectListener connects with the pool's settings and begins to listen to probes.
func (s *Store) connectListener(ctx context.Context) (*listener, error) {
	l := &listener{store: s}
	err := s.within(ctx, func(ctx context.Context) (err error) {
		l.conn, err = s.db.connect(ctx)
		return err
	})
	if errors.Is(err, errNotPgx) {
		return nil, fmt.Errorf("%w: %w: open the *sql.DB with pgx's (github.com/jackc/pgx/v5/stdlib), or poll, with relay.Config.PollOnly", waybill.ErrDeaf, err)
	}
	if err != nil {
		return nil, err
	}
	if err := l.exec(ctx, "LISTEN "+quote(s.probeChannel())); err != nil {
		l.close(ctx)
		return nil, err
	}
	return l, nil
}

func quote(channel string) string { return pgx.Identifier{channel}.Sanitize() }

func (l *listener) exec(ctx context.Context, sql string) error {
	return l.store.within(ctx, func(ctx context.Context) error {
		_, err := l.conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

func (l *listener) close(ctx context.Context) {
	// It fails on a connection that is lost, which is closed then.
	_ = l.store.within(context.WithoutCancel(ctx), l.conn.Close)
}

// prove has the pool notify this connection while it is idle, and waits for what a
// connection of a session's own is sent at once. It reports whether the notification
// was sent: without that it has shown nothing.
func (l *listener) prove(ctx context.Context) (sent bool, err error) {
	nonce := rand.Text()
	sending, cancel := context.WithTimeout(ctx, min(wakeTimeout, l.store.timeout))
	defer cancel()
	if err := l.store.notify(sending, l.store.probeChannel(), []string{nonce}); err != nil {
		return false, err
	}
	wait := min(probeWait, l.store.timeout/2)
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)/2)
	}
	if heard, err := l.await(ctx, nonce, wait); heard || err != nil {
		return true, err
	}
	// Is it deaf, or gone? An answer may bring along what was late.
	if err := l.ping(ctx); err != nil {
		return true, err
	}
	if heard, err := l.await(ctx, nonce, wait/10); heard || err != nil {
		return true, err
	}
	// Asked by way of the same pooler, the session that listens is likely to be the
	// one that answers.
	_ = l.exec(ctx, "UNLISTEN "+quote(l.store.probeChannel()))
	return true, fmt.Errorf("%w: the server answers, and a notification did not come in %s: is a pooler in transaction mode in between? Give the relay a direct or session-pooled connection, or --wake=poll", waybill.ErrDeaf, wait.Round(100*time.Millisecond))
}

// await hears until the probe with the nonce comes, or the time is over.
func (l *listener) await(ctx context.Context, nonce string, wait time.Duration) (heard bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		notification, err := l.next(ctx, waiting)
		if notification == nil || err != nil {
			return false, err
		}
		if notification.Payload == nonce {
			l.proven = true
			return true, l.exec(ctx, "UNLISTEN "+quote(l.store.probeChannel()))
		}
	}
}

// hear waits for a notification, or for the end of a silence: a server that went away
// without a word would be waited for without end.
func (l *listener) hear(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, 2*l.store.timeout)
	defer cancel()
	notification, err := l.next(ctx, waiting)
	if notification != nil || err != nil {
		return err
	}
	if !l.proven {
		if sent, err := l.prove(ctx); sent {
			return err
		}
	}
	return l.ping(ctx)
}

// next returns the next notification, and wakes if it is a wake of the lane. It
// returns none when the time of waiting, and not that of ctx, is over.
func (l *listener) next(ctx, waiting context.Context) (*pgconn.Notification, error) {
	notification, err := l.conn.WaitForNotification(waiting)
	if err != nil {
		if ctx.Err() == nil && pgconn.Timeout(err) && errors.Is(waiting.Err(), context.DeadlineExceeded) {
			return nil, nil
		}
		return nil, err
	}
	if notification.Channel == l.store.channel() {
		l.proven = true
		if notification.Payload == allLanes || notification.Payload == l.lane {
			l.wake()
		}
	}
	return notification, nil
}

func (l *listener) ping(ctx context.Context) error { return l.store.within(ctx, l.conn.Ping) }

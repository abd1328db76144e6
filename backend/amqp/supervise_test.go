package amqp

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// fakeLink is a link that dies when told.
type fakeLink struct {
	dead   chan struct{}
	closed atomic.Bool
}

func (l *fakeLink) alive() bool {
	select {
	case <-l.dead:
		return false
	default:
		return true
	}
}

func (l *fakeLink) serve(ctx context.Context) error {
	select {
	case <-l.dead:
		return errors.New("the link died")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *fakeLink) close() { l.closed.Store(true) }

// broker opens links, or does not.
type broker struct {
	mu    sync.Mutex
	err   error
	tries int
	last  *fakeLink
}

func (b *broker) open(context.Context) (*fakeLink, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tries++
	if b.err != nil {
		return nil, b.err
	}
	b.last = &fakeLink{dead: make(chan struct{})}
	return b.last, nil
}

func (b *broker) mend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = nil
}

func (b *broker) opens() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tries
}

// supervised runs a test in a bubble, where a minute takes no time.
func supervised(t *testing.T, err error, test func(t *testing.T, b *broker, s *supervisor[*fakeLink])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &broker{err: err}
		s := newSupervisor(b.open, slog.New(slog.DiscardHandler))
		test(t, b, s)
		s.stop()
		if b.last != nil && !b.last.closed.Load() {
			t.Error("a link was left open")
		}
		if _, err := s.current(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v, want ErrClosed", err)
		}
	})
}

func TestSupervisorWaitsLongerEachTime(t *testing.T) {
	t.Parallel()
	supervised(t, errors.New("refused"), func(t *testing.T, b *broker, s *supervisor[*fakeLink]) {
		s.start()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if b.opens() < 15 || b.opens() > 50 {
			t.Errorf("%d tries in two minutes", b.opens())
		}
		b.mend()
		time.Sleep(lastWait + lastWait/2)
		if _, ok := s.await(t.Context()); !ok {
			t.Error("no link though the broker is back")
		}
	})
}

func TestSupervisorTriesWhenAsked(t *testing.T) {
	t.Parallel()
	supervised(t, errors.New("refused"), func(t *testing.T, b *broker, s *supervisor[*fakeLink]) {
		for range 600 { // a minute of somebody who asks all the time
			if _, err := s.current(t.Context()); !errors.Is(err, ErrUnavailable) {
				t.Fatalf("error %v, want ErrUnavailable", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if b.opens() > 70 {
			t.Errorf("%d tries in a minute, want one a second", b.opens())
		}
		b.mend()
		begun := time.Now()
		for {
			if _, err := s.current(t.Context()); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(begun); took > askWait+10*time.Millisecond {
			t.Errorf("noticed %v after the outage", took)
		}
	})
}

// What a person has to mend is tried four times a minute, whoever asks.
func TestSupervisorDoesNotInsist(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"no vhost":       &amqp.Error{Code: amqp.NotAllowed, Server: true},
		"wrong password": amqp.ErrCredentials, // which may also be a lost connection
		"strict":         errStrict,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			supervised(t, err, func(t *testing.T, b *broker, s *supervisor[*fakeLink]) {
				for range 600 {
					_, _ = s.current(t.Context())
					time.Sleep(100 * time.Millisecond)
				}
				if b.opens() < 4 || b.opens() > 6 {
					t.Errorf("%d tries in a minute", b.opens())
				}
			})
		})
	}
}

func TestSupervisorReplacesDeadLink(t *testing.T) {
	t.Parallel()
	supervised(t, nil, func(t *testing.T, b *broker, s *supervisor[*fakeLink]) {
		for range 3 {
			link, err := s.current(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute) // so that its death is the first trouble
			close(link.dead)
			next, err := s.current(t.Context())
			if err != nil || next == link {
				t.Fatalf("link %p after %p, %v", next, link, err)
			}
			if !link.closed.Load() {
				t.Error("the dead link was left open")
			}
		}
	})
}

// A link that dies as soon as it is up is trouble too, however often it comes up.
func TestSupervisorDoesNotStorm(t *testing.T) {
	t.Parallel()
	supervised(t, nil, func(t *testing.T, b *broker, s *supervisor[*fakeLink]) {
		until := time.Now().Add(2 * time.Minute)
		for time.Now().Before(until) {
			if link, ok := s.await(t.Context()); ok {
				close(link.dead)
			}
		}
		if b.opens() > 50 {
			t.Errorf("%d links in two minutes", b.opens())
		}
	})
}

func TestSupervisorCurrentHeedsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSupervisor(func(ctx context.Context) (*fakeLink, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.current(ctx); !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if _, ok := s.await(ctx); ok {
			t.Error("a link came from nowhere")
		}
		s.stop()
	})
}

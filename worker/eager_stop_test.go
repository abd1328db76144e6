package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/worker"
)

// tellingStore tells an Eager what the test says, and claims nothing.
type tellingStore struct {
	waybill.EagerStore
	tell func(context.Context, waybill.EagerFired) bool

	mu   sync.Mutex
	seen map[string]bool // lanes of what was claimed, or woken
}

func (s *tellingStore) OnCommit(f func(context.Context, waybill.EagerFired) bool) (func(), error) {
	s.tell = f
	return func() {}, nil
}

func (s *tellingStore) ClaimFired(_ context.Context, request waybill.FiredRequest) ([]waybill.ClaimedRow, error) {
	for _, id := range request.Events {
		s.Wake(context.Background(), fmt.Sprint(id))
	}
	return nil, nil
}

func (s *tellingStore) Wake(_ context.Context, lanes ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lane := range lanes {
		s.seen[lane] = true
	}
}

// What is committed while it stops is claimed, or left to relays that are woken for it.
func TestEagerForgetsNothingAtItsStop(t *testing.T) {
	t.Parallel()
	b := newBench(t, eagerRegistry(t, succeed, waybill.Options{}))
	for range 200 {
		store := &tellingStore{EagerStore: b.store, seen: map[string]bool{}}
		ctx, cancel := context.WithCancel(t.Context())
		log := &firstLine{seen: make(chan struct{})}
		eager, err := worker.NewEager(worker.EagerConfig{Store: store, Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- eager.Run(ctx) }()
		<-log.seen // it has started
		var (
			committing sync.WaitGroup
			last       atomic.Int64
			promised   sync.Map
		)
		for range 4 {
			committing.Go(func() {
				for ctx.Err() == nil {
					id := last.Add(1)
					if store.tell(ctx, waybill.EagerFired{Events: []int64{id}, Lanes: []string{fmt.Sprint(id)}}) {
						promised.Store(fmt.Sprint(id), true)
					}
				}
			})
		}
		for last.Load() < 200 { // in full swing
			runtime.Gosched()
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		committing.Wait()
		promised.Range(func(lane, _ any) bool {
			if !store.seen[lane.(string)] {
				t.Errorf("event %s was neither claimed nor left to the relays", lane)
			}
			return true
		})
	}
}

// firstLine closes a channel when something is written to it.
type firstLine struct {
	once sync.Once
	seen chan struct{}
}

func (f *firstLine) Write(text []byte) (int, error) {
	f.once.Do(func() { close(f.seen) })
	return len(text), nil
}

func TestEagerRunsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, eagerRegistry(t, succeed, waybill.Options{}))
	eager, stop := b.eagerly(worker.EagerConfig{})
	stop()
	if err := eager.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "runs once") {
		t.Errorf("the second Run: %v", err)
	}
}

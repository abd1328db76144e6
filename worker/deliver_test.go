package worker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/worker"
)

// alone runs a worker on the bench that has no backend.
func (b *bench) alone(config worker.Config) *work {
	b.Helper()
	config.Store, config.Observer = b.fault, b.seen.observe
	config.Logger, b.log = logtest.New()
	return start(b.T, config)
}

// handIn delivers messages, each on a goroutine of its own.
func (w *work) handIn(ctx context.Context, messages ...waybill.Message) <-chan error {
	answers := make(chan error, len(messages))
	for _, message := range messages {
		go func() { answers <- w.Deliver(ctx, message) }()
	}
	return answers
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	b := newBench(t, registry(t, func(_ context.Context, d *waybill.Delivery) error {
		runs.Add(1)
		if d.ID == 2 {
			return errors.New("sold out")
		}
		return nil
	}, map[string]waybill.Options{"a": {}}))
	w := b.alone(worker.Config{})
	b.fire(3, "parcel.sent", `{}`)
	messages := b.claim()
	never := waybill.Message{DeliveryID: 4711, Claim: messages[0].Claim}
	wantNil(t, w.handIn(t.Context(), append(messages, never)...), 4)
	poll.Until(t, "three outcomes", func() bool { return len(b.seen.of(waybill.ObservedAck)) == 3 })
	wantNil(t, w.handIn(t.Context(), messages...), 3) // repeated: their rows refuse them
	w.stop()
	b.wantRow(1, waybill.Succeeded, 1, 1)
	b.wantRow(2, waybill.Failed, 1, 1)
	b.wantRow(3, waybill.Succeeded, 1, 1)
	if runs.Load() != 3 {
		t.Errorf("%d runs, want 3", runs.Load())
	}
	b.seen.wantCount(t, waybill.ObservedRefusal, 4)
}

func TestDeliverIsBoundedByTheSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g gauge
		store := newLedger(registry(t, func(context.Context, *waybill.Delivery) error {
			g.enter()
			defer g.leave()
			time.Sleep(time.Second)
			return nil
		}, map[string]waybill.Options{"a": {}}))
		w := start(t, worker.Config{Store: store, Slots: 3})
		synctest.Wait()
		free := func(want int) {
			t.Helper()
			synctest.Wait()
			if got := w.Free(); got != want {
				t.Errorf("%d slots are free, want %d", got, want)
			}
		}
		free(3)
		first := w.handIn(t.Context(), store.claimed("a", 2)...)
		free(1)
		rest := w.handIn(t.Context(), store.claimed("a", 10)...)
		free(0)
		wantNil(t, first, 2)
		free(0) // those that waited have them
		wantNil(t, rest, 10)
		free(3)
		w.stop()
		free(0)
		if g.most.Load() != 3 || store.count(waybill.Succeeded) != 12 {
			t.Errorf("at most %d ran at a time and %d succeeded, want 3 and 12", g.most.Load(), store.count(waybill.Succeeded))
		}
	})
}

// The end of the context declines a message that has no slot, and ends no run.
func TestDeliverIsDeclinedWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ended error
		store := newLedger(registry(t, func(ctx context.Context, _ *waybill.Delivery) error {
			time.Sleep(10 * time.Second)
			ended = ctx.Err()
			return nil
		}, map[string]waybill.Options{"a": {}}))
		w := start(t, worker.Config{Store: store, Slots: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		running := w.handIn(ctx, store.claimed("a", 1)...)
		synctest.Wait()
		wantNil(t, w.handIn(ctx, store.claimed("a", 1)...), 1)
		if took := time.Since(begun).Round(100 * time.Millisecond); took != time.Second {
			t.Errorf("a message without a slot was declined after %s, want when its context ended: 1s", took)
		}
		wantNil(t, running, 1)
		for range 20 { // slots are free now, and it makes no difference
			wantNil(t, w.handIn(ctx, store.claimed("a", 1)...), 1)
		}
		w.stop()
		if row := store.row(1); row.Status != waybill.Succeeded || ended != nil {
			t.Errorf("row %+v after a run whose context ended with %v, want a success that saw no end", row, ended)
		}
		for id := range int64(21) {
			if row := store.row(id + 2); row.Status != waybill.Claimed || row.HandedOffAt != 0 || row.starts != 0 {
				t.Errorf("row %+v, want it given back", row)
			}
		}
	})
}

func TestDeliverSaysThatARowCouldNotBeGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(registry(t, succeed, map[string]waybill.Options{"a": {}}))
		store.on("GiveBack", func(context.Context) error { return errDown })
		w := start(t, worker.Config{Store: store})
		ctx, cancel := context.WithCancel(t.Context())
		synctest.Wait()
		cancel()
		if err := w.Deliver(ctx, store.claimed("a", 1)[0]); !errors.Is(err, errDown) {
			t.Errorf("Deliver returned %v, want the store's error", err)
		}
		w.stop()
	})
}

func TestDeliverWhileTheWorkerDoesNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(registry(t, succeed, map[string]waybill.Options{"a": {}}))
		logger, _ := logtest.New()
		w, err := worker.New(worker.Config{Store: store, Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		messages := store.claimed("a", 4)
		refused := func(ctx context.Context, message waybill.Message, after time.Duration) error {
			t.Helper()
			begun := time.Now()
			err := w.Deliver(ctx, message)
			if took := time.Since(begun); !errors.Is(err, worker.ErrNotRunning) || took != after {
				t.Errorf("Deliver returned %v after %s, want %v after %s", err, took, worker.ErrNotRunning, after)
			}
			if row := store.row(message.DeliveryID); row.Claim != message.Claim || row.HandedOffAt == 0 || row.starts != 0 {
				t.Errorf("row %+v, want it untouched", row)
			}
			return err
		}
		if w.Free() != 0 {
			t.Errorf("%d slots are free of a worker that does not run", w.Free())
		}
		refused(t.Context(), messages[0], 5*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := refused(ctx, messages[1], time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v does not say why it waited no longer", err)
		}

		early := make(chan error, 1) // comes before Run does
		go func() { early <- w.Deliver(t.Context(), messages[2]) }()
		time.Sleep(time.Second)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		wantNil(t, early, 1)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if row := store.row(3); row.Status != waybill.Succeeded {
			t.Errorf("row %+v, want the success of the delivery that came before Run", row)
		}
		refused(t.Context(), messages[3], 0)
		if err := w.Run(t.Context()); err == nil {
			t.Error("Run ran twice")
		}
	})
}

// Deliveries that come all through the stop, from many goroutines at once: each is run,
// declined, or told that nothing runs, and Run returns however many go on coming.
func TestDeliverDuringTheStop(t *testing.T) {
	t.Parallel()
	for round := range 15 {
		store := newLedger(registry(t, func(context.Context, *waybill.Delivery) error {
			time.Sleep(100 * time.Microsecond)
			return nil
		}, map[string]waybill.Options{"a": {}}))
		w := start(t, worker.Config{Store: store, Slots: 4})
		var (
			all       sync.WaitGroup
			answered  atomic.Int64
			mu        sync.Mutex
			done      []int64           // answered with nil
			untouched []waybill.Message // told that nothing runs
		)
		for range 16 {
			all.Go(func() {
				for refusals := 0; refusals < 3; { // on after the first: Run has to end all the same
					message := store.claimed("a", 1)[0]
					err := w.Deliver(t.Context(), message)
					answered.Add(1)
					mu.Lock()
					switch {
					case errors.Is(err, worker.ErrNotRunning):
						refusals++
						untouched = append(untouched, message)
					case err != nil:
						t.Errorf("Deliver returned %v", err)
						refusals = 3
					default:
						done = append(done, message.DeliveryID)
					}
					mu.Unlock()
				}
			})
		}
		poll.Until(t, "deliveries are on their way", func() bool { return answered.Load() > 100 })
		time.AfterFunc(time.Duration(round)*100*time.Microsecond, w.cancel)
		if err := w.ended(); err != nil {
			t.Errorf("Run returned %v", err)
		}
		rows := store.all() // as Run leaves them
		all.Wait()
		for _, id := range done {
			row := rows[id-1]
			ran := row.Status == waybill.Succeeded && row.starts == 1
			givenBack := row.Status == waybill.Claimed && row.HandedOffAt == 0 && row.starts == 0
			if !ran && !givenBack {
				t.Errorf("row %+v, want one that ran, or was given back", row)
			}
		}
		for _, message := range untouched {
			if row := store.row(message.DeliveryID); row.Claim != message.Claim || row.HandedOffAt == 0 {
				t.Errorf("row %+v, want it untouched", row)
			}
		}
	}
}

// While receivers finish, what comes is still given back, and what ran is recorded.
func TestDeliverIsDeclinedDuringTheDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLedger(registry(t, func(context.Context, *waybill.Delivery) error {
			time.Sleep(10 * time.Second)
			return nil
		}, map[string]waybill.Options{"a": {}}))
		w := start(t, worker.Config{Store: store, Slots: 2})
		running := w.handIn(t.Context(), store.claimed("a", 2)...)
		synctest.Wait()
		waiting := w.handIn(t.Context(), store.claimed("a", 3)...)
		synctest.Wait()
		w.cancel()
		wantNil(t, waiting, 3)
		time.Sleep(5 * time.Second)
		wantNil(t, w.handIn(t.Context(), store.claimed("a", 3)...), 3)
		if w.Free() != 0 {
			t.Errorf("%d slots are free of a worker that stops", w.Free())
		}
		wantNil(t, running, 2)
		if err := w.ended(); err != nil {
			t.Error(err)
		}
		if got := store.count(waybill.Succeeded); got != 2 {
			t.Errorf("%d succeeded, want the 2 that ran", got)
		}
		for id := range int64(6) {
			if row := store.row(id + 3); row.HandedOffAt != 0 || row.starts != 0 {
				t.Errorf("row %+v, want it given back", row)
			}
		}
	})
}

func TestDeliverAfterReceiversWereLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		store := newLedger(registry(t, func(context.Context, *waybill.Delivery) error { <-hold; return nil },
			map[string]waybill.Options{"a": {}}))
		queue := newHand() // which takes its time as well
		queue.linger = make(chan struct{})
		w := start(t, worker.Config{Store: store, Backend: queue, Drain: time.Second})
		stuck := w.handIn(t.Context(), store.claimed("a", 1)...)
		synctest.Wait()
		w.cancel()
		if w.Free() != 0 {
			t.Errorf("%d slots are free of a worker that stops", w.Free())
		}
		if err := w.ended(); err == nil {
			t.Error("Run returned nil, want an error that counts the receiver left behind")
		}
		refused := func() {
			t.Helper()
			if err := w.Deliver(t.Context(), store.claimed("a", 1)[0]); !errors.Is(err, worker.ErrNotRunning) {
				t.Errorf("Deliver returned %v, want %v", err, worker.ErrNotRunning)
			}
		}
		refused()
		close(queue.linger)
		synctest.Wait()
		refused()
		close(hold)
		wantNil(t, stuck, 1)
		synctest.Wait()
		if row := store.row(1); row.Status != waybill.Succeeded {
			t.Errorf("row %+v, want the late outcome", row)
		}
	})
}

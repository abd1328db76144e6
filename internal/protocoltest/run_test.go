package protocoltest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-go/waybill"
)

// ending is how a receiver ends.
type ending string

const (
	succeeds  ending = "succeeds"
	fails     ending = "fails"
	panics    ending = "panics"
	permanent ending = "permanent"
	retries   ending = "retry after"
	defers    ending = "defer"
)

var (
	endings   = []ending{succeeds, succeeds, succeeds, fails, panics, permanent, retries, defers}
	errBroken = errors.New("connection refused")
	errDied   = errors.New("the process died")
)

const askedFor = 30 * time.Second // by retries and defers

func (e ending) end() error {
	switch e {
	case fails:
		return errBroken
	case panics:
		panic("index out of range")
	case permanent:
		return fmt.Errorf("order 7: %w", waybill.Permanent(errBroken))
	case retries:
		return fmt.Errorf("throttled: %w", waybill.RetryAfter(askedFor))
	case defers:
		return fmt.Errorf("throttled: %w", waybill.Defer(askedFor))
	}
	return nil
}

// receiverReturns ends a run, in one way or another.
func (m *machine) receiverReturns() {
	r := pick(m, "run", m.activeRuns(false))
	m.finish(r, pick(m, "it", endings))
}

// finish calls the receiver of a run and leaves its outcome to its worker, unless
// its own transaction has recorded it.
func (m *machine) finish(r *run, how ending) {
	m.Helper()
	receiver, _ := m.db.store.Registry().Receiver(r.debt.receiver)
	var err error
	if receiver.Transactional() {
		var recorded bool
		if recorded, err = m.runTx(r, receiver, how); recorded || errors.Is(err, errDied) {
			return
		}
	} else {
		err = receiver.Call(withBehaviour(m.ctx, func(context.Context, any) error { return how.end() }), nil, r.delivery)
	}
	r.active = false
	w := m.workerOf(r)
	random := rapid.Float64Range(0, 0.999).Draw(m.T, "jitter")
	out := waybill.Judge(receiver, r.delivery, err, r.claim.At.Time(), random)
	m.checkOutcome(r, receiver, how, err, out)
	w.acks = append(w.acks, waybill.Ack{Message: r.message(), Outcome: out})
}

func (m *machine) workerOf(r *run) *worker {
	for _, w := range m.workers {
		for _, other := range w.runs {
			if other == r {
				return w
			}
		}
	}
	m.Fatalf("nobody runs row %v", r.debt)
	return nil
}

// checkOutcome fails unless the outcome is that of the ending. Its finer points are
// the business of the root package's tests.
func (m *machine) checkOutcome(r *run, receiver *waybill.Receiver, how ending, err error, out waybill.Outcome) {
	m.Helper()
	want, last := waybill.Failed, r.delivery.Attempt >= r.delivery.MaxAttempts
	uncounted := how == defers && receiver.GiveUpAfter > 0
	switch {
	case err == nil:
		want = waybill.Succeeded
	case waybill.IsPermanent(err), last && !uncounted:
		want = waybill.Dead
	case uncounted && out.Status == waybill.Dead && r.claim.At.Time().Sub(r.delivery.DueAt) >= receiver.GiveUpAfter:
		want = waybill.Dead // deferred for too long
	}
	if out.Status != want || out.Attempted == uncounted || out.Deferred != uncounted {
		m.Fatalf("attempt %d of %d of %s ended with %v: %+v, want %s", r.delivery.Attempt, r.delivery.MaxAttempts, receiver.Key, err, out, want)
	}
}

// runTx runs a transactional receiver. While it runs, others go on, if the store
// lets them; its context may end; its process may die. If it returns nil, its
// writing and its acknowledgement are committed together just if the claim is then
// still the row's.
func (m *machine) runTx(r *run, receiver *waybill.Receiver, how ending) (recorded bool, err error) {
	m.Helper()
	success := waybill.Ack{Message: r.message(), Outcome: waybill.Judge(receiver, r.delivery, nil, time.Time{}, 0)}
	cut := "not"
	if !m.healthy {
		cut = pick(m, "its context ends", []string{cut, cut, cut, cut, "before it begins", "before it writes", "after it wrote"})
	}
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	endAt := func(point string) {
		if cut == point {
			cancel()
		}
	}
	endAt("before it begins")
	landed, err := m.db.store.RunTx(ctx, success, func(ctx context.Context, tx any) error {
		endAt("before it writes")
		behaviour := func(ctx context.Context, tx any) error {
			if err := m.db.effect(ctx, tx, r.debt.id); err != nil {
				return err
			}
			endAt("after it wrote")
			return how.end()
		}
		err := receiver.Call(withBehaviour(ctx, behaviour), tx, r.delivery)
		m.meanwhile(r)
		if !r.active { // its worker died meanwhile
			return errDied
		}
		return err
	})
	current := r.debt.held(r.claim)
	var changes []change
	switch {
	case err != nil && landed:
		m.Fatalf("run of row %v: the ack landed, and there is the error %v", r.debt, err)
	case err == nil && (how != succeeds || landed != current):
		m.Fatalf("run of row %v that %s under %s: landed %t", r.debt, how, r.claim, landed)
	case err != nil && how == succeeds && cut == "not" && r.active:
		m.Fatalf("run of row %v: %v", r.debt, err)
	case landed:
		changes = append(changes, acknowledged(r.debt.id, success.Outcome))
	}
	if err == nil {
		r.active = false // landed or lost, the worker is through with it
	}
	m.observe(false, changes...)
	if err == nil && !m.healthy && rapid.IntRange(0, 9).Draw(m.T, "its answer is lost at 9") == 9 {
		return false, errUnheard // for all its worker knows, the run failed
	}
	return err == nil, err
}

// meanwhile does what others do while a transactional receiver runs.
func (m *machine) meanwhile(r *run) {
	if !m.db.concurrent || m.healthy {
		return
	}
	m.inTx = r
	defer func() { m.inTx = nil }()
	steps := m.steps()
	names := slices.Sorted(maps.Keys(steps))
	if rapid.IntRange(0, 5).Draw(m.T, "the clock meanwhile at 5") == 5 {
		m.clockStepsBack()
	}
	for range rapid.IntRange(0, 4).Draw(m.T, "steps meanwhile") {
		name := pick(m, "meanwhile", filter(names, func(name string) bool { return steps[name].can() }))
		m.Logf("meanwhile %s", name)
		steps[name].do()
	}
}

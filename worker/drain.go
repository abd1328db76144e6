package worker

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// flushers are the goroutines behind the batchers.
type flushers struct {
	worker *Worker
	done   sync.WaitGroup
}

func (w *Worker) startFlushers() *flushers {
	// Every slot runs a receiver or is among those gathered: none is left that
	// could bring another message.
	allWait := func(gathered int) bool { return gathered+int(w.running.Load()) >= cap(w.slots) }
	// No slot is taken: none could bring another outcome.
	allFree := func(int) bool { return len(w.slots) == 0 }
	w.takes = newBatcher(w.take, allWait)
	w.acks = newBatcher(w.record, allFree)
	w.giveBacks = newBatcher(w.giveBack, func(int) bool { return false })
	w.pauses = newBatcher(w.recordPauses, func(int) bool { return true })
	f := &flushers{worker: w}
	f.done.Go(w.takes.run)
	f.done.Go(w.acks.run)
	f.done.Go(w.giveBacks.run)
	f.done.Go(w.pauses.run)
	return f
}

// stop ends the flushers, when the door is shut and nobody is inside.
func (f *flushers) stop() {
	close(f.worker.takes.queue)
	close(f.worker.acks.queue)
	close(f.worker.giveBacks.queue)
	close(f.worker.pauses.queue)
	f.done.Wait()
}

// startDrain gives running receivers the drain, and no more.
func (w *Worker) startDrain() {
	timer := time.AfterFunc(w.drain, func() { w.cutOff(waybill.ErrStopping) })
	context.AfterFunc(w.runs, func() { timer.Stop() })
}

// await waits until the queue is closed, every receiver has returned and every
// outcome is written or given up, and ends the flushers then; left is how many
// receivers did not return. Cancelled receivers have one grace to return after the
// drain, and what is to be written another: a store that does not answer cannot
// hold the worker longer.
func (w *Worker) await(consumed <-chan error, flushers *flushers) (left int64, err error) {
	ended := make(chan error, 1)
	go func() {
		err := <-consumed
		w.door.empty()
		flushers.stop()
		ended <- err
	}()
	select {
	case err := <-ended:
		return 0, err
	case <-w.runs.Done():
	}
	for graces := 1; ; graces++ {
		timer := time.NewTimer(returnGrace)
		select {
		case err := <-ended:
			timer.Stop()
			return 0, err
		case <-timer.C:
			if left := w.running.Load(); left > 0 {
				return left, nil
			}
			if graces > 1 {
				w.giveUp()
			}
		}
	}
}

package worker

import "time"

// batcher gathers single requests into batched statements. It has one flusher:
// two would halve the batches and double the commits.
type batcher[In, Out any] struct {
	// flush answers every request, in order. It bounds its own time.
	flush func(requests []In) ([]Out, error)
	// last reports that no further request can join the so many that are there
	// before they are flushed: waiting for company is waiting for nothing.
	last  func(gathered int) bool
	queue chan request[In, Out]
}

type request[In, Out any] struct {
	in     In
	answer chan<- answer[Out]
}

type answer[Out any] struct {
	out Out
	err error
}

func newBatcher[In, Out any](flush func([]In) ([]Out, error), last func(int) bool) *batcher[In, Out] {
	return &batcher[In, Out]{flush: flush, last: last, queue: make(chan request[In, Out], flushRows)}
}

// do hands in one request and waits for its answer.
func (b *batcher[In, Out]) do(in In) (Out, error) {
	answers := make(chan answer[Out], 1)
	b.queue <- request[In, Out]{in, answers}
	a := <-answers
	return a.out, a.err
}

// run flushes until the queue is closed and empty.
func (b *batcher[In, Out]) run() {
	for first := range b.queue {
		requests := b.gather(first)
		ins := make([]In, len(requests))
		for i, r := range requests {
			ins[i] = r.in
		}
		outs, err := b.flush(ins)
		for i, r := range requests {
			a := answer[Out]{err: err}
			if err == nil {
				a.out = outs[i]
			}
			r.answer <- a
		}
	}
}

// gather collects requests until the batch is full, its first has waited long
// enough, or nobody is left who could join it.
func (b *batcher[In, Out]) gather(first request[In, Out]) []request[In, Out] {
	requests := []request[In, Out]{first}
	timer := time.NewTimer(flushWait)
	defer timer.Stop()
	for len(requests) < flushRows {
		select {
		case r, ok := <-b.queue:
			if !ok {
				return requests
			}
			requests = append(requests, r)
			continue
		default:
		}
		if b.last(len(requests)) {
			return requests
		}
		select {
		case r, ok := <-b.queue:
			if !ok {
				return requests
			}
			requests = append(requests, r)
		case <-timer.C:
			return requests
		}
	}
	return requests
}

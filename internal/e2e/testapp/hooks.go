package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/store/postgres"
)

// points of the protocol at which the process can be hit.
var points = []string{
	"claimed",  // the relay has claimed rows and enqueued none of them
	"halfway",  // half of what it claimed is in the queue
	"enqueued", // all of it is, and the relay does not know yet
	"running",  // a receiver has done its work and has not returned
	"ran",      // a receiver has returned and its outcome is not written
	"acked",    // an outcome is written, others are on their way
}

// hooks does one thing to the process, at the Nth time a point is reached.
type hooks struct {
	told   <-chan struct{} // closed when the process has been told to stop
	point  string
	left   atomic.Int64
	signal syscall.Signal
}

// newHooks reads POINT:N=kill or POINT:N=term; nothing is asked for by "".
func newHooks(told <-chan struct{}, text string) (*hooks, error) {
	h := &hooks{told: told}
	if text == "" {
		return h, nil
	}
	where, what, _ := strings.Cut(text, "=")
	point, times, _ := strings.Cut(where, ":")
	n, err := strconv.ParseInt(times, 10, 64)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("-at %s: want POINT:N=kill", text)
	}
	for _, known := range points {
		if point == known {
			h.point = point
		}
	}
	h.left.Store(n)
	h.signal = map[string]syscall.Signal{"kill": syscall.SIGKILL, "term": syscall.SIGTERM}[what]
	if h.point == "" || h.signal == 0 {
		return nil, fmt.Errorf("-at %s: the points are %s, the signals kill and term", text, strings.Join(points, ", "))
	}
	return h, nil
}

// at is called at each point. Whoever brings the count to its end goes no
// further: it is dead, or it waits until the signal has been seen.
func (h *hooks) at(point string) {
	if point != h.point || h.left.Add(-1) != 0 {
		return
	}
	fmt.Fprintf(os.Stderr, "testapp: %s at %s\n", h.signal, point)
	if err := syscall.Kill(os.Getpid(), h.signal); err != nil {
		panic(err)
	}
	<-h.told
}

func (h *hooks) observe(seen waybill.Observation) {
	switch seen.Kind {
	case waybill.ObservedRun:
		h.at("ran")
	case waybill.ObservedAck:
		h.at("acked")
	}
}

// store is the real store, with a hook after a claim.
type store struct {
	*postgres.Store
	hooks *hooks
}

func (s store) Claim(ctx context.Context, request waybill.ClaimRequest) ([]waybill.ClaimedRow, error) {
	rows, err := s.Store.Claim(ctx, request)
	if len(rows) > 0 {
		s.hooks.at("claimed")
	}
	return rows, err
}

// queue is the real queue, with hooks in the middle and after an enqueue.
type queue struct {
	*asynq.Backend
	hooks *hooks
}

func (q queue) Enqueue(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	if q.hooks.point != "halfway" || len(messages) < 2 {
		results, err := q.Backend.Enqueue(ctx, messages)
		q.hooks.at("enqueued")
		return results, err
	}
	first, rest := messages[:len(messages)/2], messages[len(messages)/2:]
	results, err := q.Backend.Enqueue(ctx, first)
	q.hooks.at("halfway")
	if err != nil {
		return append(results, waybill.AllResults(len(rest), waybill.EnqueueNotSent, err)...), err
	}
	more, err := q.Backend.Enqueue(ctx, rest)
	return append(results, more...), err
}

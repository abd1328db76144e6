package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/plot"
	"github.com/waybill-go/waybill/ops"
	"github.com/waybill-go/waybill/sizing"
)

// live is what a running lane tells, beside what is worked out from that.
type live struct {
	Lane string    `json:"lane"`
	AsOf time.Time `json:"as_of"`
	sizing.Observed
	// ExpectedWait is what a row that becomes due now waits for a worker, on average: all
	// that is in the queue and due, at the rate as it is.
	ExpectedWait sizing.Seconds `json:"expected_wait_seconds"`
	// QueueError is why the queue could not be asked. Rows that wait under a claim stand
	// in for it.
	QueueError string `json:"queue_error,omitempty"`
}

// checkLive refuses a lane that nobody would be asked about.
func (q *sizeQuestion) checkLive(cmd *cobra.Command) error {
	if cmd.Flags().Changed("lane") && !q.fromLive {
		return usagef("--lane is for --live: without it nothing is asked of a lane")
	}
	return nil
}

// observe asks the store, and the lane's queue if a backend is named, and fills in what
// was not typed.
func (a *app) observe(cmd *cobra.Command, q *sizeQuestion) error {
	running, queueError, err := a.running(cmd, q.lane)
	if err != nil {
		return err
	}
	q.live = &live{Lane: q.lane, AsOf: running.Now.Time(), Observed: sizing.Observe(running), QueueError: queueError}
	return q.fillIn(q.live.Observed)
}

func (a *app) running(cmd *cobra.Command, lane string) (running sizing.Running, queueError string, err error) {
	if err := a.declareFor(false); err != nil {
		return running, "", err
	}
	if err := a.registry.CheckLane(lane); err != nil {
		return running, "", usagef("%v", err)
	}
	queues, closeQueues, err := a.statusQueues(cmd)
	if err != nil {
		return running, "", err
	}
	defer closeQueues()
	store, done, err := a.historyStore(cmd)
	if err != nil {
		return running, "", err
	}
	defer done()
	return ops.Running(cmd.Context(), store, a.registry, lane, queues[lane])
}

// historyStore opens a store that can tell how its rows went.
func (a *app) historyStore(cmd *cobra.Command) (store ops.HistoryStore, done func(), err error) {
	opened, err := a.checkedStore(cmd, 0)
	if err != nil {
		return nil, nil, err
	}
	store, ok := opened.(ops.HistoryStore)
	if !ok {
		opened.Close()
		return nil, nil, errors.New("this store cannot tell how its rows went")
	}
	return store, opened.Close, nil
}

// fillIn takes the live figures for those that were not typed. A rate that was typed, or
// that workers and runs that were typed make, is taken instead of the measured one, which
// is then not missed either.
func (q *sizeQuestion) fillIn(o sizing.Observed) error {
	l := &q.load
	typed := l.Drain.Given() || l.Workers.Given() && l.Service.Given()
	if !typed {
		if o.Problem != nil {
			return o.Problem
		}
		l.Drain, l.Samples, q.lowerBound = o.Load.Drain, o.Load.Samples, o.LowerBound
	}
	either(&l.Ahead, o.Load.Ahead)
	either(&l.Workers, o.Load.Workers)
	either(&l.Service, o.Load.Service)
	either(&l.CV, o.Load.CV)
	either(&l.Arrivals, o.Load.Arrivals)
	either(&l.Lease, o.Load.Lease)
	l.Heartbeat = o.Load.Heartbeat
	return nil
}

// either leaves a figure that was typed, and else takes the live one.
func either[T int | float64 | time.Duration](to *sizing.Figure[T], live sizing.Figure[T]) {
	if !to.Given() {
		*to = live
	}
}

// unknownLive are the errors of a live question that say nothing of its lease: with
// --check they are no verdict.
func (q *sizeQuestion) unknownLive(err error) error {
	var (
		usage   *usageError
		wrong   *mistakes
		refused *sizing.Refusal
	)
	switch {
	case errors.As(err, &refused) && q.check:
		return q.unanswered(err)
	case errors.As(err, &refused):
		return refusal(err)
	case !q.check || errors.As(err, &usage) || errors.As(err, &wrong):
		return err
	}
	return &exitError{exitUnknown, err}
}

// ofLive words what is wrong with live figures.
func (q *sizeQuestion) ofLive(err error) error {
	var refused *sizing.Refusal
	if errors.As(err, &refused) && errors.Is(err, sizing.ErrArrivals) && q.load.Arrivals.Source == sizing.FromLive {
		return &sizing.Refusal{Reason: refused.Reason, Problem: refused.Problem, Hint: refused.Hint + "; or give --arrivals, if these are a burst that ends"}
	}
	return err
}

// checkLowerBound refuses a verdict that more than a lower bound of the rate might turn:
// a lease that is long enough for slow workers is so for fast ones, and no other answer
// holds.
func (q *sizeQuestion) checkLowerBound(v verdict) error {
	if !q.lowerBound {
		return nil
	}
	if v != fine {
		return &sizing.Refusal{
			Reason: sizing.ErrNeverBusy,
			Problem: fmt.Sprintf("the queue of lane %s ran empty all the time, so the %s/s that settled are what arrives, and nobody saw what workers can do",
				q.lane, plot.Number(q.load.Drain.Value)),
			Hint: "ask while rows wait, name the queue with --backend, or give --rate or --workers and --run",
		}
	}
	return nil
}

// addLive adds what a running lane tells to the report.
func (r *sizeReport) addLive() {
	q := r.question
	if q.live == nil {
		return
	}
	waiting := float64(q.live.Queued + q.live.Due)
	q.live.ExpectedWait = sizing.Seconds(min(waiting/r.input("drain_per_second"), 1e9) * 1e9)
	r.Live = q.live
	warnings := q.live.Warnings
	if q.live.QueueError != "" {
		warnings = append(warnings, "the queue could not be asked, and rows that wait under a claim stand in for it: "+oneLine(q.live.QueueError))
	}
	if q.lowerBound {
		warnings = append(warnings, fmt.Sprintf("the queue of lane %s ran empty all the time: the rate is what arrives, and workers may do more", q.lane))
	}
	r.Warnings = append(warnings, r.Warnings...)
}

// measured reports whether the rate was, and not typed or worked out.
func (r *sizeReport) measured() bool {
	samples, ok := r.Inputs.Get("samples")
	return ok && samples.Source == sizing.FromLive
}

// write tells what was seen, beside the wait that is worked out.
func (l *live) write(text *strings.Builder) {
	fmt.Fprintf(text, "\nLane %s as it runs\n", l.Lane)
	fmt.Fprintf(text, "  %s rows are in the queue, and %s more due: one that becomes due now waits about %s\n", count(l.Queued), count(l.Due), upTo(l.ExpectedWait))
	if l.Takes > 0 {
		fmt.Fprintf(text, "  of the last %s rows taken 99 of 100 had waited up to %s in the queue, half of them up to %s, the last one %s\n",
			count(l.Takes), upTo(l.WaitP99), upTo(l.WaitP50), upTo(l.LastWait))
	}
	if l.OldestWait > 0 {
		fmt.Fprintf(text, "  the oldest row in the queue has waited %s\n", upTo(l.OldestWait))
	}
	if l.Settled > 0 {
		fmt.Fprintf(text, "  of the last %s in which %s rows were settled, the queue never ran empty for %s\n",
			span(l.Span.Duration().Round(time.Second)), count(l.Settled), span(l.Busy.Duration().Round(100*time.Millisecond)))
	}
}

package sizing

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/waybill-go/waybill"
)

// Running is a lane as it runs, at one moment of the database's clock.
type Running struct {
	Lane string
	Now  waybill.Stamp
	// Rows are the newest rows of the lane, whatever became of them, in any order.
	Rows []waybill.HistoryRow

	// Waiting rows were handed off and not taken; the oldest of them at WaitingSince.
	// Running rows are with workers. Due rows nobody has claimed; the oldest of them
	// became available at DueSince. A moment is zero where there are no rows.
	Waiting      int
	WaitingSince waybill.Stamp
	Running      int
	Due          int
	DueSince     waybill.Stamp

	// Depth is how many messages the queue says that it has, Consumers how many it can
	// have workers on at once. Both may be unknown.
	Depth, Consumers waybill.Reading[int64]

	// Lease is the shortest hand-off lease of the lane's receivers.
	Lease Figure[time.Duration]
	// LongRuns says that no run is bound by that lease: receivers extend their own, or
	// have others for their runs.
	LongRuns bool
	// Paused says that the lane stands still.
	Paused bool
}

// Observed is what a running lane tells of itself.
type Observed struct {
	// Load is what Size is asked with: live figures, none where a figure is not known.
	// Its backlog is what is in the queue and due; but where relays hold due rows back,
	// as they do with a window, what is in the queue: those rows use up no lease.
	Load Load `json:"-"`
	// Problem says why there is no drain, or none that one can count on: a *Refusal, or
	// nil. Whoever gives a drain has no use for it.
	Problem  error    `json:"-"`
	Warnings []string `json:"-"`

	Queued   int  `json:"queued_rows"`
	Due      int  `json:"due_rows"`
	HeldBack bool `json:"held_back"`

	// Settled is how many rows a run settled, of those that were looked at; Span is from
	// the first of them until now.
	Settled int     `json:"settled_rows"`
	Span    Seconds `json:"span_seconds"`
	// Busy is for how long the queue never ran empty in that time, BusyRows what was
	// settled in it.
	Busy     Seconds `json:"busy_seconds"`
	BusyRows int     `json:"busy_settled_rows"`
	// LowerBound says that the drain is no more than what was settled while workers may
	// have been idle.
	LowerBound bool `json:"drain_is_lower_bound"`

	// Takes is how many rows were taken, the rest how long they had waited in the queue:
	// half of them, 99 of 100, and the one that was taken last.
	Takes    int     `json:"takes"`
	WaitP50  Seconds `json:"queue_wait_p50_seconds"`
	WaitP99  Seconds `json:"queue_wait_p99_seconds"`
	LastWait Seconds `json:"last_queue_wait_seconds"`
	// OldestWait is how long the oldest row that still waits has done so.
	OldestWait Seconds `json:"oldest_queue_wait_seconds"`
	RunP99     Seconds `json:"run_p99_seconds"`
}

// Observe measures a running lane: what is ahead, what workers settle while they have
// work, how long runs take and rows wait, and what arrives besides.
func Observe(r Running) Observed {
	o := Observed{Due: r.Due, HeldBack: r.holdsBack()}
	o.Load = Load{Lease: r.Lease, Heartbeat: r.LongRuns}
	o.ahead(r)
	o.waits(r)
	runs, settled := finished(r.Rows)
	o.Settled, o.RunP99 = len(settled), Seconds(runs.quantile(0.99))
	if consumers, ok := r.Consumers.Value(); ok && consumers > 0 {
		o.Load.Workers = Live(int(min(consumers, mostWorkers)), "what the queue can have workers on at once")
	}
	if o.Problem = o.standstill(r, settled); o.Problem == nil && len(settled) < fewestSamples {
		o.Problem = refuse(ErrFewSamples, "measure for longer, or give the drain: nine tenths of a typed one are counted on",
			"only %d settled rows of lane %s are behind its drain, and it needs %d", len(settled), r.Lane, fewestSamples)
	}
	if o.Problem == nil {
		o.drain(r, runs, settled)
	}
	return o
}

// ahead finds out what the next row has before it.
func (o *Observed) ahead(r Running) {
	of := fmt.Sprintf("%d wait under a claim", r.Waiting)
	o.Queued = r.Waiting
	if depth, ok := r.Depth.Value(); ok {
		o.Queued = int(min(depth, 1<<40))
		of = fmt.Sprintf("%d in the queue", o.Queued)
	}
	switch {
	case o.HeldBack:
		o.Load.Ahead = Live(o.Queued, fmt.Sprintf("%s; relays hold %d due ones back", of, r.Due))
		o.warn("relays hold due rows back, as they do with a window: the lease is sized for the %d rows in the queue, and the %d behind them use up none; type the backlog to size it without a window",
			o.Queued, r.Due)
	default:
		o.Load.Ahead = Live(o.Queued+r.Due, fmt.Sprintf("%s, %d due", of, r.Due))
	}
	if r.Paused {
		o.warn("lane %s is paused: nothing drains until it goes on", r.Lane)
	}
}

// holdsBack reports whether relays leave rows unclaimed although they are there: as
// many are handed off as are taken, and not as many as are due. A relay without a window
// that is in the middle of a burst hands off many more.
func (r Running) holdsBack() bool {
	const lately, few = 2 * time.Second, 20
	if r.Due == 0 || r.DueSince.Add(lately) > r.Now {
		return false
	}
	var taken []waybill.Stamp
	for _, row := range r.Rows {
		if row.TakenAt != 0 {
			taken = append(taken, row.TakenAt)
		}
	}
	slices.Sort(taken)
	since := r.Now.Add(-lately)
	if n := len(taken); n >= few {
		since = min(since, taken[n-few])
	}
	takes, handOffs := len(taken)-upTo(taken, since), 0
	for _, row := range r.Rows {
		if row.HandedOffAt > since {
			handOffs++
		}
	}
	return handOffs > 0 && handOffs <= 2*takes
}

func (o *Observed) waits(r Running) {
	var waited sample
	var last waybill.Stamp
	for _, row := range r.Rows {
		if row.TakenAt == 0 || row.HandedOffAt == 0 || row.TakenAt < row.HandedOffAt {
			continue
		}
		wait := period{row.HandedOffAt, row.TakenAt}.length()
		waited = append(waited, wait)
		if row.TakenAt >= last {
			last, o.LastWait = row.TakenAt, Seconds(wait)
		}
	}
	waited.sort()
	o.Takes, o.WaitP50, o.WaitP99 = len(waited), Seconds(waited.quantile(0.5)), Seconds(waited.quantile(0.99))
	if r.WaitingSince != 0 {
		o.OldestWait = Seconds(max(0, period{r.WaitingSince, r.Now}.length()))
	}
}

// finished returns how long the runs took that settled rows, and when they did.
func finished(rows []waybill.HistoryRow) (runs sample, settled []waybill.Stamp) {
	for _, row := range rows {
		if row.RanToTheEnd() {
			runs = append(runs, period{row.TakenAt, row.SettledAt}.length())
			settled = append(settled, row.SettledAt)
		}
	}
	slices.Sort(settled)
	return runs.sort(), settled
}

// standstill is the refusal of a lane in which nothing moves while rows wait. A lane in
// which runs go on, and of which nobody knows yet how long they take, may do so.
func (o *Observed) standstill(r Running, settled []waybill.Stamp) error {
	waiting := o.Queued + r.Due
	since := r.WaitingSince
	if since == 0 || r.DueSince != 0 && r.DueSince < since {
		since = r.DueSince
	}
	if waiting == 0 || since == 0 || r.Running > 0 && len(settled) < fewestSamples {
		return nil
	}
	for _, row := range r.Rows {
		since = max(since, row.TakenAt, row.SettledAt)
	}
	quiet := period{since, r.Now}.length()
	if quiet <= max(time.Minute, 2*o.RunP99.Duration()) {
		return nil
	}
	hint := "workers are down or do not read its queue: start them, no lease outlasts that"
	switch {
	case r.Paused:
		hint = "the lane is paused: resume it"
	case r.Waiting == 0 && r.Running == 0:
		hint = "no relay hands its rows off: start one for this lane"
	}
	return refuse(ErrNoDrain, hint, "nothing drains: no row of lane %s settled in the last %s while %d wait", r.Lane, quiet.Round(time.Second), waiting)
}

// drain finds out what workers settle while they have work. Where they never had for
// long enough it is what as many of them could do, and where nobody knows how many there
// are, what they settled, which is the rate of arrivals.
func (o *Observed) drain(r Running, runs sample, settled []waybill.Stamp) {
	run := time.Duration(math.Round(runs.mean() * 1e9))
	o.Load.Service = Live(max(run, 1), fmt.Sprintf("%d runs, 99 of 100 up to %s", len(runs), o.RunP99.Duration().Round(time.Millisecond)))
	o.Load.CV = Live(significant(runs.cv()), fmt.Sprintf("%d runs", len(runs)))

	if lease := r.Lease.Value; o.RunP99.Duration() > lease && !r.LongRuns && lease > 0 {
		o.warn("one run in a hundred takes longer than %s, under a lease of %s: raise it, or have the receiver declare heartbeat", o.RunP99.Duration().Round(time.Millisecond), lease)
	}

	// The rows before the oldest of these are not known, and some of them may have been
	// settled after it.
	since := settled[len(settled)/100]
	o.Span = Seconds(period{since, r.Now}.length())
	depth, known := r.Depth.Value()
	b := busyTimes(waits(r.Rows, r.Now, known && depth == 0), settled, since, run)
	o.Busy, o.BusyRows = Seconds(b.time), b.rows
	arrivals := steadyArrivals(r.Rows, since, r.Now)
	switch {
	case b.rows >= fewestSamples:
		o.measured(float64(b.rows)/b.time.Seconds(), b.rows, fmt.Sprintf("%d rows settled in %s in which the queue never ran empty", b.rows, tenths(b.time)))
	case o.Load.Workers.Given():
		o.warn("the queue of lane %s ran empty all the time, so nobody saw what its workers can do: nine tenths of workers ÷ service are counted on", r.Lane)
	default:
		o.LowerBound = true
		span := period{settled[0], settled[len(settled)-1]}.length()
		o.measured(float64(len(settled)-1)/max(span, time.Microsecond).Seconds(), len(settled),
			fmt.Sprintf("%d rows settled in %s, and the queue ran empty: workers may do more", len(settled), tenths(span)))
		return // that is what arrives, too
	}
	o.Load.Arrivals = Live(significant(arrivals), fmt.Sprintf("rows that became due in %s; clumping is not measured", tenths(o.Span.Duration())))
}

func (o *Observed) measured(drain float64, samples int, note string) {
	o.Load.Drain = Live(significant(drain), note)
	o.Load.Samples = Live(samples, "")
}

func (o *Observed) warn(text string, args ...any) {
	o.Warnings = append(o.Warnings, fmt.Sprintf(text, args...))
}

// significant rounds a measured figure to four digits: more of them are noise.
func significant(value float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(value, 'g', 4, 64), 64)
	if err != nil {
		return value
	}
	return rounded
}

// tenths writes a time for people.
func tenths(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

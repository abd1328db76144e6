package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/waybill-go/waybill"
)

// Ledger is what a run of the demo came to.
type Ledger struct {
	Events     int     `json:"events"`
	Deliveries int64   `json:"deliveries"`
	Succeeded  int64   `json:"succeeded"`
	Dead       int64   `json:"dead"`
	Owed       int64   `json:"owed"`
	Runs       int64   `json:"runs"`
	DoubleRuns int64   `json:"double_runs"`  // begun while another run of the delivery held a valid lease
	Stale      int64   `json:"stale_copies"` // messages that their rows refused
	Seconds    float64 `json:"seconds"`

	retried      int64 // failed attempts that were tried again
	lostRuns     int64 // runs whose outcome was refused
	hopeless     int64 // deliveries that were bound to die
	reservations int64 // rows of the transactional receiver's own table
	reserved     int64 // its deliveries that succeeded
	doubleRows   int64 // deliveries that have more than one such row
}

// Balance returns what does not add up, or nil.
func (l Ledger) Balance() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(l.Deliveries > 0, "nothing was delivered")
	check(l.Owed == 0, "%d deliveries are still owed", l.Owed)
	check(l.Succeeded+l.Dead == l.Deliveries, "%d succeeded and %d dead are not the %d deliveries", l.Succeeded, l.Dead, l.Deliveries)
	check(l.Dead == l.hopeless, "%d are dead, %d were bound to die", l.Dead, l.hopeless)
	check(l.DoubleRuns == 0, "%d runs overlapped under valid leases", l.DoubleRuns)
	check(l.reservations == l.reserved && l.doubleRows == 0, "the transactional receiver wrote %d rows for %d deliveries (%d twice)", l.reservations, l.reserved, l.doubleRows)
	return errors.Join(errs...)
}

// Print writes the ledger for a person.
func (l Ledger) Print(out io.Writer) {
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(what string, n any, note string) { fmt.Fprintf(table, "  %s\t%v\t%s\n", what, n, note) }
	row("events fired", l.Events, "in transactions of the application, with their delivery rows")
	row("deliveries owed for them", l.Deliveries, "one per receiver, and per target of a fan-out")
	row("  delivered", l.Succeeded, "acknowledged on the row")
	row("  dead", l.Dead, "one receiver always fails: 3 attempts, then dead")
	row("  still owed", l.Owed, "")
	row("attempts retried", l.retried, "one receiver fails twice, then succeeds")
	row("stale copies refused", l.Stale, "late messages, and no run of them")
	row("runs that lost their row", l.lostRuns, "one receiver stalls past its lease; its outcome is refused")
	row("runs per delivery", fmt.Sprintf("%.2f", float64(l.Runs)/float64(max(l.Deliveries, 1))), fmt.Sprintf("%d runs, %d overlapping under valid leases", l.Runs, l.DoubleRuns))
	row("transactional receiver", fmt.Sprintf("%d rows", l.reservations), fmt.Sprintf("for %d deliveries, %d of them twice", l.reserved, l.doubleRows))
	row("time", fmt.Sprintf("%.1f s", l.Seconds), "")
	table.Flush()
	fmt.Fprintln(out)
}

// counters gather the ledger while the demo runs.
type counters struct {
	mu     sync.Mutex
	active map[int64]context.Context // the newest run of each delivery
	sums   Ledger
}

func newCounters() *counters { return &counters{active: map[int64]context.Context{}} }

// observe is the Observer of the relay and the workers.
func (c *counters) observe(seen waybill.Observation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch seen.Kind {
	case waybill.ObservedRun:
		c.sums.Runs++
	case waybill.ObservedRefusal:
		c.sums.Stale++
	case waybill.ObservedLost:
		c.sums.lostRuns++
	case waybill.ObservedAck:
		if seen.Status == waybill.Failed {
			c.sums.retried++
		}
	}
}

// enter notes the begin of a run; the returned function notes its end. A run that
// begins while the context of another run of the same delivery has not ended is
// what the lease exists to prevent.
func (c *counters) enter(ctx context.Context, d *waybill.Delivery) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other, ok := c.active[d.ID]; ok && other.Err() == nil {
		c.sums.DoubleRuns++
	}
	c.active[d.ID] = ctx
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.active[d.ID] == ctx {
			delete(c.active, d.ID)
		}
	}
}

// sums are row counts by status.
type sums map[waybill.Status]int64

func (s sums) owed() int64 {
	return s[waybill.Pending] + s[waybill.Claimed] + s[waybill.Failed]
}

func (s sums) settled() int64 {
	return s[waybill.Succeeded] + s[waybill.Dead] + s[waybill.Orphaned] + s[waybill.Cancelled]
}

// ledger closes the books from the rows themselves.
func (c *counters) ledger(ctx context.Context, outbox *outbox, events int, elapsed time.Duration) (Ledger, error) {
	tallies, err := outbox.Tallies(ctx)
	if err != nil {
		return Ledger{}, err
	}
	c.mu.Lock()
	l := c.sums
	c.mu.Unlock()
	l.Events, l.Seconds = events, elapsed.Seconds()
	for _, t := range tallies {
		l.Deliveries += t.Rows
		switch {
		case t.Status.Owed():
			l.Owed += t.Rows
		case t.Status == waybill.Succeeded:
			l.Succeeded += t.Rows
		case t.Status == waybill.Dead:
			l.Dead += t.Rows
		}
		switch t.Receiver {
		case "legacy.sync":
			l.hopeless += t.Rows
		case "stock.reserve":
			if t.Status == waybill.Succeeded {
				l.reserved += t.Rows
			}
		}
	}
	l.reservations, l.doubleRows, err = outbox.table.count(ctx, outbox.Store)
	return l, err
}

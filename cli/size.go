package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/sizing"
)

// sizeQuestion is what `bridge size` is asked.
type sizeQuestion struct {
	load      sizing.Load
	staleCost staleCost
	table     bool
	plot      string
	check     bool
	asJSON    bool

	fromLive   bool
	lane       string
	live       *live // nil: nothing was asked of a lane
	lowerBound bool  // the rate is no more than that
}

func sizeCommand(a *app) *cobra.Command {
	var q sizeQuestion
	cmd := &cobra.Command{
		Use:   "size",
		Short: "Work out how long a lease has to be, and what one is good for",
		Long: `Work out how long a lease has to be for a backlog, what happens under one that is
too short, and what a longer one costs. Without --live nothing is asked of a store or
a queue.

A backlog takes backlog ÷ rate until a worker has its last row; a lease has to last
longer. The rate is --rate, or --workers ÷ --run. Nine tenths of it are counted on,
because nobody measured it. With --lease a lease that is there already is judged.
With --lease and --run alone, the answer is how many rows of a batch fit into the
lease, for a relay that runs receivers itself.

A stale copy is a message whose row was claimed again before a worker reached it. It
costs that worker 5ms, or a full slot where a rate limit counts every message
(--stale-cost full).

With --live the figures are those of --lane as it runs, and what is typed is taken
instead: the backlog is what --backend says is in the queue, or the rows that wait under
a claim, and what is due; the rate is what workers settled while the queue never ran
empty, in the last 10,000 rows that they did; runs and the wait in the queue are as the
rows tell; the lease that is judged is the lane's hand-off lease, or the shortest of its
receivers'. --workers and --run together make a rate. Where relays hold due rows back, as
with their window, the lease is sized for what is in the queue.

Exit codes with --check, which prints the verdict alone: 0 the lease is fine; 4 it is
tight, the wait is more than 0.8 of it, as in the lease to declare itself; 5 it lapses,
or no lease holds; 6 that cannot be told. 2 is wrong usage, as ever, and without
--check 1 is a question that has no answer.

With --json durations are numbers of seconds, what was not asked or is not known is
null, a collapse_backlog of 0 is none, and the batch_ keys count what the relay
sends, at 1ms a row, or with --lease and --run alone what it runs. "inputs" holds
every figure with its source.`,
		Example: `  bridge size --backlog 28000 --rate 20
  bridge size --backlog 28000 --workers 20 --run 1s --cv 2 --arrivals 10
  bridge size --backlog 28000 --rate 20 --lease 900s --stale-cost full
  bridge size --backlog 28000 --workers 20 --run 1s --table
  bridge size --backlog 28000 --workers 20 --run 1s --lease 15m --plot lease.svg
  bridge size --backlog 28000 --rate 20 --lease 30m --check
  bridge size --lease 60s --run 1s
  bridge size --live --lane mail
  bridge size --live --lane mail --backlog 28000 --check`,
		Args: cobra.NoArgs,
		RunE: running(func(cmd *cobra.Command, _ []string) error { return q.answer(cmd, a) }),
	}
	flags, load := cmd.Flags(), &q.load
	flags.Var(countFlag(&load.Ahead, 0), "backlog", "`rows` ahead: the largest burst to be ready for")
	flags.Var(numberFlag(&load.Drain, "rows/s", mustNotBeNegative, notNegative), "rate", "`rows` a second that all workers together settle")
	flags.Var(countFlag(&load.Workers, 1), "workers", "`runs` at once, in all worker processes together")
	flags.Var(durationFlag(&load.Service, false), "run", "how long a run takes on average")
	flags.Var(numberFlag(&load.CV, "number", mustNotBeNegative, notNegative), "cv", "standard deviation of a run's time over its average (default 1)")
	flags.Var(numberFlag(&load.Arrivals, "rows/s", mustNotBeNegative, notNegative), "arrivals", "`rows` a second that arrive all the time, besides the backlog (default 0)")
	flags.Var(numberFlag(&load.Confidence, "share", "must be between 0 and 1, as in 0.99", func(value float64) bool { return value > 0 && value < 1 }),
		"confidence", "`share` of such backlogs whose last row starts in time (default 0.99)")
	flags.Var(durationFlag(&load.Lease, false), "lease", "judge this lease, as in 900s or 15m")
	flags.Var(&q.staleCost, "stale-cost", "how long a stale copy keeps a worker, or full (default 5ms)")
	flags.BoolVar(&q.fromLive, "live", false, "take the figures that are not typed from the running lane")
	flags.StringVar(&q.lane, "lane", waybill.DefaultLane, "`lane` to ask, with --live")
	flags.BoolVar(&q.table, "table", false, "lay leases side by side")
	flags.StringVar(&q.plot, "plot", "", "draw a picture into this `file`, .svg or .png")
	flags.BoolVar(&q.check, "check", false, "judge --lease by the exit code")
	flags.BoolVar(&q.asJSON, "json", false, "print JSON")
	return cmd
}

func (q *sizeQuestion) answer(cmd *cobra.Command, a *app) error {
	q.load.StaleCost, q.load.StaleShare = q.staleCost.cost, q.staleCost.share
	if err := q.checkLive(cmd); err != nil {
		return err
	}
	if q.fromLive {
		if err := a.observe(cmd, q); err != nil {
			return q.unknownLive(err)
		}
	} else if q.isAboutBatch() {
		return q.answerBatch(cmd)
	}
	if err := q.complete(); err != nil {
		return err
	}
	answer, err := sizing.Size(q.load)
	err = q.ofLive(err)
	if err != nil && q.check {
		return q.unanswered(err)
	} else if err != nil {
		return refusal(err)
	}
	report := &sizeReport{Answer: answer, question: q}
	if answer.WorkersNeeded > 0 {
		report.WorkersNeeded = &answer.WorkersNeeded
	}
	report.warnOfOneWorker()
	if q.load.Lease.Given() {
		report.Verdict = judge(answer)
	}
	if err := q.checkLowerBound(report.Verdict); err != nil {
		return q.unknownLive(err)
	}
	report.addLive()
	if q.table {
		if report.Table, err = tableOf(report); err != nil {
			return refusal(err)
		}
	}
	if q.plot != "" {
		if err := report.draw(q.plot); err != nil {
			return err
		}
	}
	if q.asJSON {
		err = writeJSON(cmd.OutOrStdout(), report)
	} else {
		err = report.writeText(cmd.OutOrStdout())
	}
	if err == nil && q.check {
		err = report.Verdict.exit()
	}
	return err
}

// complete refuses a question that lacks something, or has too much of it.
func (q *sizeQuestion) complete() error {
	l := &q.load
	if !l.Ahead.Given() && l.Arrivals.Given() {
		l.Ahead = sizing.Figure[int]{Source: sizing.FromDefault, Note: "arrivals only"}
	}
	switch {
	case !l.Ahead.Given():
		return usagef("--backlog is missing: give the largest burst that you expect, or --lease and --run alone for the rows of a batch")
	case !l.Drain.Given() && !(l.Workers.Given() && l.Service.Given()):
		return usagef("the rate is missing: give --rate, or both --workers and --run")
	case q.check && !l.Lease.Given():
		return usagef("--check needs --lease: the lease to judge")
	case q.table && l.Ahead.Value == 0:
		return usagef("--table is about a burst: give --backlog")
	case q.plot == "":
		return nil
	case l.Ahead.Value == 0:
		return usagef("--plot is about a burst: give --backlog")
	}
	return checkPicture(q.plot)
}

// sizeReport is an answer, and what of it is known.
type sizeReport struct {
	sizing.Answer
	WorkersNeeded *int       `json:"workers_needed"`    // null: not known
	Verdict       verdict    `json:"verdict,omitempty"` // of a lease that was given
	Table         []tableRow `json:"table,omitempty"`
	Live          *live      `json:"live,omitempty"` // with --live

	question *sizeQuestion
}

// warnOfOneWorker says so where stale copies are counted as if one worker did it all:
// its runs are then so short that a stale copy is dear.
func (r *sizeReport) warnOfOneWorker() {
	l := r.question.load
	if l.Workers.Given() || l.Service.Given() || l.StaleShare.Given() || r.staleShare() == 0 {
		return
	}
	if r.StaleCopies == 0 && r.StaleAtLowDrain == 0 && r.Converges {
		return
	}
	r.Warnings = append(r.Warnings, fmt.Sprintf("a stale copy is counted as %s of a run, as if one worker did it all: give --workers, or stale copies come out too many",
		percent(r.staleShare())))
}

// judgedLease is the lease that the answer is about.
func (r *sizeReport) judgedLease() time.Duration { return r.Judged.Duration() }

// input returns a figure that the answer rests on; one that is in every answer.
func (r *sizeReport) input(name string) float64 {
	input, _ := r.Inputs.Get(name)
	return input.Value
}

// burst is what the answer says of stale copies, for other leases and other costs of a
// copy. share is what a stale copy costs, as a share of a run.
func (r *sizeReport) burst(share float64) sizing.Burst {
	return sizing.Burst{Rows: int(r.input("ahead_rows")), Drain: r.input("drain_per_second"), StaleShare: share}
}

// staleShare is what a stale copy costs, as a share of a run.
func (r *sizeReport) staleShare() float64 {
	if share, ok := r.Inputs.Get("stale_share"); ok {
		return share.Value
	}
	return r.input("stale_cost_seconds") * r.input("drain_per_second") / r.input("workers")
}

// flagOf names the flag behind a figure, and what it is called in a text.
var flagOf = map[string]string{
	"ahead_rows": "backlog", "rows": "backlog", "drain": "rate", "drain_per_second": "rate", "service_seconds": "run", "arrivals_per_second": "arrivals",
	"lease_seconds": "lease", "stale_cost_seconds": "stale-cost", "stale_share": "stale-cost", "poll_seconds": "poll",
	"target_seconds": "window-horizon", "fault_at_seconds": "fault-at", "fault_for_seconds": "fault-for", "fault_share": "fault-share",
}

// hints are for who types, where the calculator's are for who programs.
var hints = strings.NewReplacer("smaller drain", "smaller rate", "use Predict", "ask bridge size", "give the drain:", "give --rate:")

// refusal is the error of a command whose question has no answer: wrong usage, if it
// is the way it was asked.
func refusal(err error) error {
	var refused *sizing.Refusal
	if !errors.As(err, &refused) {
		return err
	}
	name, rest, _ := strings.Cut(refused.Problem, " ")
	if flag, ok := flagOf[name]; ok {
		name, rest = "--"+flag, strings.Replace(rest, "are ", "is ", 1)
	}
	text := fmt.Sprintf("%s %s; %s", name, rest, hints.Replace(refused.Hint))
	for _, reason := range []error{sizing.ErrInvalid, sizing.ErrMissing, sizing.ErrConflict} {
		if errors.Is(err, reason) {
			return usagef("%s", text)
		}
	}
	return &refusedQuestion{text, err}
}

// refusedQuestion words a refusal by the command's flags.
type refusedQuestion struct {
	text string
	err  error
}

func (r *refusedQuestion) Error() string { return r.text }
func (r *refusedQuestion) Unwrap() error { return r.err }

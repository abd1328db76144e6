package execreceiver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
)

// command is one receiver's program. It is never changed, so any number of runs may use
// it at once.
type command struct {
	path      string // absolute
	argv      []string
	dir       string
	env       []string
	timeout   time.Duration
	deferFor  time.Duration
	permanent []int
	log       *slog.Logger
	hide      secrets
}

// run runs the command on one delivery and returns its outcome.
func (c *command) run(ctx context.Context, d *waybill.Delivery) error {
	if timeout := c.timeoutWithin(d.Lease); timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it did not exit within %s", timeout))
		defer stop()
	}
	var stdout, stderr tail
	var ended atomic.Bool // by us
	cmd := exec.CommandContext(ctx, c.path, c.argv[1:]...)
	cmd.Args[0] = c.argv[0]
	cmd.Dir = c.dir
	cmd.Env = append(slices.Clone(c.env), facts(d)...)
	cmd.Stdin = bytes.NewReader(d.Event.Payload)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Cancel = func() error {
		end := terminate
		if errors.Is(context.Cause(ctx), waybill.ErrLeaseLost) {
			end = kill
		}
		err := end(cmd.Process)
		ended.Store(err == nil)
		return err
	}
	// Then the command is killed, and so its pipes are closed: also where it exited
	// before, and something that it started has them open still.
	cmd.WaitDelay = grace(d.Lease)
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%s was not started: %w", c.argv[0], err)
	}
	// Its error tells of the pipes too. Whether the command read its input, and
	// whether something else holds its output open, are no part of the outcome.
	err := cmd.Wait()
	// Nobody else has the group's number yet: numbers are given out in turn.
	_ = kill(cmd.Process) // mostly there is nobody left
	c.tell(ctx, &stdout, &stderr)
	if ended.Load() {
		return c.failed(&stderr, "was ended: %w", context.Cause(ctx))
	}
	if cmd.ProcessState == nil {
		return fmt.Errorf("%s: %w", c.argv[0], err)
	}
	return c.outcome(cmd.ProcessState, &stderr)
}

func (c *command) outcome(state *os.ProcessState, stderr *tail) error {
	code := state.ExitCode()
	switch {
	case code == 0:
		return nil
	case code < 0:
		return c.failed(stderr, "was ended by a %s", state)
	case code == tempFail:
		return fmt.Errorf("%w: %w", c.failed(stderr, "exited with %d", code), waybill.Defer(c.deferFor))
	case slices.Contains(c.permanent, code):
		return waybill.Permanent(c.failed(stderr, "exited with %d", code))
	}
	return c.failed(stderr, "exited with %d", code)
}

// failed is an error that says what became of the command, and what it had to say.
func (c *command) failed(stderr *tail, format string, what any) error {
	err := fmt.Errorf("%s "+format, c.argv[0], what)
	if text := stderr.text(c.hide); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// tell logs what the command wrote.
func (c *command) tell(ctx context.Context, stdout, stderr *tail) {
	log := c.log
	if log == nil {
		log = waybill.LoggerFrom(ctx)
	}
	if !log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	for _, output := range []struct {
		name string
		tail *tail
	}{{"stdout", stdout}, {"stderr", stderr}} {
		if text := output.tail.text(c.hide); text != "" {
			log.DebugContext(ctx, "command wrote", "command", c.argv[0], output.name, text)
		}
	}
}

// timeoutWithin keeps the run clear of the end of the lease. A worker takes the lease
// for over a margin early; as much again is left for the outcome, and for the grace
// before that. Zero is no bound.
func (c *command) timeoutWithin(lease time.Duration) time.Duration {
	if lease <= 0 || c.timeout >= lease { // no worker runs it, or a heartbeat extends the lease
		return c.timeout
	}
	within := lease - 2*waybill.LeaseMargin(lease)
	if c.timeout == 0 {
		return within
	}
	return min(c.timeout, within)
}

// longestGrace is less than a worker waits for a receiver that it has cancelled.
const longestGrace = time.Second

// grace is how long a command has between SIGTERM and SIGKILL, and what it left has
// to close its output: half of the margin that is left of the lease, at most.
func grace(lease time.Duration) time.Duration {
	if lease <= 0 {
		return longestGrace
	}
	return max(min(longestGrace, waybill.LeaseMargin(lease)/2), time.Millisecond)
}

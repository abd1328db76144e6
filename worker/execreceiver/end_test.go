//go:build unix

package execreceiver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// endedBy runs a script, ends its context with the cause as soon as it has written a
// file ready, and returns the outcome and how long it took from then on.
func endedBy(t *testing.T, dir string, run func(ctx context.Context) error, cause error) (time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	until(t, "the command has begun", func() bool { return exists(dir, "ready") })
	began := time.Now()
	cancel(cause)
	select {
	case err := <-done:
		return time.Since(began), err
	case <-time.After(20 * time.Second):
		t.Fatal("the run does not return")
		return 0, nil
	}
}

func end(t *testing.T, script string, lease time.Duration, cause error) (dir string, took time.Duration, err error) {
	t.Helper()
	config := shell(t, script)
	d := delivery()
	d.Lease = lease
	took, err = endedBy(t, config.Dir, func(ctx context.Context) error { return runIn(ctx, t, config, d) }, cause)
	return config.Dir, took, err
}

// A command is asked to end, and has time to.
func TestACommandMayCleanUp(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{waybill.ErrStopping, waybill.ErrTimeout} {
		dir, _, err := end(t, `trap 'echo cleaned >cleaned; exit 0' TERM; echo 1 >ready; while :; do sleep 0.01; done`, time.Minute, cause)
		if !errors.Is(err, cause) { // exit code 0 is no success then
			t.Errorf("outcome = %v, want %v", err, cause)
		}
		if !exists(dir, "cleaned") {
			t.Errorf("%v: the command had no time to clean up", cause)
		}
	}
}

// One that does not is killed, and all that it started.
func TestACommandThatIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	const script = `trap '' TERM; sleep 600 & echo $! >child; echo $$ >leader; echo 1 >ready; wait; sleep 600; sleep 600`
	dir, took, err := end(t, script, 4*time.Second, waybill.ErrTimeout)
	if !errors.Is(err, waybill.ErrTimeout) {
		t.Errorf("outcome = %v", err)
	}
	if took < 200*time.Millisecond || took > 5*time.Second { // a twentieth of the lease
		t.Errorf("it took %s to end it", took)
	}
	gone(t, dir, "leader")
	gone(t, dir, "child")
}

// When the lease is lost another run may have begun: there is no time to clean up.
func TestALostLeaseKillsAtOnce(t *testing.T) {
	t.Parallel()
	dir, _, err := end(t, `trap 'echo cleaned >cleaned' TERM; sleep 600 & echo $! >child; echo 1 >ready; while :; do sleep 0.01; done`, time.Hour, waybill.ErrLeaseLost)
	if !errors.Is(err, waybill.ErrLeaseLost) || exists(dir, "cleaned") {
		t.Errorf("outcome = %v, cleaned up: %t", err, exists(dir, "cleaned"))
	}
	gone(t, dir, "child")
}

// What a command leaves behind, with its output open, neither holds the outcome up nor
// goes on.
func TestAGrandchildThatHoldsTheOutputOpen(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		`sleep 600 & echo $! >child; exit 0`:                                   "",
		`(trap '' TERM; exec sleep 600) & echo $! >child; echo no >&2; exit 3`: "sh exited with 3: no",
	} {
		config := shell(t, script)
		d := delivery()
		d.Lease = 4 * time.Second
		started := time.Now()
		err := run(t, config, d)
		if took := time.Since(started); took > 3*time.Second {
			t.Errorf("%s: it took %s", script, took)
		}
		if got := errorText(err); got != want {
			t.Errorf("%s: outcome = %q, want %q", script, got, want)
		}
		gone(t, config.Dir, "child")
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// One that left the group cannot be killed with it, and holds nobody up either.
func TestAGrandchildThatLeftTheGroup(t *testing.T) {
	t.Parallel()
	const script = `setsid sh -c 'echo $$ >child; exec sleep 600' & until [ -s child ]; do sleep 0.01; done; echo 1 >ready; exec sleep 600`
	dir, took, err := end(t, script, 4*time.Second, waybill.ErrStopping)
	if !errors.Is(err, waybill.ErrStopping) || took > 5*time.Second {
		t.Errorf("outcome = %v after %s", err, took)
	}
	pid := strings.TrimSpace(read(t, dir, "child"))
	if err := exitOf("kill", "-KILL", pid); err != nil {
		t.Errorf("the one that left was killed with the others: %v", err)
	}
}

package protocol_test

import (
	"context"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestModel checks every state of the model with all its guards, and that a few of
// them are missed; `make model` and `make soak` try each. It needs spin and a C
// compiler, which `make test` installs.
func TestModel(t *testing.T) {
	t.Parallel()
	check(t, "brief")
}

func check(t *testing.T, form string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "./check.sh", form)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) } // it cleans up
	command.WaitDelay = 10 * time.Second
	out, err := command.CombinedOutput()
	t.Logf("every line as check.sh prints it:\n%s", out)
	if err != nil {
		t.Fatalf("check.sh: %v", err)
	}
}

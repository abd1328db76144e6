package protocol_test

import (
	"context"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestModel checks every state of the model, and that each guard is missed in it. It
// needs spin and a C compiler, which `make test` installs.
func TestModel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	check := exec.CommandContext(ctx, "./check.sh")
	check.Cancel = func() error { return check.Process.Signal(syscall.SIGTERM) } // it cleans up
	check.WaitDelay = 10 * time.Second
	out, err := check.CombinedOutput()
	t.Logf("every line as check.sh prints it:\n%s", out)
	if err != nil {
		t.Fatalf("check.sh: %v", err)
	}
}

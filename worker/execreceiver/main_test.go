//go:build unix

package execreceiver_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/worker/execreceiver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// delivery is one whose payload must not be touched: spaces, a big number, no new line
// at its end and characters that encoding/json would escape.
func delivery() *waybill.Delivery {
	return &waybill.Delivery{
		ID: 42, Receiver: "crm sync", Attempt: 3, MaxAttempts: 5, Lease: time.Minute,
		Event: &waybill.Event{ID: 7, Name: "order.placed", Version: 2, CorrelationID: "réq 1", Payload: []byte(`{ "a" : 12345678901234567890, "b":"<&\u00e9é>" }`)},
	}
}

// shell is the configuration of a shell's script, in a directory of its own.
func shell(t *testing.T, script string) execreceiver.Config {
	t.Helper()
	return execreceiver.Config{Command: []string{"sh", "-c", script}, Dir: t.TempDir()}
}

func run(t *testing.T, config execreceiver.Config, d *waybill.Delivery) error {
	t.Helper()
	return runIn(t.Context(), t, config, d)
}

func runIn(ctx context.Context, t *testing.T, config execreceiver.Config, d *waybill.Delivery) error {
	t.Helper()
	receive, err := execreceiver.New(config)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return receive(ctx, d)
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// until polls for what another process does.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// gone waits for the end of the process whose number a script wrote into a file. One
// that ended and was not waited for by its new parent is gone as well.
func gone(t *testing.T, dir, file string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, dir, file)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	until(t, "process "+file+" ends", func() bool {
		if syscall.Kill(pid, 0) == syscall.ESRCH {
			return true
		}
		state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
		return err != nil || strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
	})
}

// exists reports whether a script has written a file.
func exists(parts ...string) bool {
	info, err := os.Stat(filepath.Join(parts...))
	return err == nil && info.Size() > 0
}

// exitOf runs a program to its end.
func exitOf(name string, arguments ...string) error { return exec.Command(name, arguments...).Run() }

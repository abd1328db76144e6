package e2e

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/waybill-go/waybill/backend/asynq"
)

// The binaries under test, built once a run, with the race detector when the
// tests have it too.
var bridgeBin, workerBin, testappBin string

// binDir is where they are.
var binDir string

func TestMain(m *testing.M) {
	asynq.LogRedis(slog.New(slog.DiscardHandler)) // a Redis that is not up yet is no news
	sweep()
	dir, err := os.MkdirTemp("", fmt.Sprintf("waybill-e2e-%d-", os.Getpid()))
	if err == nil {
		binDir = dir
		err = build(dir, "../../cmd/bridge", "../../cmd/worker", "./testapp")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.RemoveAll(dir)
		os.Exit(1)
	}
	// VerifyTestMain would leave the binaries behind: it never returns.
	code := m.Run()
	os.RemoveAll(dir)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left when every test has ended:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// sweep removes the binaries of tests that were killed. Their directories carry
// their process ids.
func sweep() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "waybill-e2e-*-*"))
	for _, dir := range left {
		pid, err := strconv.Atoi(strings.Split(filepath.Base(dir), "-")[2])
		if err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			os.RemoveAll(dir)
		}
	}
}

// build builds programs into the directory; flags come before their packages.
func build(dir string, flagsAndPackages ...string) error {
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	if raceEnabled {
		args = append(args, "-race")
	}
	args = append(args, flagsAndPackages...)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go %v: %w\n%s", args, err, out)
	}
	bridgeBin = filepath.Join(dir, "bridge")
	workerBin = filepath.Join(dir, "worker")
	testappBin = filepath.Join(dir, "testapp")
	return nil
}

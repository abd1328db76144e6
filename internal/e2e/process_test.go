package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is one program that a test runs. It is killed when the test ends, and
// by the kernel when the test's own process dies before that. What it wrote to
// standard error is told when the test fails.
type process struct {
	t     *testing.T
	name  string // program and first argument
	cmd   *exec.Cmd
	out   buffer
	err   buffer
	ended chan struct{} // closed once it was waited for
}

// environ is the environment without what would configure a program behind the
// test's back.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "WAYBILL_") || strings.HasPrefix(name, "PG") ||
			name == "DATABASE_URL" || name == "REDIS_URL"
	})
}

// start runs a program until it is told to end, or the test ends.
func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	return startIn(t, nil, program, args...)
}

// startIn is start with more variables in the environment.
func startIn(t *testing.T, env []string, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: strings.Join(append([]string{filepath.Base(program)}, args[:min(1, len(args))]...), " "), ended: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	// The race detector's second of sleep at each exit would add up.
	p.cmd.Env = append(append(environ(), "GORACE=atexit_sleep_ms=0"), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.SysProcAttr = mortal()
	p.cmd.WaitDelay = time.Second
	started := make(chan error)
	go func() {
		// The kernel ties the program's life to the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is in its state
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	t.Cleanup(p.cleanUp)
	return p
}

func (p *process) cleanUp() {
	p.kill()
	for _, sign := range []string{"DATA RACE", "panic:", "fatal error:"} {
		if text := p.err.String(); strings.Contains(text, sign) {
			p.t.Errorf("%s says %q", p.name, sign)
		}
	}
	if p.t.Failed() {
		text := p.err.String()
		p.t.Logf("%s (pid %d, %s) wrote to standard error:\n%s", p.name, p.cmd.Process.Pid, p.cmd.ProcessState, text[max(0, len(text)-8000):])
	}
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// kill is kill -9, and returns when the process is gone.
func (p *process) kill() {
	if p.running() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%s to %s: %v", s, p.name, err)
	}
}

// wait waits for the process to end by itself and returns its exit code.
func (p *process) wait(patience time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%s still runs after %s", p.name, patience)
	}
	return p.cmd.ProcessState.ExitCode()
}

// killed reports whether the process ended by SIGKILL.
func (p *process) killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// patience bounds whatever takes a moment on an idle machine. It is spent on a
// failure only.
const patience = time.Minute

// succeed waits for a process to end well and returns what it wrote to standard
// output.
func (p *process) succeed() string {
	p.t.Helper()
	return p.succeedWithin(patience)
}

func (p *process) succeedWithin(patience time.Duration) string {
	p.t.Helper()
	if code := p.wait(patience); code != 0 {
		p.t.Fatalf("%s: exit code %d\n%s", p.name, code, p.err.String())
	}
	return p.out.String()
}

// buffer is what a process writes while it is read.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// await polls until done says so. What it says otherwise is told when there is
// no more time.
func await(t *testing.T, patience time.Duration, what string, done func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ok, state := done()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %s", what, patience, state)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

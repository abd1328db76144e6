package services

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is one run of a server.
type process struct {
	cmd    *exec.Cmd
	output lockedBuffer
	ended  chan struct{} // closed once it was waited for
}

// launch starts a program that will not outlive this process. The kernel ties
// that to the thread that started it, which Go would otherwise end or reuse as
// it likes: the goroutine keeps its thread until the program has ended.
func launch(program string, args []string, dir string, user *syscall.Credential) (*process, error) {
	run := &process{ended: make(chan struct{})}
	run.cmd = exec.Command(program, args...)
	run.cmd.Dir = dir
	run.cmd.Stdout, run.cmd.Stderr = &run.output, &run.output
	run.cmd.SysProcAttr = attributes(user)
	// A child that keeps the pipe open must not keep Wait from returning.
	run.cmd.WaitDelay = time.Second
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := run.cmd.Start()
		started <- err
		if err == nil {
			_ = run.cmd.Wait() // it was told to end, and how does not matter
			close(run.ended)
		}
	}()
	return run, <-started
}

// children lists the processes that a process has started, where /proc says.
func children(pid int) []int {
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var pids []int
	for _, field := range strings.Fields(string(list)) {
		if child, err := strconv.Atoi(field); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}

// running reports whether a process still does anything. One that is dead but
// was not waited for, as orphans in a container may stay, does not.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// "pid (name) S ...", and the name may hold anything.
	_, state, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// lockedBuffer takes a server's output, to be quoted when it does not start.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.buf.Len() > 1<<20 {
		b.buf.Reset()
	}
	return b.buf.Write(p)
}

func (b *lockedBuffer) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.buf.String()
	return s[max(0, len(s)-2000):]
}

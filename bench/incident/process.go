package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// process is this program in another role.
type process struct {
	role  role
	cmd   *exec.Cmd
	input io.Closer // it ends when this does
	ended chan struct{}

	mu     sync.Mutex
	counts counts
	killed bool
	words  bytes.Buffer // standard error
}

// start starts a process with its part.
func start(role role, p part) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	proc := &process{role: role, cmd: exec.Command(program, roleArgument, string(role)), ended: make(chan struct{})}
	// The race detector's second of sleep at each exit would add up in tests.
	proc.cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	proc.cmd.Stderr = &locked{proc}
	proc.cmd.WaitDelay = time.Second
	input, err := proc.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := proc.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := proc.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a %s: %w", role, err)
	}
	proc.input = input
	go func() {
		defer close(proc.ended)
		proc.read(output)
		_ = proc.cmd.Wait() // how it ended is in its state
	}()
	if err := json.NewEncoder(input).Encode(p); err != nil {
		proc.kill()
		return nil, fmt.Errorf("tell a %s what to do: %w", role, err)
	}
	return proc, nil
}

// read follows what the process says of itself.
func (p *process) read(output io.Reader) {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var said counts
		if json.Unmarshal(lines.Bytes(), &said) != nil {
			continue // cut off by a kill
		}
		p.mu.Lock()
		p.counts = said
		p.mu.Unlock()
	}
	_, _ = io.Copy(io.Discard, output) // a line that is too long must not block it
}

func (p *process) said() counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	said := p.counts
	select {
	case <-p.ended: // it has no window any more
		said.Window.Size, said.Window.Waiting, said.Window.Drain, said.Window.Stalled = 0, 0, 0, false
	default:
	}
	return said
}

// kill is kill -9, and returns when the process is gone.
func (p *process) kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
	p.input.Close()
}

// end has the process stop by itself.
func (p *process) end(patience time.Duration) error {
	p.input.Close()
	select {
	case <-p.ended:
		return p.failure()
	case <-time.After(patience):
		p.kill()
		return fmt.Errorf("a %s did not stop within %s%s", p.role, patience, p.heard())
	}
}

// failure is why the process ended, unless it was told to.
func (p *process) failure() error {
	p.mu.Lock()
	killed := p.killed
	p.mu.Unlock()
	if killed || p.cmd.ProcessState.Success() {
		return nil
	}
	return fmt.Errorf("a %s ended with %s%s", p.role, p.cmd.ProcessState, p.heard())
}

// gone reports a process that ended before its time.
func (p *process) gone() error {
	select {
	case <-p.ended:
		p.mu.Lock()
		killed := p.killed
		p.mu.Unlock()
		if !killed {
			return fmt.Errorf("a %s ended before its time, with %s%s", p.role, p.cmd.ProcessState, p.heard())
		}
	default:
	}
	return nil
}

// heard is the end of what the process wrote to standard error.
func (p *process) heard() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.TrimSpace(p.words.String())
	if text == "" {
		return ""
	}
	return ":\n" + text[max(0, len(text)-4000):]
}

// locked writes to a process's words.
type locked struct{ p *process }

func (l *locked) Write(text []byte) (int, error) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.p.words.Write(text)
}

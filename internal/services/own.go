package services

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Server is a private server of one test, on loopback, which the test may stop,
// kill and start again. The port stays the same throughout. Its methods are for
// the test's own goroutine: like t.Fatal, they end the test when they fail.
//
// The server is killed when the test ends, and by the kernel (on Linux) when
// the test's process dies without having come to that.
type Server struct {
	URL  string // with credentials; the same after each start
	Addr string // host:port, for a proxy to be put before it

	t       testing.TB
	program string
	args    []string
	dir     string                 // its files
	user    *syscall.Credential    // whom it runs as; nil is ourselves
	polite  syscall.Signal         // asks for an orderly stop
	ready   func(url string) error // one attempt to be answered
	boot    time.Duration          // within which a start is answered
	run     *process               // nil while stopped
}

// own prepares a server that is not started yet, and its end.
func own(t testing.TB, program string, user *syscall.Credential) *Server {
	t.Helper()
	addr, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, Addr: addr, program: program, user: user, dir: ownDir(t), boot: patience}
	t.Cleanup(s.end)
	return s
}

// end is the test's end: in order where possible, because a PostgreSQL that is
// killed leaves a shared memory segment behind for good.
func (s *Server) end() {
	if s.run == nil {
		return
	}
	_ = s.run.cmd.Process.Signal(s.polite)
	select {
	case <-s.run.ended:
	case <-time.After(5 * time.Second):
	}
	s.Kill()
}

func (s *Server) port() string { return port(s.Addr) }

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// Start starts the server again, on the same port, and returns once it answers.
// One that ends by itself is tried again as long as there is time: the port or
// the files of the run before may take a moment to come free.
func (s *Server) Start() {
	s.t.Helper()
	if s.run != nil {
		s.t.Fatalf("start %s: it is running already", s.program)
	}
	deadline := time.Now().Add(s.boot)
	for {
		run, err := launch(s.program, s.args, s.dir, s.user)
		if err != nil {
			s.t.Fatalf("start %s: %v", s.program, err)
		}
		s.run = run
		if err = s.await(deadline); err == nil {
			return
		}
		s.Kill()
		if time.Now().After(deadline) {
			s.t.Fatalf("start %s: no answer in %v: %v: %s", s.program, s.boot, err, run.output.tail())
		}
	}
}

// await polls the server until it answers, ends, or has had its time.
func (s *Server) await(deadline time.Time) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.ready(s.URL)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-s.run.ended:
			return errors.New("it ended by itself")
		case <-tick.C:
		}
	}
}

// Stop asks the server to end in order, and waits until it has.
func (s *Server) Stop() {
	s.t.Helper()
	if s.run == nil {
		return
	}
	if err := s.run.cmd.Process.Signal(s.polite); err != nil {
		s.t.Fatalf("stop %s: %v", s.program, err)
	}
	select {
	case <-s.run.ended:
		s.run = nil
	case <-time.After(patience):
		s.t.Fatalf("%s did not stop in %v: %s", s.program, patience, s.run.output.tail())
	}
}

// Kill ends the server and its children with SIGKILL and waits until they are
// gone: no connection is closed in order, no statement finished.
func (s *Server) Kill() {
	if s.run == nil {
		return
	}
	run := s.run
	s.run = nil
	select {
	case <-run.ended:
		return // and its number may be another process's by now
	default:
	}
	// Halted first, so that it has no child between the look and the kill.
	_ = run.cmd.Process.Signal(syscall.SIGSTOP)
	orphans := children(run.cmd.Process.Pid)
	_ = run.cmd.Process.Kill()
	<-run.ended
	for _, pid := range orphans {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for until := time.Now().Add(patience); slices.ContainsFunc(orphans, running) && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
}

// freeAddr finds a port below those that outgoing connections get, so that it
// is still free when the server wants it again after a stop.
func freeAddr() (string, error) {
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 22000+rand.IntN(8000))
		if listener, err := net.Listen("tcp", addr); err == nil {
			return addr, listener.Close()
		}
	}
	return "", errors.New("no free port between 22000 and 30000")
}

var sweep sync.Once

// ownDir makes a directory for a server, removed when the test ends. The name
// carries our process id: what a killed process left is removed by the next.
func ownDir(t testing.TB) string {
	t.Helper()
	sweep.Do(func() {
		left, _ := filepath.Glob(filepath.Join(os.TempDir(), "waybill-own-*-*"))
		for _, dir := range left {
			pid := strings.Split(filepath.Base(dir), "-")[2]
			if n, err := strconv.Atoi(pid); err == nil && syscall.Kill(n, 0) == syscall.ESRCH {
				_ = os.RemoveAll(dir)
			}
		}
	})
	dir, err := os.MkdirTemp("", fmt.Sprintf("waybill-own-%d-", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the files of a private server: %v", err)
		}
	})
	return dir
}

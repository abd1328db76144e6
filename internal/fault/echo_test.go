package fault_test

import (
	"net"
	"sync"
	"testing"
	"time"
)

// echo is a server that sends back what it receives, and remembers it.
type echo struct {
	addr  string
	ended chan error // how a connection's reading ended; the first few only

	mu    sync.Mutex
	got   []byte
	conns []net.Conn
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{addr: listener.Addr().String(), ended: make(chan error, 16)}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			e.conns = append(e.conns, conn)
			e.mu.Unlock()
			running.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		e.mu.Lock()
		for _, conn := range e.conns {
			conn.Close()
		}
		e.mu.Unlock()
		running.Wait()
	})
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer conn.Close()
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		e.mu.Lock()
		e.got = append(e.got, buf[:n]...)
		e.mu.Unlock()
		if _, writeErr := conn.Write(buf[:n]); err == nil {
			err = writeErr
		}
		if err != nil {
			select {
			case e.ended <- err:
			default:
			}
			return
		}
	}
}

func (e *echo) received() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return string(e.got)
}

// await waits until the server has received exactly want.
func (e *echo) await(t *testing.T, want string) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); e.received() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the server has received %q, want %q", e.received(), want)
		}
	}
}

// say sends something on the newest connection.
func (e *echo) say(t *testing.T, text string) {
	t.Helper()
	e.mu.Lock()
	conn := e.conns[len(e.conns)-1]
	e.mu.Unlock()
	write(t, conn, text)
}

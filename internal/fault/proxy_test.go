package fault_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/waybill-go/waybill/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// silence is how long a test listens before it believes that nothing comes.
const silence = 50 * time.Millisecond

func TestProxyCarriesBothWaysAndTheEnd(t *testing.T) {
	t.Parallel()
	proxy := fault.NewProxy(t, newEcho(t).addr)
	conn := dial(t, proxy)
	want := bytes.Repeat([]byte("waybill "), 1<<17) // more than any buffer on the way
	var writer sync.WaitGroup
	writer.Go(func() {
		_, _ = conn.Write(want)
		_ = conn.CloseWrite()
	})
	got, err := io.ReadAll(conn)
	writer.Wait()
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back of %d, error %v", len(got), len(want), err)
	}
}

func TestCutResetsAndRefuses(t *testing.T) {
	t.Parallel()
	echo := newEcho(t)
	proxy := fault.NewProxy(t, echo.addr)
	conn := dial(t, proxy)
	exchange(t, conn)

	proxy.Cut()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read after Cut: %v, want a reset", err)
	}
	if err := <-echo.ended; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server's end of the connection: %v, want a reset", err)
	}
	refused(t, proxy)

	proxy.Restore()
	exchange(t, dial(t, proxy))
}

func TestRefuseLeavesConnectionsAlone(t *testing.T) {
	t.Parallel()
	proxy := fault.NewProxy(t, newEcho(t).addr)
	conn := dial(t, proxy)
	exchange(t, conn)
	proxy.Refuse()
	refused(t, proxy)
	exchange(t, conn)
	proxy.Restore()
	exchange(t, dial(t, proxy))
	exchange(t, conn)
}

func TestHoldCarriesNothingUntilRestore(t *testing.T) {
	t.Parallel()
	echo := newEcho(t)
	proxy := fault.NewProxy(t, echo.addr)
	before := dial(t, proxy)
	exchange(t, before)

	proxy.Hold()
	after := dial(t, proxy) // accepted, yet it reaches nobody
	for _, conn := range []*net.TCPConn{before, after} {
		write(t, conn, "held")
		silent(t, conn)
	}
	if got := echo.received(); got != "ping" {
		t.Errorf("while held the server has received %q", got)
	}

	proxy.Restore()
	for _, conn := range []*net.TCPConn{before, after} {
		read(t, conn, "held")
		exchange(t, conn)
	}
}

func TestHoldOneDirection(t *testing.T) {
	t.Parallel()
	echo := newEcho(t)
	proxy := fault.NewProxy(t, echo.addr)
	conn := dial(t, proxy)
	exchange(t, conn)

	proxy.HoldToClient()
	write(t, conn, "order")
	echo.await(t, "pingorder") // it was carried out, and the answer stays away
	silent(t, conn)
	proxy.Restore()
	read(t, conn, "order")

	proxy.HoldToServer()
	echo.say(t, "news") // from the server, unasked: it comes through
	read(t, conn, "news")
	write(t, conn, "lost")
	silent(t, conn)
	if got := echo.received(); got != "pingorder" {
		t.Errorf("while held the server has received %q", got)
	}
	proxy.Cut()
	proxy.Restore()
	exchange(t, dial(t, proxy))
	echo.await(t, "pingorderping") // what was held when the line was cut is gone
}

func TestHoldHidesAnEnd(t *testing.T) {
	t.Parallel()
	echo := newEcho(t)
	proxy := fault.NewProxy(t, echo.addr)
	conn := dial(t, proxy)
	exchange(t, conn)
	proxy.Hold()
	conn.Close()
	select {
	case err := <-echo.ended:
		t.Fatalf("the server learnt of the client's end while held: %v", err)
	case <-time.After(silence):
	}
	proxy.Restore()
	if err := <-echo.ended; err != io.EOF {
		t.Errorf("the server's end of the connection: %v, want EOF", err)
	}
}

func TestServerThatIsAwayResets(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	proxy := fault.NewProxy(t, listener.Addr().String())
	conn, err := net.DialTimeout("tcp", proxy.Addr(), 5*time.Second)
	if err == nil { // the reset may come before dialling is done, or after
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("dial or read: %v, want a reset", err)
	}
}

// Cleanup must end the proxy whatever state a test leaves it in: goleak sees
// what stays, and a goroutine that is stuck keeps cleanup from returning.
func TestEndsInEveryState(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]func(*fault.Proxy){
		"carrying": func(*fault.Proxy) {},
		"cut":      (*fault.Proxy).Cut,
		"refusing": (*fault.Proxy).Refuse,
		"held":     (*fault.Proxy).Hold,
		"half":     (*fault.Proxy).HoldToServer,
	} {
		t.Run(name, func(t *testing.T) {
			proxy := fault.NewProxy(t, newEcho(t).addr)
			for range 5 {
				exchange(t, dial(t, proxy))
			}
			state(proxy)
		})
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	proxy := fault.NewProxy(t, newEcho(t).addr)
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for range 8 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				conn, err := net.DialTimeout("tcp", proxy.Addr(), time.Second)
				if err != nil {
					continue
				}
				_ = conn.SetDeadline(time.Now().Add(20 * time.Millisecond))
				_, _ = conn.Write([]byte("x"))
				_, _ = conn.Read(make([]byte, 1))
				conn.Close()
			}
		})
	}
	for range 20 {
		for _, change := range []func(){proxy.Hold, proxy.Cut, proxy.Restore, proxy.Refuse, proxy.HoldToClient, proxy.Restore} {
			change()
			<-time.After(time.Millisecond)
		}
	}
	close(stop)
	clients.Wait()
	exchange(t, dial(t, proxy))
}

func dial(t *testing.T, proxy *fault.Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", proxy.Addr(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

func refused(t *testing.T, proxy *fault.Proxy) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", proxy.Addr(), 5*time.Second)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial: %v, want connection refused", err)
	}
}

func write(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("read %q, error %v, want %q", got, err, want)
	}
}

func exchange(t *testing.T, conn net.Conn) {
	t.Helper()
	write(t, conn, "ping")
	read(t, conn, "ping")
}

// silent fails if anything comes within a while.
func silent(t *testing.T, conn net.Conn) {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
		t.Fatal(err)
	}
	n, err := conn.Read(make([]byte, 64))
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes came through, error %v; want silence", n, err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
}

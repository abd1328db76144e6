package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/admin"
	"github.com/waybill-go/waybill/internal/logtest"
)

func ask(t *testing.T, addr string, ready bool) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return admin.Ask(ctx, addr, ready)
}

// check fails as the test says.
func check(name string, err *atomic.Pointer[error]) admin.Check {
	return admin.Check{Name: name, Ask: func(context.Context) error {
		if failing := err.Load(); failing != nil {
			return *failing
		}
		return nil
	}}
}

func TestReadinessNamesWhatIsNotReady(t *testing.T) {
	t.Parallel()
	var store, backend atomic.Pointer[error]
	server := start(t, admin.Config{Ready: []admin.Check{check("store", &store), check("backend", &backend)}})
	if status, body := get(t, server, "/readyz"); status != 200 || !strings.Contains(body, `"ok": true`) {
		t.Errorf("/readyz answers %d, %s", status, body)
	}
	if err := ask(t, server.Addr(), true); err != nil {
		t.Errorf("health says %v of what is ready", err)
	}
	down := errors.New("PostgreSQL at db:5432: connection refused:\n\tstart it")
	store.Store(&down)
	deadline := time.Now().Add(20 * time.Second)
	for ask(t, server.Addr(), true) == nil { // the last answers serve for a second
		if time.Now().After(deadline) {
			t.Fatal("it is ready without its store")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if status, body := get(t, server, "/readyz"); status != 503 || !strings.Contains(body, `"error": "PostgreSQL at db:5432: connection refused: start it"`) {
		t.Errorf("/readyz answers %d, %s", status, body)
	}
	if err, want := ask(t, server.Addr(), true), "not ready: store: PostgreSQL at db:5432: connection refused: start it"; err == nil || err.Error() != want {
		t.Errorf("health says %v, want %s", err, want)
	}
	if err := ask(t, server.Addr(), false); err != nil {
		t.Errorf("without its store it is not live: %v", err)
	}
}

func TestLivenessIsTheLoops(t *testing.T) {
	t.Parallel()
	live := func() error { return errors.New("relay of lane mail: no pass for 5m0s") }
	server := start(t, admin.Config{Live: live})
	if status, body := get(t, server, "/livez"); status != 503 || !strings.Contains(body, "lane mail") {
		t.Errorf("/livez answers %d, %s", status, body)
	}
	if err, want := ask(t, server.Addr(), false), "not live: loops: relay of lane mail: no pass for 5m0s"; err == nil || err.Error() != want {
		t.Errorf("health says %v, want %s", err, want)
	}
}

// A server that hangs is not ready, in bounded time, and many who ask are one question.
func TestAHungCheckIsBoundedAndAskedOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := start(t, admin.Config{Ready: []admin.Check{
		{Name: "store", Ask: func(ctx context.Context) error {
			asked.Add(1)
			<-ctx.Done()
			return fmt.Errorf("no answer in time: %w", ctx.Err())
		}},
		{Name: "backend", Ask: func(context.Context) error { return nil }},
	}})
	var asking sync.WaitGroup
	for range 10 {
		asking.Go(func() {
			if err := ask(t, server.Addr(), true); err == nil || !strings.HasPrefix(err.Error(), "not ready: store: no answer in time") {
				t.Errorf("health says %v", err)
			}
		})
	}
	asking.Wait()
	if n := asked.Load(); n > 2 { // a machine may be slow enough for a second one
		t.Errorf("the store was asked %d times by ten at the same time", n)
	}
}

func TestPprofIsOffByDefault(t *testing.T) {
	t.Parallel()
	paths := []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/goroutine?debug=1", "/debug/pprof/profile?seconds=0.1", "/debug/pprof/trace?seconds=0.1"}
	off, on := start(t, admin.Config{}), start(t, admin.Config{Pprof: true})
	for _, path := range paths {
		if status, _ := get(t, off, path); status != 404 {
			t.Errorf("%s answers %d without --pprof", path, status)
		}
		status, body := get(t, on, path)
		if status != 200 || body == "" {
			t.Errorf("%s answers %d, %.80q", path, status, body)
		}
		if gzip := strings.Contains(path, "heap") || strings.Contains(path, "profile?"); gzip && !bytes.HasPrefix([]byte(body), []byte{0x1f, 0x8b}) {
			t.Errorf("%s is no profile: %.40q", path, body)
		}
	}
	// The command line may hold passwords.
	for path, want := range map[string]int{"/debug/pprof/cmdline": 404, "/debug/pprof/profile?seconds=3600": 400, "/debug/pprof/profile?seconds=-1": 400, "/debug/pprof/trace?seconds=x": 400} {
		if status, body := get(t, on, path); status != want {
			t.Errorf("%s answers %d, %.80q", path, status, body)
		}
	}
	request := httptest.NewRequest(http.MethodGet, "/debug/pprof/", nil)
	if _, pattern := http.DefaultServeMux.Handler(request); pattern != "" {
		t.Errorf("the default mux of whoever uses this package serves %s", pattern)
	}
}

func TestNothingIsWritten(t *testing.T) {
	t.Parallel()
	server := start(t, admin.Config{Pprof: true, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "up 1\n") })})
	if status, body := get(t, server, "/metrics"); status != 200 || body != "up 1\n" {
		t.Errorf("/metrics answers %d, %q", status, body)
	}
	for path, want := range map[string]int{"/": 404, "/livez/": 404, "/metricsz": 404} {
		if status, _ := get(t, server, path); status != want {
			t.Errorf("%s answers %d, want %d", path, status, want)
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/debug/pprof/heap"} {
		response, err := http.Post("http://"+server.Addr()+path, "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s answers %d", path, response.StatusCode)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestAnAddressThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for addr, want := range map[string]string{
		taken.Addr().String(): "is in use: choose another port",
		"9090":                "want host:port, as in 127.0.0.1:9090",
		"192.0.2.1:9090":      "is not one of this machine",
		"127.0.0.1:many":      "correct host and port",
	} {
		server, err := admin.Start(admin.Config{Addr: addr})
		if err == nil {
			server.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("listening at %s: %v, want %q", addr, err, want)
		}
	}
}

func TestTheLogSaysTheAddress(t *testing.T) {
	t.Parallel()
	logger, log := logtest.New()
	server := start(t, admin.Config{Logger: logger})
	log.Want(t, 1, "level=INFO", "admin endpoint listens", "address="+server.Addr())
}

// Close leaves nothing behind, also with answers under way.
func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	server := start(t, admin.Config{Pprof: true, Metrics: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})})
	done := make(chan error, 1)
	go func() {
		response, err := http.Get("http://" + server.Addr() + "/metrics")
		if err == nil {
			response.Body.Close()
		}
		done <- err
	}()
	<-entered
	started := time.Now()
	server.Close()
	server.Close()
	if took := time.Since(started); took > 20*time.Second {
		t.Errorf("Close took %s", took)
	}
	if err := <-done; err == nil {
		t.Error("an answer that was cut off looks whole")
	}
	if err := ask(t, server.Addr(), false); err == nil || !strings.Contains(err.Error(), "nobody listens") {
		t.Errorf("health says %v of a closed server", err)
	}
}

func TestHealthOfWhatIsNoAdminEndpoint(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }))
	defer web.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, test := range []struct {
		ctx        context.Context
		addr, want string
	}{
		{t.Context(), strings.TrimPrefix(web.URL, "http://"), "not as a relay or worker does"},
		{short, silent.Addr().String(), "no answer from"},
		{t.Context(), "9090", "want host:port"},
	} {
		if err := admin.Ask(test.ctx, test.addr, false); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("health of %s: %v, want %q", test.addr, err, test.want)
		}
	}
}

// What a process listens at for everybody is asked on loopback.
func TestHealthOfAnUnspecifiedAddress(t *testing.T) {
	t.Parallel()
	server := start(t, admin.Config{})
	_, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"", "0.0.0.0", "[::]"} {
		if err := ask(t, host+":"+port, false); err != nil {
			t.Errorf("health of %s: %v", host+":"+port, err)
		}
	}
}

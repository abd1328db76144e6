package cli_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
)

// sink is a destination that remembers what it was sent.
type sink struct {
	url string

	mu       sync.Mutex
	received map[string]int // by Idempotency-Key
	called   chan struct{}
	hold     chan struct{} // answers wait until it is closed
}

func newSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{received: map[string]int{}, called: make(chan struct{}, 1000), hold: make(chan struct{})}
	close(s.hold)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	s.received[r.Header.Get("Idempotency-Key")]++
	hold := s.hold
	s.mu.Unlock()
	s.called <- struct{}{}
	select {
	case <-hold:
	case <-r.Context().Done():
	}
}

// wait returns once the sink was called n times more.
func (s *sink) wait(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		select {
		case <-s.called:
		case <-time.After(30 * time.Second):
			t.Fatalf("the sink was called %d times, want %d", i, n)
		}
	}
}

func (s *sink) checkOnceEach(t *testing.T, want int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.received) != want {
		t.Errorf("%d deliveries arrived, want %d", len(s.received), want)
	}
	for id, times := range s.received {
		if times != 1 {
			t.Errorf("delivery %s arrived %d times", id, times)
		}
	}
}

// background runs a command until stop is called, which returns what it left.
func background(t *testing.T, run func(ctx context.Context) outcome) (stop func() outcome) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan outcome, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceValue(func() outcome {
		cancel()
		return <-done
	})
	t.Cleanup(func() { stop() })
	return stop
}

func TestFireRelayWorkStatus(t *testing.T) {
	t.Parallel()
	sink := newSink(t)
	s := newSite(t, "receivers:\n"+
		"- {key: all, event: '*', http: {url: '"+sink.url+"'}}\n"+
		"- {key: mail, event: order.placed, lane: mail, http: {url: '"+sink.url+"'}}\n"+
		"- {key: here, event: order.placed, lane: crm, site: relay, http: {url: '"+sink.url+"'}}\n")
	lines := strings.Repeat(`{"name":"order.placed","payload":{"id":1}}`+"\n", 20)
	succeeds(t, s.args("fire", "--file", s.file("events.jsonl", lines))...)
	stopWorker := background(t, func(ctx context.Context) outcome {
		return execute(ctx, cli.Worker(waybill.NewRegistry()), "", s.queueArgs("--slots", "4")...)
	})
	stopRelay := background(t, func(ctx context.Context) outcome {
		return execute(ctx, cli.Bridge(waybill.NewRegistry()), "", s.queueArgs("relay", "--lane", "default", "--lane", "mail", "--lane", "crm", "--poll", "50ms")...)
	})
	sink.wait(t, 60)
	for name, got := range map[string]outcome{"relay": stopRelay(), "worker": stopWorker()} {
		if got.code != 0 || got.out != "" {
			t.Errorf("%s: exit code %d, %q, %s", name, got.code, got.out, got.err)
		}
	}
	if got := s.owed(); got != 0 {
		t.Errorf("owed %d, want 0", got)
	}
	sink.checkOnceEach(t, 60)
}

func TestOneProcessIsEnough(t *testing.T) {
	t.Parallel()
	sink := newSink(t)
	s := newSite(t, "receivers:\n- {key: all, event: '*', http: {url: '"+sink.url+"'}}\n")
	succeeds(t, s.args("fire", "a", "--payload", "1")...)
	got := succeeds(t, s.args("relay", "--backend", "local:", "--once")...)
	if got.out != "succeeded: 1\n" || s.owed() != 0 {
		t.Errorf("relay --once = %q, owed %d", got.out, s.owed())
	}
	succeeds(t, s.args("fire", "a", "--payload", "2")...)
	succeeds(t, s.args("relay", "--backend", "local:", "--passes", "1")...)
	if s.owed() != 0 {
		t.Errorf("owed %d after one pass", s.owed())
	}
	sink.checkOnceEach(t, 2)
}

func TestOnceWithALimit(t *testing.T) {
	t.Parallel()
	s := newSite(t, oneReceiver)
	lines := strings.Repeat(`{"name":"a","payload":1}`+"\n", 7)
	succeeds(t, s.args("fire", "--file", s.file("events.jsonl", lines))...)
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"--limit", "3"}, "handed off: 3\n"},
		{[]string{"--limit", "1"}, "handed off: 1\n"},
		{[]string{"--batch-size", "2"}, "handed off: 3\n"},
		{nil, "Nothing owed.\n"},
	} {
		got := succeeds(t, s.queueArgs(append([]string{"relay", "--once", "--lane", "mail"}, step.args...)...)...)
		if got.out != step.want {
			t.Errorf("relay --once %v = %q, want %q", step.args, got.out, step.want)
		}
	}
}

func TestOrphansAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, "receivers:\n- {key: gone, event: '*', http: {url: 'http://127.0.0.1:9'}}\n")
	succeeds(t, s.args("fire", "a", "--payload", "1")...)
	s.receivers = s.file("other.yaml", "receivers:\n- {key: other, event: '*', http: {url: 'http://127.0.0.1:9'}}\n")
	if got := succeeds(t, s.args("status")...).out; !strings.Contains(got, "Owed to receivers that are not declared: gone\n") {
		t.Errorf("status = %s", got)
	}
	succeeds(t, s.queueArgs("relay", "--once")...)
	if got := s.owed(); got != 1 {
		t.Errorf("owed %d after a relay that waits an hour, want 1", got)
	}
	succeeds(t, s.queueArgs("relay", "--once", "--orphan-after", "0")...)
	if got := s.owed(); got != 0 {
		t.Errorf("owed %d after a relay that does not wait, want 0", got)
	}
}

// start runs a program as a process of its own.
func start(t *testing.T, program string, args ...string) (*exec.Cmd, *buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"="+program)
	return cmd, launch(t, cmd)
}

// launch starts a process, which is killed when the test ends. What it writes is told.
func launch(t *testing.T, cmd *exec.Cmd) *buffer {
	t.Helper()
	text := &buffer{}
	cmd.Stdout, cmd.Stderr = text, text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
		if strings.Contains(text.String(), "DATA RACE") {
			t.Errorf("%s %v has a data race: %s", cmd.Path, cmd.Args[1:], text)
		}
	})
	return text
}

// wrote waits until a file has all of the lines.
func wrote(t *testing.T, path string, lines ...string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		text, _ := os.ReadFile(path)
		missing := slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains(string(text), line) })
		if !missing {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not say %q: %s", path, lines, text)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// says waits until the process has written something.
func says(t *testing.T, text *buffer, what string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !strings.Contains(text.String(), what) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not say %q: %s", what, text)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Trap 45: a second signal that is swallowed.
func TestTheFirstSignalDrainsAndTheSecondEnds(t *testing.T) {
	t.Parallel()
	sink := newSink(t)
	sink.hold = make(chan struct{})
	s := newSite(t, "receivers:\n- {key: all, event: '*', http: {url: '"+sink.url+"'}}\n")
	succeeds(t, s.args("fire", "a", "--payload", "1")...)

	worker, said := start(t, "worker", s.queueArgs("--log-format", "text")...)
	succeeds(t, s.queueArgs("relay", "--once")...)
	sink.wait(t, 1)
	worker.Process.Signal(syscall.SIGTERM)
	says(t, said, "stopping; ") // the receiver hangs, and has 25 s
	worker.Process.Signal(syscall.SIGTERM)
	worker.Wait()
	if code := worker.ProcessState.ExitCode(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d after the second SIGTERM: %s", code, said)
	}

	relay, said := start(t, "bridge", s.queueArgs("relay", "--log-format", "text")...)
	says(t, said, "relay started")
	relay.Process.Signal(syscall.SIGINT)
	relay.Wait()
	if code := relay.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d of the relay after SIGINT: %s", code, said)
	}
	close(sink.hold)
}

func TestADrainLetsReceiversFinish(t *testing.T) {
	t.Parallel()
	sink := newSink(t)
	sink.hold = make(chan struct{})
	s := newSite(t, "receivers:\n- {key: all, event: '*', http: {url: '"+sink.url+"'}}\n")
	succeeds(t, s.args("fire", "a", "--payload", "1")...)
	worker, said := start(t, "worker", s.queueArgs("--log-format", "json")...)
	succeeds(t, s.queueArgs("relay", "--once")...)
	sink.wait(t, 1)
	worker.Process.Signal(syscall.SIGTERM)
	says(t, said, "stopping; ")
	close(sink.hold)
	worker.Wait()
	if code := worker.ProcessState.ExitCode(); code != 0 || s.owed() != 0 {
		t.Errorf("exit code %d, owed %d: %s", code, s.owed(), said)
	}
	sink.checkOnceEach(t, 1)
}

func TestAFailureOfTheRealProgram(t *testing.T) {
	t.Parallel()
	cmd, said := start(t, "bridge", "status", "--store", "postgres://ann:secret@"+closedPort(t)+"/app")
	cmd.Wait()
	checkFailure(t, outcome{code: cmd.ProcessState.ExitCode(), err: said.String()}, 1, "connection refused")
	cmd, said = start(t, "worker", "--fast")
	cmd.Wait()
	checkFailure(t, outcome{code: cmd.ProcessState.ExitCode(), err: said.String()}, 2, "unknown flag: --fast")
}

func TestOnceSaysWhatCameOfIt(t *testing.T) {
	t.Parallel()
	sink := newSink(t)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(broken.Close)
	s := newSite(t, fmt.Sprintf(`
receivers:
- {key: far, event: '*', lane: distant, http: {url: '%[1]s'}}
- {key: near, event: '*', site: relay, http: {url: '%[1]s'}}
- {key: failing, event: '*', site: relay, http: {url: '%[2]s'}}
- {key: hopeless, event: '*', site: relay, max_attempts: 1, http: {url: '%[2]s'}}
`, sink.url, broken.URL))
	lines := strings.Repeat(`{"name":"a","payload":1}`+"\n", 2)
	succeeds(t, s.args("fire", "--file", s.file("events.jsonl", lines))...)
	const want = "handed off: 2\ndead: 2\nfailed: 2\nsucceeded: 2\n"
	if got := succeeds(t, s.queueArgs("relay", "--once", "--all-lanes")...).out; got != want {
		t.Errorf("relay --once = %q, want %q", got, want)
	}
}

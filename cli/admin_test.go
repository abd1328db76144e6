package cli_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/services"
)

// served is a relay or worker with an admin endpoint.
type served struct {
	*testing.T
	addr string
	log  *buffer
	stop func() outcome
}

// serve runs a program until the test ends it, and finds out where it listens.
func serve(t *testing.T, program string, args ...string) *served {
	t.Helper()
	s := &served{T: t, log: &buffer{}}
	cmd := cli.Bridge(waybill.NewRegistry())
	if program == "worker" {
		cmd = cli.Worker(waybill.NewRegistry())
	}
	s.stop = background(t, func(ctx context.Context) outcome {
		var out buffer
		cmd.SetOut(&out)
		cmd.SetErr(s.log)
		code := cli.Execute(ctx, cmd, append(args, "--admin", "127.0.0.1:0"))
		return outcome{code, out.String(), s.log.String()}
	})
	says(t, s.log, "admin endpoint listens")
	address := regexp.MustCompile(`"address":"([^"]+)"`).FindStringSubmatch(s.log.String())
	if address == nil {
		t.Fatalf("it does not say where it listens: %s", s.log)
	}
	s.addr = address[1]
	return s
}

// get returns status and body of a path.
func (s *served) get(path string) (int, string) {
	s.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + s.addr + path)
	if err != nil {
		s.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// scrapes waits until /metrics has all of the lines.
func (s *served) scrapes(lines ...string) {
	s.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for _, line := range lines {
		for {
			status, body := s.get("/metrics")
			if status == 200 && strings.Contains("\n"+body, "\n"+line+"\n") {
				break
			}
			if time.Now().After(deadline) {
				s.Fatalf("/metrics answers %d without %s:\n%s", status, line, body)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// ready waits until `bridge health --ready` says so, or that it is not for these
// reasons. All the while the process is live.
func (s *served) ready(code int, reasons ...string) {
	s.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		if live := bridge(s.T, "health", "--admin", s.addr); live.code != 0 || live.out != "live\n" || live.err != "" {
			s.Fatalf("health = %+v", live)
		}
		got := bridge(s.T, "health", "--ready", "--admin", s.addr)
		fits := got.code == code
		for _, reason := range reasons {
			fits = fits && strings.Contains(got.err, reason)
		}
		switch {
		case fits && code == 0:
			if got.out != "ready\n" || got.err != "" {
				s.Errorf("health --ready = %+v", got)
			}
			return
		case fits:
			checkFailure(s.T, got, code, "bridge: not ready: ")
			return
		case time.Now().After(deadline):
			s.Fatalf("health --ready = %+v, want %d, %q", got, code, reasons)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// ends stops it, which it does well, and looks through what it logged.
func (s *served) ends() {
	s.Helper()
	got := s.stop()
	if got.code != 0 || got.out != "" {
		s.Errorf("exit code %d, %q, %s", got.code, got.out, got.err)
	}
	if strings.Contains(got.err, "secret") {
		s.Errorf("the log tells a password: %s", got.err)
	}
	for line := range strings.Lines(got.err) {
		if !json.Valid([]byte(line)) {
			s.Errorf("not on a terminal, and not JSON: %s", line)
		}
	}
	refused := bridge(s.T, "health", "--admin", s.addr)
	checkFailure(s.T, refused, 1, "not live: nobody listens at "+s.addr)
}

func TestAdminOfARelayAndAWorker(t *testing.T) {
	t.Parallel()
	sink := newSink(t)
	s := newSite(t, "receivers:\n"+
		"- {key: all, event: '*', http: {url: '"+sink.url+"'}}\n"+
		"- {key: mail, event: '*', lane: mail, http: {url: '"+sink.url+"'}}\n")
	succeeds(t, s.args("fire", "--file", s.file("events.jsonl", strings.Repeat(`{"name":"a","payload":1}`+"\n", 5)))...)
	worker := serve(t, "worker", s.queueArgs()...)
	relay := serve(t, "bridge", s.queueArgs("relay", "--poll", "50ms")...)
	sink.wait(t, 5)
	for _, process := range []*served{relay, worker} {
		process.ready(0)
		for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/debug/pprof/": 404, "/debug/pprof/heap": 404} {
			if status, body := process.get(path); status != want {
				t.Errorf("%s answers %d, %s", path, status, body)
			}
		}
		if _, body := process.get("/metrics"); !strings.Contains(body, "go_goroutines ") || !strings.Contains(body, "go_build_info{") {
			t.Errorf("/metrics does not tell of the program:\n%s", body)
		}
	}
	relay.scrapes(`waybill_claims_total{lane="default"} 5`, `waybill_enqueued_total{lane="default",site="task"} 5`,
		`waybill_deliveries{lane="mail",receiver="mail",status="pending"} 5`, `waybill_queue_messages{lane="default",state="ready"} 0`)
	worker.scrapes(`waybill_takes_total{lane="default",receiver="all"} 5`, `waybill_takes_total{lane="mail",receiver="mail"} 0`,
		`waybill_acks_total{lane="default",receiver="all",status="succeeded"} 5`, `waybill_run_seconds_count{lane="default",receiver="all"} 5`,
		`waybill_queue_wait_seconds_count{lane="default"} 5`, `waybill_delivery_seconds_count{lane="default"} 5`)
	if _, body := worker.get("/metrics"); strings.Contains(body, "waybill_deliveries{") || strings.Contains(body, "waybill_passes_total{") {
		t.Error("a worker tells what relays tell")
	}
	relay.ends()
	worker.ends()
}

// One process that does everything tells everything.
func TestAdminOfARelayThatRunsReceivers(t *testing.T) {
	t.Parallel()
	sink := newSink(t)
	s := newSite(t, "receivers:\n- {key: all, event: '*', http: {url: '"+sink.url+"'}}\n")
	succeeds(t, s.args("fire", "a", "--payload", "1")...)
	relay := serve(t, "bridge", s.args("relay", "--backend", "local:", "--pprof")...)
	relay.ready(0)
	relay.scrapes(`waybill_enqueued_total{lane="default",site="task"} 1`, `waybill_acks_total{lane="default",receiver="all",status="succeeded"} 1`,
		`waybill_queue_consumers{lane="default"} 10`)
	if status, _ := relay.get("/debug/pprof/heap"); status != 200 {
		t.Errorf("/debug/pprof/heap answers %d with --pprof", status)
	}
	relay.ends()
}

// What is away is named, and nobody restarts a process for it.
func TestReadinessWithoutStoreOrBackend(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	s := newSite(t, "receivers:\n- {key: all, event: '*', http: {url: 'http://127.0.0.1:9'}}\n")
	direct := services.Postgres(t)
	succeeds(t, "migrate", "--store", direct)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	proxy := fault.NewProxy(t, u.Host)
	s.store = with(t, direct, func(u *url.URL) { u.Host = proxy.Addr() })
	s.backend = "redis://ann:secret@" + redis.Addr()
	redis.RequireUserAuth("ann", "secret")
	worker := serve(t, "worker", s.queueArgs()...)
	relay := serve(t, "bridge", s.queueArgs("relay", "--poll", "50ms")...)
	for _, process := range []*served{relay, worker} {
		process.ready(0)
	}
	proxy.Cut()
	for _, process := range []*served{relay, worker} {
		process.ready(1, "store: PostgreSQL at ", "connection refused")
	}
	proxy.Hold()
	relay.ready(1, "store: PostgreSQL at ", "no answer in time")
	proxy.Restore()
	redis.Close()
	for _, process := range []*served{relay, worker} {
		process.ready(1, "not ready: backend: Redis at ", "connection refused")
	}
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	for _, process := range []*served{relay, worker} {
		process.ready(0)
		process.ends()
	}
}

func TestReadinessWithAnotherSchema(t *testing.T) {
	t.Parallel()
	s := newSite(t, "receivers:\n- {key: all, event: '*', http: {url: 'http://127.0.0.1:9'}}\n")
	worker := serve(t, "worker", s.queueArgs()...)
	succeeds(t, "migrate", "down", "--store", s.store)
	worker.ready(1, "schema: ", "bridge migrate")
	succeeds(t, "migrate", "--store", s.store)
	worker.ready(0)
	worker.ends()
}

func TestReadinessWithoutTheBackendsTables(t *testing.T) {
	t.Parallel()
	s := newSite(t, "receivers:\n- {key: all, event: '*', http: {url: 'http://127.0.0.1:9'}}\n")
	s.backend = "river:"
	succeeds(t, "migrate", "--store", s.store, "--backend", s.backend)
	relay := serve(t, "bridge", s.queueArgs("relay")...)
	relay.ready(0)
	succeeds(t, "migrate", "down", "--queue", "--store", s.store, "--backend", s.backend)
	relay.ready(1, "backend schema: step ", "bridge migrate")
	relay.stop()
}

func TestAdminAddressInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := newSite(t, "receivers:\n- {key: all, event: '*', http: {url: 'http://127.0.0.1:9'}}\n")
	checkFailure(t, bridge(t, s.queueArgs("relay", "--log-level", "error", "--admin", taken.Addr().String())...), 1, "is in use: choose another port")
	got := execute(t.Context(), cli.Worker(waybill.NewRegistry()), "", s.queueArgs("--log-level", "error", "--admin", taken.Addr().String())...)
	checkFailure(t, got, 1, "is in use: choose another port")
	// A pass that is over at once has nothing to tell, and needs no address.
	succeeds(t, s.queueArgs("relay", "--once", "--admin", taken.Addr().String())...)
}

func TestAdminUsage(t *testing.T) {
	t.Parallel()
	s := newSite(t, "receivers:\n- {key: all, event: '*', http: {url: 'http://127.0.0.1:9'}}\n")
	checkFailure(t, bridge(t, s.queueArgs("relay", "--pprof")...), 2, "--pprof is for --admin")
	checkFailure(t, execute(t.Context(), cli.Worker(waybill.NewRegistry()), "", s.queueArgs("--pprof")...), 2, "--pprof is for --admin")
	checkFailure(t, bridge(t, s.queueArgs("relay", "--admin", "9090")...), 2, "want host:port, as in 127.0.0.1:9090")
	checkFailure(t, bridge(t, "health"), 2, "no address: set --admin or WAYBILL_ADMIN")
	checkFailure(t, bridge(t, "health", "--admin", "9090"), 2, "want host:port")
	checkFailure(t, bridge(t, "health", "--admin", ":9090", "--timeout", "0s"), 2, "--timeout 0s: must be longer than nothing")
	checkFailure(t, bridge(t, "health", "--admin", closedPort(t)), 1, "not live: nobody listens at ", "--admin?")
	checkFailure(t, bridge(t, "health", "--ready", "--admin", closedPort(t)), 1, "not ready: nobody listens at ")
}

package declare_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/declare"
)

// TestMain sets the one variable that the files below refer to.
func TestMain(m *testing.M) {
	os.Setenv("WAYBILL_DECLARE_TOKEN", "t0ps3cret")
	os.Setenv("WAYBILL_DECLARE_EMPTY", "")
	os.Exit(m.Run())
}

func read(t *testing.T, text string) (*waybill.Registry, error) {
	t.Helper()
	reg := waybill.NewRegistry()
	return reg, declare.Read(reg, "r.yaml", strings.NewReader(text), waybill.SiteTask, waybill.SiteRelay)
}

func TestEveryField(t *testing.T) {
	t.Parallel()
	reg, err := read(t, `
receivers:
  - key: crm.sync
    event: order.placed
    lane: crm
    site: relay
    lease: 60s
    timeout: 5m
    heartbeat: true
    max_attempts: 8
    backoff: {base: 500ms, cap: 10m}
    give_up_after: 24h
    http: {url: "http://sink.example/hook"}
  - {key: audit, event: '*', http: {url: "https://sink.example"}}
`)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	full, _ := reg.Receiver("crm.sync")
	least, _ := reg.Receiver("audit")
	if full == nil || least == nil {
		t.Fatalf("declared: %v", waybill.Keys(reg.Receivers()))
	}
	wantFull := waybill.Options{
		Lane: "crm", Site: waybill.SiteRelay, Lease: time.Minute, Timeout: 5 * time.Minute, Heartbeat: true, MaxAttempts: 8,
		Backoff: waybill.Backoff{Base: 500 * time.Millisecond, Cap: 10 * time.Minute}, GiveUpAfter: 24 * time.Hour,
	}
	if diff := cmp.Diff(wantFull, full.Options, cmp.AllowUnexported(waybill.Targets{})); diff != "" {
		t.Errorf("crm.sync (-want +got):\n%s", diff)
	}
	wantLeast := waybill.Options{
		Lane: "default", Site: waybill.SiteTask, Lease: 5 * time.Minute, MaxAttempts: 5,
		Backoff: waybill.Backoff{Base: 2 * time.Second, Cap: time.Hour},
	}
	if diff := cmp.Diff(wantLeast, least.Options, cmp.AllowUnexported(waybill.Targets{})); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
	if full.Event != "order.placed" || least.Event != waybill.AnyEvent {
		t.Errorf("events = %q and %q", full.Event, least.Event)
	}
}

func TestADeclaredReceiverSends(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	reg, err := read(t, `
receivers:
- key: crm
  event: order.placed
  http:
    url: `+server.URL+`/${WAYBILL_DECLARE_TOKEN}
    method: put
    headers:
      Authorization: Bearer ${WAYBILL_DECLARE_TOKEN}
      X-Plain: "$5 and $${HOME}"
`)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	receiver, _ := reg.Receiver("crm")
	d := &waybill.Delivery{ID: 9, Receiver: "crm", Attempt: 1, Event: &waybill.Event{Name: "order.placed", Payload: []byte(`{"a":1}`)}}
	if err := receiver.Call(context.Background(), nil, d); err != nil {
		t.Fatalf("outcome: %v", err)
	}
	if got.Method != "PUT" || got.URL.Path != "/t0ps3cret" || string(body) != `{"a":1}` {
		t.Errorf("request = %s %s %q", got.Method, got.URL.Path, body)
	}
	if a, x := got.Header.Get("Authorization"), got.Header.Get("X-Plain"); a != "Bearer t0ps3cret" || x != "$5 and ${HOME}" {
		t.Errorf("headers = %q and %q", a, x)
	}
}

func TestAnAliasStandsForItsAnchor(t *testing.T) {
	t.Parallel()
	reg, err := read(t, `
receivers:
- {key: a, event: x, backoff: &slow {base: 10s, cap: 1h}, http: &sink {url: "http://sink.example"}}
- {key: b, event: y, backoff: *slow, http: *sink}
`)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	if b, ok := reg.Receiver("b"); !ok || b.Backoff.Base != 10*time.Second {
		t.Errorf("b = %+v", b)
	}
}

// Trap 74: a setting that is misspelt and so does nothing.
func TestEveryMistakeIsNamed(t *testing.T) {
	t.Parallel()
	reg, err := read(t, `receivers:
  - key: one
    event: order.placed
    leese: 60s
    lease: 60
    lane: Not A Lane
    max_attempts: none
    http:
      url: ftp://ann:t0ps3cret@sink.example
  - key: two
    event: '*'
    event: order.placed
    lease: 30s
    timeout: 30s
    http:
      urL: http://sink.example
      headers: {Authorization: "Bearer ${WAYBILL_DECLARE_NONE}"}
  - event: order.placed
    http: {url: http://sink.example}
  - key: one
    event: x
    heartbeat: yes
    ecec: {}
`)
	if err == nil {
		t.Fatal("Read accepts it")
	}
	want := `r.yaml:4: receiver "one": leese: unknown field; did you mean lease?
r.yaml:5: receiver "one": lease: 60 has no unit; write 60s, 60m or 60h
r.yaml:6: receiver "one": lane: lane "Not A Lane" must be lower-case letters and digits, with single - or _ between them
r.yaml:7: receiver "one": max_attempts: none must be a whole number, 1 or more
r.yaml:9: receiver "one": http.url: url has the scheme "ftp"; want http or https
r.yaml:12: receiver "two": event: is on line 11 already
r.yaml:14: receiver "two": timeout: 30s must be below the lease of 30s; raise the lease, or declare heartbeat: true
r.yaml:16: receiver "two": http.url: is missing; say where to send the event
r.yaml:16: receiver "two": http.urL: unknown field; did you mean url?
r.yaml:17: receiver "two": http.headers.Authorization: environment variable WAYBILL_DECLARE_NONE is not set
r.yaml:18: receiver 3: key: is missing; give the receiver a name of its own
r.yaml:20: receiver "one": http: say what runs the receiver, with exactly one of: http, exec
r.yaml:20: receiver "one": key: line 2 has that key already; every receiver needs its own
r.yaml:22: receiver "one": heartbeat: yes must be true or false
r.yaml:23: receiver "one": ecec: unknown field; did you mean exec?`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if declared := reg.Receivers(); len(declared) != 0 || reg.Err() != nil {
		t.Errorf("a file with mistakes declares %v, %v", waybill.Keys(declared), reg.Err())
	}
}

// Trap 8: a lease that is over before its run starts.
func TestRefused(t *testing.T) {
	t.Parallel()
	receiver := func(fields string) string {
		return "receivers:\n- key: a\n  event: x\n  http: {url: 'http://sink.example'}\n" + fields
	}
	tests := []struct{ name, file, want string }{
		{"an empty file", "", "r.yaml:1: the file declares no receivers"},
		{"comments only", "# soon\n", "r.yaml:1: the file declares no receivers"},
		{"an empty list", "\nreceivers: []\n", "r.yaml:2: the file declares no receivers"},
		{"no value", "receivers:\n", "r.yaml:1: receivers: has no value"},
		{"two things that run it", "receivers:\n- key: a\n  event: x\n  http: {url: 'http://sink.example'}\n  exec: {command: [sh]}\n", `r.yaml:5: receiver "a": exec: say what runs the receiver, with exactly one of: http, exec`},
		{"another shape", "- key: a\n", "r.yaml:1: want fields"},
		{"a receiver that is text", "receivers: [a]", "r.yaml:1: receiver 1: want fields"},
		{"a mapping of receivers", "receivers:\n  a: {event: x}\n", "r.yaml:1: receivers: want a list"},
		{"an unknown top-level field", "version: 1\n" + receiver(""), "r.yaml:1: version: unknown field; known are receivers"},
		{"a misspelt top-level field", "reciever:\n- key: a", "r.yaml:1: reciever: unknown field; did you mean receivers?"},
		{"a wildcard without quotes", "receivers:\n- key: a\n  event: *\n", "r.yaml:3: not YAML: did not find expected alphabetic or numeric character (while scanning an alias); a value that begins with * stands in quotes: event: '*'"},
		{"a tab", "receivers:\n\t- key: a\n", "r.yaml:2: not YAML: "},
		{"two documents", receiver("") + "---\nreceivers: []\n", "r.yaml:5: a second document begins here"},
		{"Latin-1", "receivers:\n- key: caf\xe9\n", "r.yaml:2: the file is not UTF-8"},
		{"an unknown site", receiver("  site: moon\n"), `r.yaml:5: receiver "a": site: site "moon" is neither "task" nor "relay"`},
		{"a list of events", "receivers:\n- key: a\n  event: [x, y]\n  http: {url: 'http://sink.example'}", `r.yaml:3: receiver "a": event: want one event; declare a receiver for each, or '*' for every event`},
		{"no event", "receivers:\n- key: a\n  http: {url: 'http://sink.example'}", `r.yaml:2: receiver "a": event: is missing`},
		{"nothing that runs it", "receivers:\n- {key: a, event: x}", `r.yaml:2: receiver "a": http: say what runs the receiver`},
		{"http without fields", "receivers:\n- {key: a, event: x, http: 'http://sink.example'}", `r.yaml:2: receiver "a": http.want fields`},
		{"a duration that is none", receiver("  lease: 1 day\n"), `r.yaml:5: receiver "a": lease: 1 day is not a duration; write it like 90s, 5m or 1h30m`},
		{"no time at all", receiver("  lease: 0s\n"), `lease: 0s must be longer than nothing`},
		{"a negative time", receiver("  give_up_after: -5m\n"), `give_up_after: -5m must be longer than nothing`},
		{"a timeout as long as the default lease", receiver("  timeout: 5m\n"), "r.yaml:5: receiver \"a\": timeout: 5m0s must be below the lease of 5m0s"},
		{"a heartbeat up to nothing", receiver("  heartbeat: true\n"), `r.yaml:5: receiver "a": heartbeat: needs a timeout`},
		{"no attempts", receiver("  max_attempts: 0\n"), `max_attempts: 0 must be a whole number, 1 or more`},
		{"a cap below its base", receiver("  backoff:\n    base: 1m\n    cap: 1s\n"), `r.yaml:5: receiver "a": backoff: backoff cap 1s is below its base 1m0s`},
		{"an unknown field of the backoff", receiver("  backoff:\n    bass: 1m\n"), `r.yaml:6: receiver "a": backoff.bass: unknown field; did you mean base?`},
		{"a field in another spelling", receiver("  max-attempts: 3\n"), `max-attempts: unknown field; did you mean max_attempts?`},
		{"a method", "receivers:\n- key: a\n  event: x\n  http:\n    url: http://sink.example\n    method: GET\n", `r.yaml:6: receiver "a": http.method: method "GET" is none of POST, PUT, PATCH`},
		{"a header of ours", "receivers:\n- key: a\n  event: x\n  http:\n    url: http://sink.example\n    headers:\n      Waybill-Event: x\n", `r.yaml:6: receiver "a": http.headers: header Waybill-Event is set by the delivery itself`},
		{"an empty variable", receiver("") + "- {key: b, event: x, http: {url: 'http://${WAYBILL_DECLARE_EMPTY}'}}\n", `r.yaml:5: receiver "b": http.url: environment variable WAYBILL_DECLARE_EMPTY is empty`},
		{"a reference that does not end", receiver("") + "- {key: b, event: x, http: {url: 'http://${WAYBILL'}}\n", `http.url: ${ begins no reference`},
		{"a long name", receiver("  " + strings.Repeat("x", 500) + ": 1\n"), `x": unknown field`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := read(t, test.file)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("Read: %v\nwant %q in the error", err, test.want)
			}
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
				t.Errorf("the error is not one line: %q", err)
			}
		})
	}
}

func TestAKeyThatTheProgramDeclares(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	waybill.OnAny(reg, "audit", func(context.Context, *waybill.Delivery) error { return nil }, waybill.Options{})
	err := declare.Read(reg, "r.yaml", strings.NewReader("receivers:\n- {key: audit, event: x, http: {url: 'http://sink.example'}}"))
	if err == nil || err.Error() != `r.yaml:2: receiver "audit": key: the program declares that key already` {
		t.Errorf("Read: %v", err)
	}
	if reg.Err() != nil {
		t.Errorf("the registry has an error: %v", reg.Err())
	}
}

func TestLoadForNeedsOnlyTheSecretsOfItsSites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "receivers.yaml")
	file := `
receivers:
- {key: a, event: x, http: {url: 'http://${WAYBILL_DECLARE_NONE}'}}
- {key: b, event: x, site: relay, http: {url: 'http://sink.example'}}
`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, sites := range [][]waybill.Site{{waybill.SiteTask}, {waybill.SiteTask, waybill.SiteRelay}} {
		err := declare.LoadFor(waybill.NewRegistry(), path, sites...)
		if err == nil || !strings.Contains(err.Error(), "WAYBILL_DECLARE_NONE is not set") {
			t.Errorf("LoadFor %v: %v, want the variable that is missing", sites, err)
		}
	}
	reg := waybill.NewRegistry()
	if err := declare.LoadFor(reg, path, waybill.SiteRelay); err != nil {
		t.Fatalf("LoadFor the relay: %v", err)
	}
	a, _ := reg.Receiver("a")
	if err := a.Call(context.Background(), nil, &waybill.Delivery{}); err == nil || waybill.IsPermanent(err) {
		t.Errorf("a receiver without its secret returns %v, want an error that another attempt can mend", err)
	}
}

// An application that fires has every receiver and needs nothing of what they need.
func TestLoadIsForThoseThatFire(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "receivers.yaml")
	file := `
receivers:
- {key: a, event: x, http: {url: 'http://sink.example', headers: {Authorization: '${WAYBILL_DECLARE_NONE}'}}}
- {key: b, event: x, site: relay, max_attempts: 9, http: {url: 'http://${WAYBILL_DECLARE_EMPTY}'}}
- {key: c, event: x, exec: {command: [no-such-program], dir: /no/such/dir}}
- {key: d, event: other, exec: {command: [no-such-program], env: {TOKEN: '${WAYBILL_DECLARE_NONE}'}}}
`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	reg := waybill.NewRegistry()
	if err := declare.Load(reg, path); err != nil {
		t.Fatalf("Load: %v", err)
	}
	plan, err := reg.Plan(t.Context(), nil, waybill.RawEvent{Name: "x", Payload: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, row := range plan.Deliveries {
		got[row.Receiver] = row.MaxAttempts
	}
	if diff := cmp.Diff(map[string]int{"a": 5, "b": 9, "c": 5}, got); diff != "" {
		t.Errorf("rows that are written (-want +got):\n%s", diff)
	}
	for key, want := range map[string]string{"b": "WAYBILL_DECLARE_EMPTY is empty", "c": "/no/such/dir", "d": "WAYBILL_DECLARE_NONE is not set"} {
		receiver, _ := reg.Receiver(key)
		if err := receiver.Call(t.Context(), nil, &waybill.Delivery{Event: &waybill.Event{}}); err == nil || !strings.Contains(err.Error(), want) || waybill.IsPermanent(err) {
			t.Errorf("%s, run all the same, returns %v, want %q in it", key, err, want)
		}
	}
	// What is wrong on any machine is wrong here too.
	if err := declare.Read(waybill.NewRegistry(), "r.yaml", strings.NewReader("receivers:\n- {key: a, event: x, exec: {command: ['']}}")); err == nil {
		t.Error("Read accepts a command without a name")
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, path := range []string{filepath.Join(folder, "none.yaml"), folder} {
		err := declare.Load(waybill.NewRegistry(), path)
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("Load(%s): %v", path, err)
		}
	}
	if err := declare.Read(waybill.NewRegistry(), "r.yaml", iotest.ErrReader(io.ErrUnexpectedEOF)); err == nil {
		t.Error("Read accepts what cannot be read")
	}
	if err := declare.Read(waybill.NewRegistry(), "r.yaml", io.LimitReader(zeros{}, 1<<30)); err == nil || !strings.Contains(err.Error(), "longer than 4 MiB") {
		t.Errorf("Read of a huge file: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"", "receivers:", "receivers: []", "- a", "receivers: [{key: a, event: '*', http: {url: 'http://x'}}]",
		"receivers:\n- key: a\n  event: x\n  lease: 1s\n  timeout: 2s\n  heartbeat: true\n  http: {url: 'http://${A}/$${B}', headers: {a: b}}\n",
		"receivers: &a [*a]", "a: &a {<<: *a}", "receivers: [{key: &k a, *k : b}]", "? [a]\n: b", "receivers: [{key: a, event: x, exec: {command: [sh, -c, 'x'], env: {A: '${B}'}, permanent_exit: [65]}}]", "receivers: [{key: a, event: x, exec: {command: [~]}}]", "receivers:\n- key: !!binary xx", "a: *", "---\n---\n",
		"receivers: [{backoff: {base: 1s, base: 2s}}]", "{receivers: [~]}", "\xff", "%YAML 9\n---\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		reg := waybill.NewRegistry()
		err := declare.Read(reg, "r.yaml", strings.NewReader(text))
		declared := len(reg.Receivers())
		switch {
		case err == nil && declared == 0:
			t.Error("a file without receivers is accepted")
		case err != nil && declared > 0:
			t.Errorf("a file with mistakes declares %d receivers: %v", declared, err)
		case reg.Err() != nil:
			t.Errorf("what was accepted is refused by the registry: %v", reg.Err())
		}
		if err == nil {
			return
		}
		for line := range strings.Lines(err.Error()) {
			if !strings.HasPrefix(line, "r.yaml:") {
				t.Errorf("an error without its place: %q", line)
			}
		}
	})
}

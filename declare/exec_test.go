package declare_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/declare"
)

func TestADeclaredCommandRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	reg, err := read(t, `
receivers:
- key: export
  event: order.placed
  give_up_after: 1h
  exec:
    command: [sh, -c, 'cat >payload; echo "$0 $TOKEN $PLAIN $WAYBILL_EVENT" >facts; exit "$CODE"', '${HOME}']
    dir: `+dir+`
    env: {TOKEN: 'a ${WAYBILL_DECLARE_TOKEN}', PLAIN: '$5 and $${HOME}', CODE: 75}
    defer_for: 10s
- {key: strict, event: order.placed, exec: {command: [sh, -c, 'exit 65'], permanent_exit: [64, 65]}}
- {key: slow, event: order.placed, timeout: 50ms, exec: {command: [sleep, 60]}}
`)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	call := func(key string) error {
		receiver, _ := reg.Receiver(key)
		d := &waybill.Delivery{ID: 9, Receiver: key, Attempt: 1, Event: &waybill.Event{Name: "order.placed", Payload: []byte(`{"a":1}`)}, Lease: time.Minute}
		return receiver.Call(context.Background(), nil, d)
	}
	if err := call("export"); err == nil || err.Error() != "sh exited with 75: deferred for 10s" {
		t.Errorf("export: %v", err)
	}
	for name, want := range map[string]string{"payload": `{"a":1}`, "facts": "${HOME} a t0ps3cret $5 and ${HOME} order.placed\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v; want %q", name, got, err, want)
		}
	}
	if err := call("strict"); !waybill.IsPermanent(err) {
		t.Errorf("strict: %v, want a failure for good", err)
	}
	if err := call("slow"); err == nil || !strings.Contains(err.Error(), "it did not exit within 50ms") {
		t.Errorf("slow: %v, want the receiver's timeout", err)
	}
}

func TestEveryMistakeOfACommandIsNamed(t *testing.T) {
	t.Parallel()
	file := `receivers:
  - key: one
    event: x
    exec:
      command: /bin/sync --all
      dirr: /
      permanent_exit: [65, none, 75]
      defer_for: 5
  - key: two
    event: x
    exec:
      command: [no-such-program, --all]
  - key: three
    event: x
    exec:
      command: []
      env:
        A: ${WAYBILL_DECLARE_NONE}
        B: [1]
      permanent_exit: 65
  - key: four
    event: x
    exec:
      command: [sh, ~, [a]]
  - key: five
    event: x
    exec:
      command: [sh]
      env: {WAYBILL_EVENT: y}
  - key: six
    event: x
    exec:
      command: [sh]
      dir: /no/such/dir
  - key: seven
    event: x
    exec: sync
  - key: eight
    event: x
    exec:
      dir: /
      command: [sh]
      permanent_exit: [75]
  - key: nine
    event: x
    exec: {dir: /}
`
	want := `r.yaml:5: receiver "one": exec.command: want a list, as in [program, argument]; there is no shell that splits a text, unless it is the program: [/bin/sh, -c, /bin/sync --all]
r.yaml:6: receiver "one": exec.dirr: unknown field; did you mean dir?
r.yaml:7: receiver "one": exec.permanent_exit: none is no exit code of a failure; want 1 to 255
r.yaml:8: receiver "one": exec.defer_for: 5 has no unit; write 5s, 5m or 5h
r.yaml:12: receiver "two": exec.command: "no-such-program": executable file not found in $PATH
r.yaml:16: receiver "three": exec.command: is empty; name the program and its arguments
r.yaml:18: receiver "three": exec.env.A: environment variable WAYBILL_DECLARE_NONE is not set
r.yaml:19: receiver "three": exec.env.B: want one value, not a list or a mapping
r.yaml:20: receiver "three": exec.permanent_exit: want a list, as in [a, b]
r.yaml:24: receiver "four": exec.command: item 2 has to be one value
r.yaml:24: receiver "four": exec.command: item 3 has to be one value
r.yaml:29: receiver "five": exec.env: env WAYBILL_EVENT is set by the delivery itself and cannot be configured
r.yaml:34: receiver "six": exec.dir: stat /no/such/dir: no such file or directory
r.yaml:37: receiver "seven": exec.want fields, each as name: value
r.yaml:43: receiver "eight": exec.permanent_exit: permanent exit code 75: that is the one of a temporary failure, which defers
r.yaml:46: receiver "nine": exec.command: is missing; name the program and its arguments, as a list`
	reg, err := read(t, file)
	if err == nil {
		t.Fatal("Read accepts it")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if declared := reg.Receivers(); len(declared) != 0 {
		t.Errorf("a file with mistakes declares %v", waybill.Keys(declared))
	}
}

// A machine that does not run a command need not have it, nor its secrets: a relay's.
func TestACommandIsNeededWhereItRuns(t *testing.T) {
	t.Parallel()
	const file = `receivers:
- {key: far, event: x, exec: {command: [no-such-program], env: {A: '${WAYBILL_DECLARE_NONE}'}}}
- {key: near, event: x, site: relay, exec: {command: [no-such-relay-program]}}
`
	for _, test := range []struct {
		sites []waybill.Site
		want  string
	}{
		{nil, ""},
		{[]waybill.Site{waybill.SiteTask}, `r.yaml:2: receiver "far": exec.env.A: environment variable WAYBILL_DECLARE_NONE is not set`},
		{[]waybill.Site{waybill.SiteRelay}, `r.yaml:3: receiver "near": exec.command: "no-such-relay-program": executable file not found in $PATH`},
	} {
		got := ""
		if err := declare.Read(waybill.NewRegistry(), "r.yaml", strings.NewReader(file), test.sites...); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("for %v: %q, want %q", test.sites, got, test.want)
		}
	}
}

// What of a receiver is not in its options, and may have changed.
func TestRunners(t *testing.T) {
	t.Parallel()
	const file = `receivers:
- {key: a, event: x, http: &to {url: 'http://sink.example/${WAYBILL_DECLARE_TOKEN}', headers: {B: 1, A: 2}}}
- {key: b, event: x, http: *to}
- {key: c, event: x, exec: {command: [sh, -c, x], env: {A: 1}}}
`
	got := declare.Runners([]byte(file))
	if len(got) != 3 || got["a"] != got["b"] || strings.Contains(got["a"], "t0ps3cret") {
		t.Fatalf("Runners = %v", got)
	}
	same := strings.ReplaceAll(strings.ReplaceAll(file, "{B: 1, A: 2}", "{\"A\": '2', B: 1}"), "event: x", "event: y")
	if diff := cmp.Diff(got, declare.Runners([]byte(same))); diff != "" {
		t.Errorf("another spelling is another runner (-want +got):\n%s", diff)
	}
	for _, change := range [][2]string{{"B: 1", "B: 3"}, {"sink.example", "sink2.example"}, {"[sh, -c, x]", "[sh, x, -c]"}, {"env: {A: 1}", "env: {A: 2}"}} {
		other := declare.Runners([]byte(strings.ReplaceAll(file, change[0], change[1])))
		if cmp.Equal(got, other) {
			t.Errorf("%s instead of %s is no change", change[1], change[0])
		}
	}
	for _, file := range []string{"", "a", "receivers:", "receivers: x", "receivers: [{}]", "receivers: [a]", "\xff", "*"} {
		if got := declare.Runners([]byte(file)); len(got) != 0 {
			t.Errorf("Runners of %q = %v", file, got)
		}
	}
}

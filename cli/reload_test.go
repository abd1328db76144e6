package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// writes is a receiver in YAML that adds its key and the payload to the notes.
func writes(key, more string) string {
	return fmt.Sprintf("- {key: %s, event: '*'%s, exec: {command: [sh, -c, 'echo \"%s $(cat)\" >>\"$NOTES\"'], env: {NOTES: '${SHOP_NOTES}'}}}\n", key, more, key)
}

// declares writes the team's file.
func (s *team) declares(lines ...string) {
	s.t.Helper()
	if err := os.WriteFile(s.file(), []byte(strings.Join(lines, "")), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *team) file() string { return filepath.Join(filepath.Dir(s.notes), "receivers.yaml") }

// hangUp sends SIGHUP and waits until the process has said all of that since.
func hangUp(t *testing.T, process *exec.Cmd, said *buffer, want ...string) (since string) {
	t.Helper()
	before := len(said.String())
	if err := process.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		since, missing := said.String()[before:], ""
		for _, what := range want {
			if !strings.Contains(since, what) {
				missing = what
			}
		}
		if missing == "" {
			return since
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not say %q: %s", missing, since)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

const inForce = "declarations read anew"

func TestSIGHUPReadsTheFileAnew(t *testing.T) {
	t.Parallel()
	s := newTeam(t)
	s.env = append(s.env, "WAYBILL_RECEIVERS="+s.file())
	s.declares("receivers:\n", writes("one", ""))
	s.succeeds("migrate")
	relay, relaySaid := s.stays("relay", "--lane", "default", "--lane", "mail", "--poll", "50ms")
	worker, workerSaid := s.stays("worker")
	fire := func(id int, want ...string) {
		t.Helper()
		s.succeeds("fire", "order.placed", "--payload", fmt.Sprintf(`{"id":%d}`, id))
		wrote(t, s.notes, append(want, fmt.Sprintf("receipt %d\n", id))...)
	}
	fire(1, "one {\"id\":1}\n")

	// A receiver more, and another lease: both processes go by them.
	s.declares("receivers:\n", writes("one", ", lease: 60s"), writes("two", ""))
	for process, said := range map[*exec.Cmd]*buffer{relay: relaySaid, worker: workerSaid} {
		hangUp(t, process, said, inForce, "receivers=3 added=1 removed=0 changed=1", `msg="receiver added" receiver=two`, `msg="receiver changed" receiver=one lease="5m0s → 1m0s"`)
	}
	fire(2, "one {\"id\":2}\n", "two {\"id\":2}\n")

	// Mistakes: a line for each, and the old ones stay.
	s.declares("receivers:\n- {key: one, event: '*', leese: 1s, exec: {command: [no-such-program]}}\n")
	since := hangUp(t, worker, workerSaid, "leese: unknown field", "no-such-program")
	if strings.Count(since, "level=ERROR") != 2 || strings.Count(since, "\n") != 2 || !strings.Contains(since, s.file()+":2: receiver") {
		t.Errorf("two mistakes are logged as %s", since)
	}
	if err := os.Remove(s.file()); err != nil {
		t.Fatal(err)
	}
	hangUp(t, worker, workerSaid, "the old ones stay", "no such file")

	// A lane that a worker of all lanes has no queue of, and a relay of others need not.
	s.declares("receivers:\n", writes("one", ""), writes("two", ""), writes("three", ", lane: crm"))
	since = hangUp(t, worker, workerSaid, "restart it")
	if strings.Count(since, "level=ERROR") != 1 || !strings.Contains(since, `lane \"crm\" is new`) {
		t.Errorf("a new lane is refused as %s", since)
	}
	hangUp(t, relay, relaySaid, inForce, `msg="lane added" lane=crm`)

	// The program of a receiver is no option of it.
	s.declares("receivers:\n", writes("one", ""), strings.Replace(writes("two", ""), "echo", "echo new", 1))
	since = hangUp(t, worker, workerSaid, inForce)
	if !strings.Contains(since, `msg="receiver changed" receiver=two exec=changed`) {
		t.Errorf("another command is told as %s", since)
	}
	hangUp(t, relay, relaySaid, inForce, `msg="receiver removed`, `msg="lane removed`)
	fire(3, "one {\"id\":3}\n", "new two {\"id\":3}\n")
	for process, said := range map[*exec.Cmd]*buffer{relay: relaySaid, worker: workerSaid} {
		process.Process.Signal(syscall.SIGTERM)
		process.Wait()
		if code := process.ProcessState.ExitCode(); code != 0 {
			t.Errorf("exit code %d: %s", code, said)
		}
	}
}

// What runs ends as it began, although its receiver is gone.
func TestARunEndsAsItBegan(t *testing.T) {
	t.Parallel()
	s := newTeam(t)
	s.env = append(s.env, "WAYBILL_RECEIVERS="+s.file())
	s.declares("receivers:\n- {key: slow, event: '*', exec: {command: [sh, -c, 'echo begun >>\"$NOTES\"; until [ -e \"$NOTES.go\" ]; do sleep 0.01; done; echo ended >>\"$NOTES\"'], env: {NOTES: '${SHOP_NOTES}'}}}\n")
	s.succeeds("migrate")
	s.succeeds("fire", "other", "--payload", "1")
	relay, said := s.stays("relay", "--backend", "local:", "--poll", "50ms")
	wrote(t, s.notes, "begun\n")
	s.declares("receivers:\n", writes("other", ""))
	hangUp(t, relay, said, inForce, `msg="receiver removed: what it is owed waits for a process that declares it" receiver=slow`)
	if err := os.WriteFile(s.notes+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wrote(t, s.notes, "ended\n")
	relay.Process.Signal(syscall.SIGTERM)
	relay.Wait()
	if got := s.succeeds("status", "--json"); !strings.Contains(got, `"succeeded": 1`) || !strings.Contains(got, `"owed": 0`) {
		t.Errorf("status = %s\n%s", got, said)
	}
}

// What a relay was made of cannot change while it runs.
func TestARelayRefusesWhatItCannotFollow(t *testing.T) {
	t.Parallel()
	s := newTeam(t)
	const first = "receivers:\n- {key: a, event: x, lane: mail, http: {url: 'http://127.0.0.1:9'}}\n- {key: b, event: x, http: {url: 'http://127.0.0.1:9'}}\n"
	s.declares(first)
	s.succeeds("migrate")
	one, oneSaid := s.start("bridge", "relay", "--lane", "mail", "--window-horizon", "10s")
	all, allSaid := s.start("bridge", "relay", "--all-lanes", "--backend", "local:")
	few, fewSaid := s.start("worker", "--lane", "mail")
	says(t, oneSaid, "relay started")
	says(t, allSaid, "worker started")
	says(t, fewSaid, "worker started")
	for _, test := range []struct {
		process *exec.Cmd
		said    *buffer
		file    string
		want    string
	}{
		{one, oneSaid, strings.ReplaceAll(first, "lane: mail", "lane: crm"), `unknown lane \"mail\"; declared: crm, default: correct --lane`},
		{one, oneSaid, strings.ReplaceAll(first, "lane: mail", "lane: mail, site: relay"), `receiver \"a\" has site: relay, and no receiver of lane \"mail\" ran in this process when it started: restart it`},
		{one, oneSaid, strings.ReplaceAll(first, "lane: mail", "lane: mail, lease: 20s"), `window horizon 10s of lane mail is more than a quarter of its shortest hand-off lease, 20s`},
		{one, oneSaid, strings.ReplaceAll(first, "key: b,", "key: b, lane: crm,"), inForce},
		{all, allSaid, strings.ReplaceAll(first, "key: b,", "key: b, lane: crm,"), `lane \"crm\" is new, and this process serves all lanes that it started with: restart it`},
		{all, allSaid, strings.ReplaceAll(first, "lane: mail, ", ""), inForce},
		{few, fewSaid, strings.ReplaceAll(first, "lane: mail", "lane: crm"), `unknown lane \"mail\"`},
		{few, fewSaid, strings.ReplaceAll(first, "key: b,", "key: b, lane: crm,"), inForce},
	} {
		s.declares(test.file)
		since := hangUp(t, test.process, test.said, test.want)
		if refused := strings.Contains(since, "level=ERROR"); refused != (test.want != inForce) {
			t.Errorf("%s: %s", test.file, since)
		}
	}
	s.declares(first) // it vanishes for the first one, and is back
	hangUp(t, one, oneSaid, inForce)
}

// start runs one of the standalone binaries where the team's run.
func (s *team) start(program string, args ...string) (*exec.Cmd, *buffer) {
	s.t.Helper()
	cmd := s.command(args...)
	cmd.Env = append(cmd.Env, asProgram+"="+program, "WAYBILL_RECEIVERS="+s.file())
	return cmd, launch(s.t, cmd)
}

// Without a file SIGHUP is no reason to end, which it is by default.
func TestSIGHUPWithoutAFile(t *testing.T) {
	t.Parallel()
	s := newTeam(t)
	s.succeeds("migrate")
	worker, said := s.stays("worker")
	says(t, said, "worker started")
	hangUp(t, worker, said, "level=WARN", "there is nothing to read anew")
	s.succeeds("fire", "order.placed", "--payload", `{"id":5}`)
	s.succeeds("relay", "--once", "--lane", "mail")
	wrote(t, s.notes, "receipt 5\n")
}

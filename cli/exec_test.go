package cli_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runs is a file of one receiver that is a shell's script.
func runs(script string) string {
	return "receivers:\n- key: hook\n  event: '*'\n  exec:\n    command: [sh, -c, '" + strings.ReplaceAll(script, "'", "''") + "']\n    env: {NOTES: '${SHOP_NOTES}'}\n"
}

// A command that is running when the worker's drain is over is ended, with all that it
// started, and its row is given back without an attempt.
func TestAWorkerThatStopsEndsItsCommands(t *testing.T) {
	t.Parallel()
	s := newTeam(t)
	s.declares(runs(`trap '' TERM; sh -c 'echo $$ >>"$NOTES"; sleep 600' & echo $$ >>"$NOTES"; wait; sleep 600; sleep 600`))
	s.env = append(s.env, "WAYBILL_RECEIVERS="+s.file())
	s.succeeds("migrate")
	s.succeeds("fire", "other", "--payload", "1")
	worker, said := s.start("worker", "--drain", "100ms")
	s.succeeds("relay", "--once")
	var pids []string
	for deadline := time.Now().Add(30 * time.Second); len(pids) < 2; time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(s.notes)
		if pids = strings.Fields(string(text)); time.Now().After(deadline) {
			t.Fatalf("the command does not run: %s", said)
		}
	}
	worker.Process.Signal(syscall.SIGTERM)
	worker.Wait()
	if code := worker.ProcessState.ExitCode(); code != 0 || strings.Contains(said.String(), "did not return") {
		t.Errorf("exit code %d: %s", code, said)
	}
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(20 * time.Second); running(pid); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				syscall.Kill(pid, syscall.SIGKILL)
				t.Fatalf("process %d outlives the worker", pid)
			}
		}
	}
	s.declares(runs(`echo "attempt $WAYBILL_ATTEMPT" >>"$NOTES"`))
	if got := s.succeeds("relay", "--once", "--backend", "local:"); got != "succeeded: 1\n" {
		t.Errorf("relay --once says %q", got)
	}
	wrote(t, s.notes, "attempt 1\n")
}

// running reports whether a process is there and has not ended: one that nobody has
// waited for yet is a zombie.
func running(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !os.IsNotExist(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// A command that is not there is a mistake for those that would run it, and no others.
func TestACommandThatIsMissing(t *testing.T) {
	t.Parallel()
	s := newTeam(t)
	s.declares("receivers:\n- key: hook\n  event: '*'\n  exec: {command: [no-such-program], env: {A: '${NO_SUCH_VARIABLE}'}}\n")
	s.env = append(s.env, "WAYBILL_RECEIVERS="+s.file())
	s.succeeds("migrate")
	if got := s.succeeds("fire", "other", "--payload", "1"); got != "fired 1 event, 1 delivery\n" {
		t.Errorf("fire says %q", got)
	}
	if got := s.succeeds("relay", "--once"); got != "handed off: 1\n" {
		t.Errorf("relay says %q", got)
	}
	s.succeeds("status")
	for _, args := range [][]string{{"worker"}, {"relay", "--once", "--backend", "local:"}} {
		got := s.run(args...)
		want := args[0] + ": " + s.file() + ":4: receiver \"hook\": exec.env.A: environment variable NO_SUCH_VARIABLE is not set\n"
		if got.code != 1 || got.err != want && got.err != "shop"+strings.TrimPrefix(want, args[0]) {
			t.Errorf("%v: %+v, want %s", args, got, want)
		}
	}
	s.env = append(s.env, "NO_SUCH_VARIABLE=1")
	if got := s.run("worker"); got.code != 1 || !strings.HasSuffix(got.err, s.file()+":4: receiver \"hook\": exec.command: \"no-such-program\": executable file not found in $PATH\n") {
		t.Errorf("worker: %+v", got)
	}
}

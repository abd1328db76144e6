package cli_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
)

type orderPlaced struct {
	ID int `json:"id"`
}

// shop is what a team declares in Go for its own program.
func shop() *waybill.Registry {
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", func(_ context.Context, order orderPlaced) error {
		return note(fmt.Sprintf("receipt %d", order.ID))
	}, waybill.Options{Lane: "mail"})
	return reg
}

// note adds a line to the file that the test reads.
func note(line string) error {
	file, err := os.OpenFile(os.Getenv("SHOP_NOTES"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintln(file, line)
	return err
}

// team is a program called shop, and where its processes run.
type team struct {
	t       *testing.T
	program string
	notes   string
	env     []string
}

func newTeam(t *testing.T) *team {
	t.Helper()
	folder := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &team{t: t, program: filepath.Join(folder, "shop"), notes: filepath.Join(folder, "notes")}
	if err := os.Symlink(self, s.program); err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), asProgram+"=shop", "SHOP_NOTES="+s.notes, "WAYBILL_LOG_FORMAT=text",
		"WAYBILL_STORE=sqlite:"+filepath.Join(folder, "w.db"), "WAYBILL_BACKEND=redis://"+miniredis.RunT(t).Addr())
	return s
}

func (s *team) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.program, args...)
	cmd.Env = s.env
	return cmd
}

// run runs a command to its end.
func (s *team) run(args ...string) outcome {
	s.t.Helper()
	var out, err buffer
	cmd := s.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &err
	if failed := cmd.Run(); failed != nil && cmd.ProcessState == nil {
		s.t.Fatal(failed)
	}
	return outcome{cmd.ProcessState.ExitCode(), out.String(), err.String()}
}

func (s *team) succeeds(args ...string) string {
	s.t.Helper()
	got := s.run(args...)
	if got.code != 0 {
		s.t.Fatalf("shop %s: exit code %d: %s", strings.Join(args, " "), got.code, got.err)
	}
	return got.out
}

// stays starts a command that runs until it is stopped.
func (s *team) stays(args ...string) (process *exec.Cmd, said *buffer) {
	s.t.Helper()
	cmd := s.command(args...)
	return cmd, launch(s.t, cmd)
}

// A team's one binary migrates, fires, relays and works, over receivers in Go.
func TestATeamsOneBinary(t *testing.T) {
	t.Parallel()
	s := newTeam(t)
	s.succeeds("migrate")
	if got := s.succeeds("fire", "order.placed", "--payload", `{"id":7}`); got != "fired 1 event, 1 delivery\n" {
		t.Errorf("fire says %q", got)
	}
	relay, relaySaid := s.stays("relay", "--lane", "mail", "--poll", "50ms")
	worker, workerSaid := s.stays("worker", "--slots", "2")
	wrote(t, s.notes, "receipt 7\n")
	for process, said := range map[*exec.Cmd]*buffer{relay: relaySaid, worker: workerSaid} {
		process.Process.Signal(syscall.SIGTERM)
		process.Wait()
		if code := process.ProcessState.ExitCode(); code != 0 {
			t.Errorf("exit code %d: %s", code, said)
		}
	}
	if got := s.succeeds("status"); !regexp.MustCompile(`(?m)^mail.receipt +mail +0 +0 +0 +1 `).MatchString(got) {
		t.Errorf("status says %s", got)
	}
	if got := s.succeeds("lanes"); !strings.Contains(got, "mail.receipt") {
		t.Errorf("lanes says %s", got)
	}
	s.succeeds("pause", "mail", "--reason", "stocktaking")
	s.succeeds("resume", "mail")
	if got := s.succeeds("version"); !strings.HasPrefix(got, "shop ") {
		t.Errorf("version says %q", got)
	}
}

// With a file its receivers run beside those in Go, in the same processes.
func TestATeamsBinaryWithAFile(t *testing.T) {
	t.Parallel()
	s := newTeam(t)
	file := filepath.Join(filepath.Dir(s.notes), "receivers.yaml")
	text := "receivers:\n- {key: export, event: order.placed, exec: {command: [sh, -c, 'cat >>\"$NOTES\"; echo >>\"$NOTES\"'], env: {NOTES: '${SHOP_NOTES}'}}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "WAYBILL_RECEIVERS="+file)
	s.succeeds("migrate")
	if got := s.succeeds("fire", "order.placed", "--payload", `{"id":8}`); got != "fired 1 event, 2 deliveries\n" {
		t.Errorf("fire says %q", got)
	}
	if got := s.succeeds("relay", "--once", "--all-lanes", "--backend", "local:"); got != "succeeded: 2\n" {
		t.Errorf("relay --once says %q", got)
	}
	wrote(t, s.notes, "receipt 8\n", `{"id":8}`+"\n")

	// A key of Go's in the file is a mistake with its line.
	if err := os.WriteFile(file, []byte("receivers:\n- {key: mail.receipt, event: x, http: {url: 'http://127.0.0.1:9'}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := s.run("status"); got.code != 1 || got.err != "shop: "+file+":2: receiver \"mail.receipt\": key: the program declares that key already\n" {
		t.Errorf("status with a key twice: %+v", got)
	}
}

// Every command of both binaries is in it, and its help is about itself.
func TestATeamsProgramHasEveryCommand(t *testing.T) {
	t.Parallel()
	program := func() *cobra.Command {
		root := cli.Program(shop())
		root.Use = "my-bridge"
		return root
	}
	var all []string
	for _, path := range paths(cli.Bridge(waybill.NewRegistry())) {
		all = append(all, strings.Join(path, " "))
	}
	all = append(all, "worker")
	slices.Sort(all)
	var has []string
	for _, path := range paths(program()) {
		has = append(has, strings.Join(path, " "))
		got := execute(t.Context(), program(), "", append(path, "--help")...)
		if got.code != 0 || !strings.Contains(got.out, "\n  my-bridge ") {
			t.Errorf("%v --help: exit code %d, and an example of another program: %s", path, got.code, got.out)
		}
		text := regexp.MustCompile(`my-bridge`).ReplaceAllString(got.out, "it")
		if wrong := regexp.MustCompile("\\bbridge (\\w+)|(?m)(^  |& |[\"'`])worker( --| &|[\"'`]|$)|it-it").FindString(text); wrong != "" {
			t.Errorf("%v --help names another program: %q in\n%s", path, wrong, got.out)
		}
	}
	slices.Sort(has)
	if !slices.Equal(all, has) {
		t.Errorf("it has the commands %q, want %q", has, all)
	}
	for _, want := range []string{"demo", "fire", "health", "lanes", "migrate", "migrate status", "pause", "relay", "resume", "simulate", "size", "status", "version", "worker"} {
		if !slices.Contains(has, want) {
			t.Errorf("it has no command %s", want)
		}
	}
}

// What goes wrong is told under its own name, also by what knows no program.
func TestATeamsProgramFailsUnderItsName(t *testing.T) {
	t.Parallel()
	s := newTeam(t)
	for _, test := range []struct{ args, want string }{
		{"status", "shop: sqlite: .* has no waybill schema yet: run `shop migrate`\n"},
		{"worker --backend local:", "shop: --backend: local: is a queue within one process: run 'shop relay --backend local:', .*: see 'shop worker --help'\n"},
		{"deliver", "shop: unknown command \"deliver\" for \"shop\".*: see 'shop --help'\n"},
	} {
		got := s.run(strings.Fields(test.args)...)
		if got.code == 0 || !regexp.MustCompile("^(?:"+test.want+")$").MatchString(got.err) {
			t.Errorf("shop %s: %+v, want %s", test.args, got, test.want)
		}
	}
}

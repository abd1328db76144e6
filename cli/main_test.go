package cli_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/cli"
)

// asProgram makes the test binary one of the programs, for what only a process of
// its own can show: signals, and what the real main does.
const asProgram = "CLI_TEST_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(asProgram) {
	case "bridge":
		os.Exit(cli.Run(cli.Bridge(waybill.NewRegistry())))
	case "worker":
		os.Exit(cli.Run(cli.Worker(waybill.NewRegistry())))
	case "shop":
		os.Exit(cli.Main(shop()))
	}
	asynq.LogRedis(slog.New(slog.DiscardHandler)) // a Redis that is away is no news
	for _, variable := range os.Environ() {       // nothing configures the commands behind a test's back
		name, _, _ := strings.Cut(variable, "=")
		own := strings.HasPrefix(name, "WAYBILL_") && !strings.HasPrefix(name, "WAYBILL_TEST_")
		if own || name == "DATABASE_URL" || name == "REDIS_URL" {
			os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}

// outcome is what a command left behind.
type outcome struct {
	code int
	out  string
	err  string
}

func bridge(t *testing.T, args ...string) outcome {
	t.Helper()
	return execute(context.Background(), cli.Bridge(waybill.NewRegistry()), "", args...)
}

func execute(ctx context.Context, cmd *cobra.Command, stdin string, args ...string) outcome {
	var out, err buffer
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&err)
	code := cli.Execute(ctx, cmd, args)
	return outcome{code, out.String(), err.String()}
}

// buffer is written to by a command's goroutines.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// succeeds is bridge for a command that has to.
func succeeds(t *testing.T, args ...string) outcome {
	t.Helper()
	got := bridge(t, args...)
	if got.code != 0 {
		t.Fatalf("bridge %s: exit code %d: %s", strings.Join(args, " "), got.code, got.err)
	}
	return got
}

// checkFailure holds a failed command to its form: an exit code and one line on
// standard error, which holds all of want, and no password.
func checkFailure(t *testing.T, got outcome, code int, want ...string) {
	t.Helper()
	if got.code != code {
		t.Errorf("exit code = %d, want %d", got.code, code)
	}
	if got.out != "" {
		t.Errorf("standard output = %q, want nothing", got.out)
	}
	program, _, _ := strings.Cut(got.err, ": ")
	if strings.Count(got.err, "\n") != 1 || !slices.Contains([]string{"bridge", "worker"}, program) {
		t.Errorf("standard error = %q, want one line that names the program", got.err)
	}
	for _, part := range want {
		if !strings.Contains(got.err, part) {
			t.Errorf("standard error = %q, want %q in it", got.err, part)
		}
	}
	if strings.Contains(got.err, "secret") {
		t.Errorf("standard error = %q holds a password", got.err)
	}
}

// site is a migrated SQLite file, a Redis and a file of receivers.
type site struct {
	t         *testing.T
	folder    string
	store     string
	backend   string
	receivers string
}

func newSite(t *testing.T, receivers string) *site {
	t.Helper()
	folder := t.TempDir()
	s := &site{t: t, folder: folder, store: "sqlite:" + filepath.Join(folder, "waybill.db"), backend: "redis://" + miniredis.RunT(t).Addr()}
	s.receivers = s.file("receivers.yaml", receivers)
	succeeds(t, "migrate", "--store", s.store)
	return s
}

func (s *site) file(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.folder, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// args are a command's arguments with the site's after them.
func (s *site) args(args ...string) []string {
	return append(args, "--store", s.store, "--receivers", s.receivers)
}

func (s *site) queueArgs(args ...string) []string {
	return append(s.args(args...), "--backend", s.backend)
}

// closedPort is an address where nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

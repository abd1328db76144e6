package separate_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
)

// The steps of the README, on servers of the test's own.
func TestServiceAndWorker(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+"/", "./service", "./worker")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	address := freeAddress(t)
	env := append(os.Environ(), "WAYBILL_STORE="+services.Postgres(t), "WAYBILL_BACKEND="+services.OwnRedis(t).URL, "SHOP_ADDRESS="+address)
	if out, err := command(env, bin+"/worker", "migrate").CombinedOutput(); err != nil {
		t.Fatalf("migrate: %v\n%s", err, out)
	}
	start(t, env, bin+"/service")
	start(t, env, bin+"/worker", "relay", "--all-lanes", "--poll", "50ms")
	working := start(t, env, bin+"/worker", "worker")
	for range 3 {
		poll.Until(t, "the order's answer", func() bool {
			answer, err := http.Post("http://"+address+"/orders?email=ada@example.com", "", nil)
			if err != nil {
				return false // not up yet
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			return err == nil && answer.StatusCode == http.StatusOK && strings.HasPrefix(string(body), "order ")
		})
	}
	poll.Until(t, "three receipts", func() bool { return working.count("receipt sent") == 3 })
	poll.Until(t, "nothing owed", func() bool {
		out, err := command(env, bin+"/worker", "status", "--json").Output()
		return err == nil && bytes.Contains(out, []byte(`"owed": 0`)) && bytes.Contains(out, []byte(`"succeeded": 6`))
	})
}

func command(env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = env
	return cmd
}

// process is a program that runs until the test ends, and what it said.
type process struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (p *process) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(line)
}

func (p *process) count(part string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Count(p.said.String(), part)
}

// start starts a program, and ends it with the test as an operator would.
func start(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{}
	cmd := command(env, name, args...)
	cmd.Stdout, cmd.Stderr = p, p
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, p.said.String())
		}
	})
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

package services

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rabbitmqBin is where Debian has the programs themselves. Those on the PATH are
// wrappers, which insist on Debian's user and settings.
const rabbitmqBin = "/usr/lib/rabbitmq/bin"

// RabbitMQNode is a private RabbitMQ. It has no management plugin: Eval takes its
// place, and Ctl, with some 3 s each time.
type RabbitMQNode struct {
	*Server
	name string
	env  []string
}

// OwnRabbitMQ starts a private RabbitMQ, on loopback only, with one user and the
// vhost "/". What was confirmed is still there after a Stop or a Kill, except in a
// quorum queue that was declared in the last seconds before a Kill: RabbitMQ 3.10
// writes down late that it exists, and it then never works again. Making a node
// takes 4 to 10 s, and so does each start.
func OwnRabbitMQ(t testing.TB) *RabbitMQNode {
	t.Helper()
	program := filepath.Join(rabbitmqBin, "rabbitmq-server")
	if _, err := os.Stat(program); err != nil {
		t.Fatal("rabbitmq-server is not installed: run make services as root, or apt-get install rabbitmq-server")
	}
	s := own(t, "env", nil)
	n := &RabbitMQNode{Server: s, name: "waybill-" + s.port() + "@localhost"}
	names := ownPortMapper(t, s.dir)
	distribution, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	password := random(12)
	config := filepath.Join(s.dir, "rabbitmq.conf")
	n.write(config, fmt.Sprintf("listeners.tcp.1 = %s\ndefault_user = waybill\ndefault_pass = %s\n"+
		"disk_free_limit.absolute = 50MB\nlog.file.level = warning\n", s.Addr, password))
	plugins := filepath.Join(s.dir, "enabled_plugins")
	n.write(plugins, "[].\n")
	n.env = []string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8",
		"HOME=" + s.dir, // holds the cookie with which Ctl is let in
		"ERL_EPMD_ADDRESS=127.0.0.1", "ERL_EPMD_PORT=" + port(names),
		"RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_NODENAME=" + n.name,
		"RABBITMQ_CONFIG_FILE=" + config, "RABBITMQ_ENABLED_PLUGINS_FILE=" + plugins,
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(s.dir, "mnesia"), "RABBITMQ_LOG_BASE=" + s.dir,
		"RABBITMQ_GENERATED_CONFIG_DIR=" + filepath.Join(s.dir, "config"),
		"RABBITMQ_PID_FILE=" + filepath.Join(s.dir, "pid"), "RABBITMQ_DIST_PORT=" + port(distribution),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none",
		// Has the script become the server, and not wait for it: the process
		// that is killed is then the one that counts.
		"RUNNING_UNDER_SYSTEMD=true",
	}
	s.URL = fmt.Sprintf("amqp://waybill:%s@%s/", password, s.Addr)
	s.args = append(append([]string{"-i"}, n.env...), program)
	s.polite = syscall.SIGTERM
	s.boot = 3 * patience // 10 s of one core's work, with others at work beside it
	s.ready = pingRabbitMQ
	t.Cleanup(s.Kill) // there is nothing that an orderly end would tidy up
	s.Start()
	return n
}

// Ctl runs rabbitmqctl on the node and returns what it prints.
func (n *RabbitMQNode) Ctl(args ...string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(rabbitmqBin, "rabbitmqctl"), append([]string{"-q", "-n", n.name}, args...)...)
	cmd.Env, cmd.Dir = n.env, n.dir
	output, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("rabbitmqctl %q: %v: %s", args, err, output)
	}
	return string(output)
}

// Eval evaluates an Erlang expression in the node and returns its value. That takes
// milliseconds: unlike Ctl it starts no Erlang of its own.
func (n *RabbitMQNode) Eval(expression string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "erl_call", "-sname", n.name, "-e")
	cmd.Env, cmd.Dir, cmd.Stdin = n.env, n.dir, strings.NewReader(expression+".\n")
	output, err := cmd.CombinedOutput()
	value, ok := strings.CutPrefix(string(output), "{ok, ")
	if err != nil || !ok {
		n.t.Fatalf("evaluate %s: %v: %s", expression, err, output)
	}
	return strings.TrimSuffix(strings.TrimSpace(value), "}")
}

func (n *RabbitMQNode) write(path, text string) {
	n.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// ownPortMapper starts an epmd for one node and returns its address once it answers:
// a node that finds none starts one that stays behind.
func ownPortMapper(t testing.TB, dir string) string {
	t.Helper()
	addr, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	run, err := launch("epmd", []string{"-address", "127.0.0.1", "-port", port(addr)}, dir, nil)
	if err != nil {
		t.Fatalf("start epmd: %v", err)
	}
	t.Cleanup(func() {
		_ = run.cmd.Process.Kill()
		<-run.ended
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close()
			return addr
		}
		if time.Now().After(deadline) {
			t.Fatalf("start epmd: %v: %s", err, run.output.tail())
		}
	}
}

func pingRabbitMQ(url string) error {
	conn, err := amqp.Dial(url)
	if err != nil {
		return err
	}
	return conn.Close()
}

package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill/internal/services"
)

// The demo as a newcomer meets it, with nothing installed, and as somebody with
// servers does: its books balance, it says what to do next, and it leaves nothing
// behind. Its events of made-up kinds fill all five kinds of receiver. Most of a
// demo is waiting for leases, so all of them run at the same time.
func TestDemo(t *testing.T) {
	t.Parallel()
	store := services.Postgres(t)
	server, rabbit, other := services.OwnRedis(t), services.RabbitMQ(t), services.Postgres(t)
	cases := []*demoCase{
		{name: "asynq", args: []string{"--backend", "asynq"}},
		{name: "river", args: []string{"--backend", "river"}},
		{name: "local", args: []string{"--backend", "local"}},
		{name: "redis", args: []string{"--backend", server.URL, "--store", store}, makes: madeQueues,
			leaves: func(t *testing.T, _ string) { checkNoKeys(t, server.URL) }},
		{name: "amqp", args: []string{"--backend", rabbit, "--store", store}, makes: madeQueues,
			leaves: func(t *testing.T, made string) { checkNoQueues(t, rabbit, made) }},
		{name: "river in the store's database", args: []string{"--backend", "river:", "--store", store}, makes: madeSchemas},
		{name: "river in another database", args: []string{"--backend", "River+" + other, "--store", strings.Replace(store, "postgres:", "Postgres:", 1)}, makes: madeSchemas,
			leaves: func(t *testing.T, _ string) { checkNoSchemas(t, other) }},
	}
	for _, c := range cases {
		c.folder = t.TempDir()
		c.cmd, c.said = demo(t, c.folder, c.args...)
	}
	for _, c := range cases {
		t.Run(c.name, c.check)
	}
	checkNoSchemas(t, store)
}

// What a demo on servers says it has made.
const (
	madeQueues  = `^made schema waybill_demo_(\w{8}), queues waybill-demo-\w{8} and waybill-demo-\w{8}-slow$`
	madeSchemas = `^made schema waybill_demo_(\w{8}), schema waybill_demo_\w{8}_river$`
)

type demoCase struct {
	name   string
	args   []string
	makes  string // on servers; empty for nothing
	leaves func(t *testing.T, made string)

	folder string
	cmd    *exec.Cmd
	said   *said
}

func (c *demoCase) check(t *testing.T) {
	checkBooks(t, c.cmd, c.said)
	checkEmpty(t, c.folder)
	made, _, told := strings.Cut(c.said.err.String(), "; all of it is removed at the end\n")
	if told != (c.makes != "") || told && !regexp.MustCompile(c.makes).MatchString(made) {
		t.Errorf("it says that it made %q, want %q", made, c.makes)
	}
	if c.leaves != nil {
		c.leaves(t, made)
	}
}

// A demo that is interrupted removes what it has made, too.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	store, server, folder := services.Postgres(t), services.OwnRedis(t), t.TempDir()
	cmd, said := demo(t, folder, "--store", store, "--backend", server.URL)
	says(t, &said.err, "made ")
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(said.err.String(), "interrupted") || said.out.String() != "" {
		t.Errorf("exit code %d: %s%s", code, &said.out, &said.err)
	}
	checkNoKeys(t, server.URL)
	checkNoSchemas(t, store)
	checkEmpty(t, folder)
}

// said is what a process has written.
type said struct{ out, err buffer }

// demo starts a demo whose temporary files are in a folder, and which an environment
// for something else does not concern.
func demo(t *testing.T, folder string, args ...string) (*exec.Cmd, *said) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), asProgram+"=bridge", "TMPDIR="+folder,
		"WAYBILL_STORE=postgres://ann:secret@"+closedPort(t)+"/app", "WAYBILL_BACKEND=amqp://ann:secret@"+closedPort(t))
	text := &said{}
	cmd.Stdout, cmd.Stderr = &text.out, &text.err
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return cmd, text
}

// checkBooks waits for the end of a demo, and holds it to what it prints.
func checkBooks(t *testing.T, cmd *exec.Cmd, said *said) {
	t.Helper()
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit code %d: %s%s", code, &said.out, &said.err)
	}
	for _, line := range []string{
		`events fired +200 `,
		`deliveries owed for them +676 `,
		`delivered +660 `,
		`dead +16 `,
		`still owed +0 `,
		`stale copies refused +[1-9]`,
		`runs that lost their row +[1-9]`,
		`[0-9]+ runs, 0 overlapping under valid leases`,
		`200 rows +for 200 deliveries, 0 of them twice`,
		`(?m)^Next, with your own database`,
		`bridge migrate && bridge fire`,
		`bridge relay & worker & bridge status`,
	} {
		if !regexp.MustCompile(line).MatchString(said.out.String()) {
			t.Errorf("the demo printed no %q:\n%s", line, &said.out)
		}
	}
}

func checkEmpty(t *testing.T, folder string) {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil || len(files) > 0 {
		t.Errorf("left in the folder of temporary files: %v, %v", files, err)
	}
}

func checkNoSchemas(t *testing.T, store string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, _ := conn.Query(t.Context(), `SELECT nspname FROM pg_namespace WHERE nspname NOT IN ('public', 'information_schema') AND nspname NOT LIKE 'pg\_%'`)
	if left, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(left) > 0 {
		t.Errorf("schemas left: %v, %v", left, err)
	}
}

// checkNoKeys is for a Redis that nobody else uses. What Asynq says of its servers
// it takes back as they stop.
func checkNoKeys(t *testing.T, server string) {
	t.Helper()
	options, err := redis.ParseURL(server)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	if keys, err := client.Keys(t.Context(), "*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("keys left: %v, %v", keys, err)
	}
}

var demoQueue = regexp.MustCompile(`waybill-demo-[0-9a-f]{8}(-slow)?`)

func checkNoQueues(t *testing.T, server, made string) {
	t.Helper()
	conn, err := amqp091.Dial(server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	queues := demoQueue.FindAllString(made, -1)
	if len(queues) != 2 {
		t.Errorf("%q names %d queues, want 2", made, len(queues))
	}
	for _, queue := range queues {
		channel, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		_, err = channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		var refusal *amqp091.Error
		if !errors.As(err, &refusal) || refusal.Code != amqp091.NotFound {
			t.Errorf("queue %s: %v, want that it is not there", queue, err)
		}
	}
}

func TestDemoRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, test := range []struct {
		code int
		args []string
		want []string
	}{
		{2, []string{"--backend", "kafka"}, []string{"--backend kafka: want asynq, river or local, which need nothing, or a backend's URL"}},
		{2, []string{"--backend", "river+sqlite:" + filepath.Join(folder, "river.db")}, []string{"--backend: the demo makes a SQLite file of its own", "use --backend river"}},
		{2, []string{"--store", "SQLite:" + filepath.Join(folder, "w.db")}, []string{"--store: the demo makes a SQLite file of its own", "leave out --store"}},
		{1, []string{"--backend", "kafka://ann:secret@mq"}, []string{"demo: --backend: unknown scheme kafka: want redis://"}},
		{1, []string{"--store", "mysql://ann:secret@db/app"}, []string{"demo: --store: unknown scheme mysql: want postgres://"}},
		{1, []string{"--store", "postgres://ann:secret@" + closedPort(t) + "/app"}, []string{"demo: store: PostgreSQL at ", "connection refused"}},
		{1, []string{"--backend", "redis://ann:secret@" + closedPort(t)}, []string{"demo: backend: Redis at ", "connection refused"}},
		{1, []string{"--file", filepath.Join(folder, "missing.jsonl")}, []string{"no such file"}},
	} {
		checkFailure(t, bridge(t, append([]string{"demo"}, test.args...)...), test.code, test.want...)
	}
	checkEmpty(t, folder)
}

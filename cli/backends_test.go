package cli_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
	"github.com/waybill-go/waybill/internal/services"
)

// The same four commands on every store and backend that go together otherwise than
// newSite has them.
func TestEveryBackend(t *testing.T) {
	t.Parallel()
	for name, urls := range map[string]func(t *testing.T) (store, backend string){
		"amqp":                          func(t *testing.T) (string, string) { return sqliteURL(t), services.RabbitMQ(t) },
		"river in the store's file":     func(t *testing.T) (string, string) { return sqliteURL(t), "river:" },
		"river in another file":         func(t *testing.T) (string, string) { return sqliteURL(t), "river+" + sqliteURL(t) },
		"river in the store's database": func(t *testing.T) (string, string) { return services.Postgres(t), "river:?schema=queue" },
		"river in another database":     func(t *testing.T) (string, string) { return services.Postgres(t), "river+" + services.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink := newSink(t)
			s := newSite(t, "receivers:\n"+
				"- {key: all, event: '*', http: {url: '"+sink.url+"'}}\n"+
				"- {key: mail, event: order.placed, lane: mail, http: {url: '"+sink.url+"'}}\n")
			s.store, s.backend = urls(t)
			succeeds(t, "migrate", "--store", s.store, "--backend", s.backend)
			lines := strings.Repeat(`{"name":"order.placed","payload":{"id":1}}`+"\n", 20)
			succeeds(t, s.args("fire", "--file", s.file("events.jsonl", lines))...)
			stopWorker := background(t, func(ctx context.Context) outcome {
				return execute(ctx, cli.Worker(waybill.NewRegistry()), "", s.queueArgs("--slots", "4", "--strict")...)
			})
			stopRelay := background(t, func(ctx context.Context) outcome {
				return execute(ctx, cli.Bridge(waybill.NewRegistry()), "", s.queueArgs("relay", "--lane", "default,mail", "--poll", "50ms", "--strict")...)
			})
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("relay: %s\nworker: %s", stopRelay().err, stopWorker().err)
				}
			})
			sink.wait(t, 40)
			for name, got := range map[string]outcome{"relay": stopRelay(), "worker": stopWorker()} {
				if got.code != 0 || got.out != "" {
					t.Errorf("%s: exit code %d, %q, %s", name, got.code, got.out, got.err)
				}
			}
			if got := s.owed(); got != 0 {
				t.Errorf("owed %d, want 0", got)
			}
			sink.checkOnceEach(t, 40)
		})
	}
}

func sqliteURL(t *testing.T) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "waybill.db")
}

// What somebody has declared otherwise is warned of, and refused with --strict.
func TestStrict(t *testing.T) {
	t.Parallel()
	s := newSite(t, oneReceiver)
	s.backend = services.RabbitMQ(t)
	declareClassic(t, s.backend, waybill.QueueName("mail"))

	got := succeeds(t, s.queueArgs("relay", "--once", "--lane", "mail")...)
	if !strings.Contains(got.err, `"level":"WARN"`) || !strings.Contains(got.err, "declared otherwise") {
		t.Errorf("no warning: %s", got.err)
	}
	want := []string{"backend: ", "waybill-mail", "declared otherwise", "rabbitmqctl list_queues"}
	checkFailure(t, bridge(t, s.queueArgs("relay", "--once", "--lane", "mail", "--strict")...), 1, want...)
	checkFailure(t, execute(t.Context(), cli.Worker(waybill.NewRegistry()), "", s.queueArgs("--lane", "mail", "--strict")...), 1, want...)
	s.backend += "?queue_type=classic"
	if got := succeeds(t, s.queueArgs("relay", "--once", "--lane", "mail", "--strict")...); got.err != "" {
		t.Errorf("as it was declared: %s", got.err)
	}
}

func declareClassic(t *testing.T, server, queue string) {
	t.Helper()
	conn, err := amqp091.Dial(server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare(queue, true, false, false, false, amqp091.Table{amqp091.QueueTypeArg: amqp091.QueueTypeClassic}); err != nil {
		t.Fatal(err)
	}
}

package services

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("WAYBILL_TEST_MORTAL") != "" {
		mortal()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestPostgresGivesEachTestItsOwnDatabase(t *testing.T) {
	t.Parallel()
	admin := connect(t, os.Getenv("WAYBILL_TEST_POSTGRES"))
	var names []string
	for range 2 {
		t.Run("one", func(t *testing.T) {
			conn := connect(t, Postgres(t))
			mustExec(t, conn, "CREATE TABLE mark (id int)") // fails where there is one already
			names = append(names, scan[string](t, conn, "SELECT current_database()"))
		})
	}
	for _, name := range names {
		if left := scan[int](t, admin, "SELECT count(*)::int FROM pg_database WHERE datname = $1", name); left != 0 {
			t.Errorf("database %s is still there after its test", name)
		}
	}
	if names[0] == names[1] {
		t.Errorf("two tests had the database %s", names[0])
	}
}

func TestUniqueRemovesItsQueues(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := redisClient(t, Redis(t))
	other := Unique(t)
	keep := "asynq:{waybill-" + other + "}:pending"
	set(t, client, keep)

	var keys, queues []string
	t.Run("A Test/with: Ünusual näme_", func(t *testing.T) {
		lane := Unique(t)
		queues = []string{"waybill-" + lane, "waybill-" + lane + "-fast"}
		for _, queue := range queues {
			keys = append(keys, "asynq:{"+queue+"}:pending", "asynq:{"+queue+"}:t:1")
			if err := client.SAdd(ctx, "asynq:queues", queue).Err(); err != nil {
				t.Fatal(err)
			}
		}
		set(t, client, keys...)
	})
	if n := client.Exists(ctx, keys...).Val(); n != 0 {
		t.Errorf("%d keys are left of %v", n, keys)
	}
	for _, queue := range queues {
		if client.SIsMember(ctx, "asynq:queues", queue).Val() {
			t.Errorf("queue %s is still listed", queue)
		}
	}
	if client.Exists(ctx, keep).Val() != 1 {
		t.Errorf("another test's key %s is gone", keep)
	}
}

func TestLaneName(t *testing.T) {
	t.Parallel()
	valid := regexp.MustCompile(`^[a-z0-9]+([-_][a-z0-9]+)*$`)
	for test, want := range map[string]string{
		"TestRelay":                    "testrelay",
		"TestRelay/two lanes#01":       "testrelay-two-lanes-01",
		"Test_Under__scores_":          "test-under-scores",
		"TestÜber":                     "test-ber",
		"/":                            "test",
		strings.Repeat("a", 39) + "/b": strings.Repeat("a", 39),
	} {
		if got := laneName(test); got != want || !valid.MatchString(got) {
			t.Errorf("laneName(%q) = %q, want %q", test, got, want)
		}
	}
}

func TestAbandoned(t *testing.T) {
	t.Parallel()
	name := fresh()
	if !regexp.MustCompile(`^[a-z0-9_]{20,40}$`).MatchString(name) {
		t.Errorf("fresh() = %q", name)
	}
	now := time.Now()
	for _, c := range []struct {
		name string
		at   time.Time
		want bool
	}{
		{name, now, false},
		{name, now.Add(leftover - time.Minute), false},
		{name, now.Add(leftover + time.Minute), true},
		{"postgres", now.Add(1000 * time.Hour), false},
		{prefix + "thing", now.Add(1000 * time.Hour), false},
		{prefix + "no-time_x", now.Add(1000 * time.Hour), false},
	} {
		if got := abandoned(c.name, c.at); got != c.want {
			t.Errorf("abandoned(%q) after %v = %v", c.name, c.at.Sub(now), got)
		}
	}
}

func TestRabbitMQGivesEachTestItsOwnVirtualHost(t *testing.T) {
	t.Parallel()
	var gone string
	t.Run("one", func(t *testing.T) {
		gone = RabbitMQ(t)
		conn, err := amqp.Dial(gone)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		queue, err := ch.QueueDeclare("waybill-default", true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		if err != nil {
			t.Fatal(err)
		}
		if queue.Messages != 0 {
			t.Errorf("the queue of a fresh virtual host holds %d messages", queue.Messages)
		}
	})
	if conn, err := amqp.Dial(gone); err == nil {
		conn.Close()
		t.Errorf("the virtual host is still there after its test")
	}
}

func TestWhatKilledTestsLeftIsRemoved(t *testing.T) {
	t.Parallel()
	old := madeAt(time.Now().Add(-leftover - time.Minute))

	admin := os.Getenv("WAYBILL_TEST_POSTGRES")
	conn := connect(t, admin)
	mustExec(t, conn, "CREATE DATABASE "+old+" TEMPLATE template0")
	dropAbandoned(t, admin)
	if left := scan[int](t, conn, "SELECT count(*)::int FROM pg_database WHERE datname = $1", old); left != 0 {
		t.Errorf("database %s is still there", old)
	}

	broker, err := url.Parse(env(t, "WAYBILL_TEST_AMQP"))
	if err != nil {
		t.Fatal(err)
	}
	api, err := newManagement(broker)
	if err != nil {
		t.Fatal(err)
	}
	if err := api.do(http.MethodPut, "/api/vhosts/"+old, "{}", nil); err != nil {
		t.Fatal(err)
	}
	api.deleteAbandoned()
	if err := api.do(http.MethodGet, "/api/vhosts/"+old, "", nil); err == nil {
		t.Errorf("virtual host %s is still there", old)
	}
}

func TestMissingVariableFailsTheTest(t *testing.T) {
	t.Setenv("WAYBILL_TEST_POSTGRES", "")
	t.Setenv("WAYBILL_TEST_REDIS", "")
	t.Setenv("WAYBILL_TEST_AMQP", "")
	for name, call := range map[string]func(testing.TB) string{
		"WAYBILL_TEST_POSTGRES": Postgres,
		"WAYBILL_TEST_REDIS":    Redis,
		"WAYBILL_TEST_AMQP":     RabbitMQ,
	} {
		fake := &fakeT{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			call(fake)
		}()
		<-done
		if !strings.Contains(fake.fatal, name) || !strings.Contains(fake.fatal, "make -s services") {
			t.Errorf("without %s the test fails with %q", name, fake.fatal)
		}
	}
}

// fakeT is a test that may fail.
type fakeT struct {
	testing.TB
	fatal string
}

func (f *fakeT) Fatalf(format string, args ...any) {
	f.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func mustExec(t testing.TB, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func scan[T any](t testing.TB, conn *pgx.Conn, sql string, args ...any) (value T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func redisClient(t testing.TB, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	options.MaxRetries, options.DialerRetries = -1, 1
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

func set(t testing.TB, client *redis.Client, keys ...string) {
	t.Helper()
	for i, key := range keys {
		if err := client.Set(t.Context(), key, strconv.Itoa(i), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

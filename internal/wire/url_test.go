package wire

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

func TestStoreURLsThatAreRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, url, want string }{
		{"another database", "mysql://ann:secret@db/app", "unknown scheme mysql: want postgres://user:password@host:5432/database or sqlite:waybill.db"},
		{"another driver", "postgresql+asyncpg://ann:secret@db/app", "unknown scheme postgresql+asyncpg: want postgres://"},
		{"no scheme", "waybill.db", "not a URL: want postgres://"},
		{"a password before the colon", "secret:5432", "not a URL: want postgres://"},
		{"a password with an at sign and a slash", "postgres://ann:secret/p@db/app", "special characters of the password percent-encoded"},
		{"a password with an at sign", "postgres://ann:p@secret@db/app", "special characters of the password percent-encoded"},
		{"a password of digits and a slash", "postgres://ann:1234/secret@db/app", "special characters of the password percent-encoded"},
		{"a password with a question mark", "postgres://ann:1234?secret@db/app", "special characters of the password percent-encoded"},
		{"a password with a hash", "postgres://ann:secret#x@db/app", "special characters of the password percent-encoded"},
		{"a password with a percent sign", "postgres://ann:secret%zz@db/app", "special characters of the password percent-encoded"},
		{"a port that is none", "postgres://ann:secret@db:port/app", "the URL cannot be read"},
		{"an option that is none", "postgres://ann:secret@db/app?sslmode=maybe", "the URL cannot be used: "},
		{"a pool that is none", "postgres://ann:secret@db/app?pool_max_conns=x", "the URL cannot be used: "},
		{"no file", "sqlite:", "names no file"},
		{"no file either", "sqlite://", "names no file"},
		{"memory", "sqlite::memory:", "would be gone with this command"},
		{"options of a file", "sqlite:waybill.db?mode=ro", "has no options"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := OpenStore(StoreConfig{URL: test.url, Registry: waybill.NewRegistry()})
			checkRefusal(t, err, test.want)
		})
	}
}

// allBackends is what an unknown scheme is answered with.
const allBackends = "want redis://user:password@host:6379/0 (rediss:// for TLS), amqp://user:password@host:5672/vhost (amqps:// for TLS), " +
	"river: for River in the store's database (river+postgres://… or river+sqlite:PATH for another), or local: for one process"

func TestBackendURLsThatAreRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, url, want string }{
		{"another queue", "kafka://ann:secret@mq", "unknown scheme kafka: " + allBackends},
		{"no scheme", "localhost", "not a URL"},
		{"a host and a port", "secret:6379", "not a URL"},
		{"a password with a slash", "redis://:secret/x@mq:6379/0", "special characters of the password percent-encoded"},
		{"a database that is none", "redis://:secret@mq:6379/zero", "the URL cannot be read"},
		{"an option that is none", "redis://:secret@mq:6379/0?secret=1", "the URL cannot be read"},
		{"something after local:", "local:secret", "a local: URL has nothing after the colon"},
		{"a password of River's with an at sign", "river+postgres://ann:p@secret@db/app", "special characters of the password percent-encoded"},
		{"an AMQP password with a slash", "amqp://ann:secret/x@mq/app", "percent-encoded"},
		{"an AMQP password with a hash", "amqp://ann:secret#x@mq/app", "percent-encoded"},
		{"an AMQP password with a percent sign", "amqps://ann:secret%zz@mq/app", "percent-encoded"},
		{"an AMQP option that is none", "amqp://ann:secret@mq/app?colour=secret", "a parameter that nobody reads"},
		{"a type of queue that is none", "amqp://ann:secret@mq/app?queue_type=stream", "want quorum or classic"},
		{"River in no database", "river+mysql://ann:secret@db/app", "unknown scheme river+mysql: " + allBackends},
		{"River with a password with a slash", "river+postgres://ann:se/cret1234@db/app", "special characters of the password percent-encoded"},
		{"River with an option that is none", "river+postgres://ann:secret@db/app?sslmode=maybe&schema=x", "the URL cannot be used: "},
		{"River in no file", "river+sqlite:", "names no file"},
		{"River in memory", "river+sqlite::memory:", "would be gone with this command"},
		{"River in a schema of a file", "river+sqlite:river.db?schema=x", "has no options"},
		{"River with a host", "river://ann:secret@db/app", "river: is the store's database, and takes nothing but ?schema=name"},
		{"River with a path", "river:secret.db", "river: is the store's database, and takes nothing but ?schema=name"},
		{"River with another option", "river:?secret=1", "river: takes nothing but ?schema=name"},
		{"River without a store", "river:", "name that too, with --store or WAYBILL_STORE"},
		{"a second AMQP URL that is none", "amqp://ann:secret@mq1/app,amqp://ann:secret/1234@mq2/app", "percent-encoded"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := OpenBackend(BackendConfig{URL: test.url})
			checkRefusal(t, err, test.want)
		})
	}
}

func checkRefusal(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("error = %v, want %q in it", err, want)
	}
	if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "1234") {
		t.Errorf("the error %q holds a part of the password", err)
	}
	if strings.ContainsAny(err.Error(), "\n\t") {
		t.Errorf("the error %q is not one line", err)
	}
}

func TestURLsThatOpen(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://ann:p%40ss@db:5433/app?sslmode=disable", "postgresql://db/app", "POSTGRES://db/app", "postgres:///app?host=/run/postgresql",
		"sqlite:" + t.TempDir() + "/waybill.db", "sqlite://" + t.TempDir() + "/waybill.db",
	} {
		store, err := OpenStore(StoreConfig{URL: url, Registry: waybill.NewRegistry()})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		store.Close()
	}
	const store = "Postgres://ann:p%40ss@db:5433/app?sslmode=disable"
	for _, url := range []string{
		"redis://mq", "rediss://ann:p%40ss@mq:6380/3", "redis://:x@mq?pool_size=200", "local:",
		"amqp://mq", "AMQP://ann:p%40ss@mq:5673/app", "amqps://ann:x@mq1/app,amqps://ann:x@mq2/app?queue_type=classic", "amqp://mq/%2F?passive=true&heartbeat=5",
		"river:", "River://", "river:?schema=queue", "river+postgres://ann:p%40ss@db/app?schema=queue&pool_max_conns=9", "river+postgresql://db/app",
		"river+sqlite:" + t.TempDir() + "/river.db",
	} {
		backend, err := OpenBackend(BackendConfig{URL: url, StoreURL: store})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if _, err := backend.Queue("mail"); err != nil {
			t.Errorf("%s: queue: %v", url, err)
		}
		if backend.InProcess() != (url == "local:") {
			t.Errorf("%s: InProcess = %t", url, backend.InProcess())
		}
		backend.Close()
	}
}

// What the URL and the flags say reaches every lane's queue.
func TestRabbitMQQueues(t *testing.T) {
	t.Parallel()
	backend, err := OpenBackend(BackendConfig{URL: "amqp://mq1/app,amqp://mq2/app?queue_type=classic&passive=true", Strict: true, Drain: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	got := backend.(*onRabbitMQ).queue
	if len(got.URLs) != 2 || got.Type != "classic" || !got.Passive || !got.Strict || got.Drain != time.Hour+time.Minute {
		t.Errorf("the queues' configuration is %+v", got)
	}
}

// What is River's own is taken out before PostgreSQL sees the URL.
func TestRiverDatabase(t *testing.T) {
	t.Parallel()
	const store = "postgres://ann:p%40ss@db/app?sslmode=disable"
	type result struct {
		database string
		options  riverOptions
	}
	for url, want := range map[string]result{
		"river:":                             {store, riverOptions{}},
		"river:?schema=queue":                {store, riverOptions{schema: "queue"}},
		"river:?poll_only=true":              {store, riverOptions{pollOnly: true}},
		"river:?poll_only=false":             {store, riverOptions{}},
		"river+postgres://x/y":               {"postgres://x/y", riverOptions{}},
		"river+postgres://x/y?poll_only=yes": {},
		"river+postgres://ann:p%40s%2Fs@x/y?sslmode=disable&schema=queue&poll_only=1": {
			"postgres://ann:p%40s%2Fs@x/y?sslmode=disable", riverOptions{schema: "queue", pollOnly: true},
		},
		"river+sqlite:river.db": {"sqlite:river.db", riverOptions{}},
	} {
		database, options, err := riverDatabase(BackendConfig{URL: url, StoreURL: store})
		if (err != nil) != (want == result{}) || (result{database, options} != want) {
			t.Errorf("riverDatabase(%s) = %s, %+v, %v, want %+v", url, database, options, err, want)
		}
	}
	for storeURL, want := range map[string]string{
		"mysql://ann:secret@db/app": "the store's URL: unknown scheme mysql",
		"sqlite:waybill.db":         "a SQLite file has neither schemas nor connection poolers",
	} {
		_, err := OpenBackend(BackendConfig{URL: "river:?schema=queue", StoreURL: storeURL})
		checkRefusal(t, err, want)
	}
}

// River's pool is small, however large the store's may be.
func TestRiverHasAPoolOfItsOwn(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]int32{"river:": minConnections, "river+postgres://db/app?pool_max_conns=9": 9} {
		backend, err := OpenBackend(BackendConfig{URL: url, StoreURL: "postgres://db/app?pool_max_conns=80&pool_min_conns=40"})
		if err != nil {
			t.Fatal(err)
		}
		defer backend.Close()
		if got := backend.(*riverOnPostgres).server.pool.Config(); got.MaxConns != want || got.MinConns != 0 {
			t.Errorf("%s: %d to %d connections, want 0 to %d", url, got.MinConns, got.MaxConns, want)
		}
	}
}

// Only River has tables of its own.
func TestMigrators(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{"redis://mq": false, "amqp://mq": false, "local:": false, "river:": true, "river+sqlite:" + t.TempDir() + "/river.db": true} {
		backend, err := OpenBackend(BackendConfig{URL: url, StoreURL: "postgres://db/app"})
		if err != nil {
			t.Fatal(err)
		}
		defer backend.Close()
		if migrator, err := backend.Migrator(); err != nil || (migrator != nil) != want {
			t.Errorf("%s: a migrator: %t, %v", url, migrator != nil, err)
		}
	}
}

func TestSQLitePath(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"sqlite:waybill.db": "waybill.db", "sqlite:./a b/w.db": "./a b/w.db", "sqlite:/var/w.db": "/var/w.db",
		"sqlite:///var/w.db": "/var/w.db", "sqlite://waybill.db": "waybill.db",
	} {
		if got, err := sqlitePath(url); err != nil || got != want {
			t.Errorf("sqlitePath(%s) = %q, %v, want %q", url, got, err, want)
		}
	}
}

func TestHide(t *testing.T) {
	t.Parallel()
	tests := []struct{ url, text, want string }{
		{"postgres://ann:topsecret@db/app", "login as ann with topsecret failed\n\tat db", "login as ann with [hidden] failed at db"},
		{"postgres://ann:p%40ss%2Fword@db/app", "p@ss/word p%40ss%2Fword", "[hidden] [hidden]"},
		{"postgres://db/app?password=topsecret", "topsecret", "[hidden]"},
		{"postgres://db/app?sslpassword=topsecret", "topsecret", "[hidden]"},
		{"postgres://db/app", "nothing to hide", "nothing to hide"},
	}
	for _, test := range tests {
		if got := hide(test.url, errors.New(test.text)); got != test.want {
			t.Errorf("hide(%s, %q) = %q, want %q", test.url, test.text, got, test.want)
		}
	}
}

func TestConnections(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		url    string
		needed int
		want   int32
	}{
		{"what a store needs", "postgres://db/app", 0, 4},
		{"what the slots need", "postgres://db/app", 54, 54},
		{"what the URL allows", "postgres://db/app?pool_max_conns=80", 54, 80},
		{"more than the URL allows", "postgres://db/app?pool_max_conns=10", 54, 54},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store, err := OpenStore(StoreConfig{URL: test.url, Registry: waybill.NewRegistry(), Connections: test.needed, Name: "bridge"})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			pool := store.(*postgresStore).server.pool
			if got := pool.Config().MaxConns; got != test.want {
				t.Errorf("MaxConns = %d, want %d", got, test.want)
			}
			conn := pool.Config().ConnConfig
			if conn.ConnectTimeout != reachTimeout || conn.RuntimeParams["application_name"] != "bridge" {
				t.Errorf("connect timeout = %s, application name = %q", conn.ConnectTimeout, conn.RuntimeParams["application_name"])
			}
		})
	}
}

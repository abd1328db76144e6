package wire

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/goleak"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
)

func TestMain(m *testing.M) {
	code := m.Run()
	// A TLS handshake with a server that never answers it outlives the client that
	// began it, in a goroutine of go-redis's own, by the dial timeout of 2 s.
	leaked := goleak.Find()
	for deadline := time.Now().Add(5 * time.Second); leaked != nil && time.Now().Before(deadline); {
		leaked = goleak.Find()
	}
	if code == 0 && leaked != nil {
		fmt.Fprintln(os.Stderr, leaked)
		code = 1
	}
	os.Exit(code)
}

// silent accepts connections and never says a word.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

// hangsUp accepts connections and ends them.
func hangsUp(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	})
	t.Cleanup(func() { listener.Close(); done.Wait() })
	return listener.Addr().String()
}

// closed is an address where nothing listens.
func closed(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// with returns a URL with something of it changed.
func with(t *testing.T, rawURL string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

const wrong = "w%72ong-secret" // in need of encoding

func TestStoresThatCannotBeReached(t *testing.T) {
	t.Parallel()
	real := services.Postgres(t)
	folder := t.TempDir()
	closedAt, silentAt := closed(t), silent(t)
	tests := []struct{ name, url, want, do string }{
		{"nothing listens", "postgres://ann:secret@" + closedAt + "/app?sslmode=disable", "PostgreSQL at " + closedAt + ": connection refused", "start it, or correct host and port"},
		{"no such host", "postgres://ann:secret@no-such-host.invalid/app", "there is no host no-such-host.invalid", "correct the host"},
		{"no answer", "postgres://ann:secret@" + silentAt + "/app?sslmode=disable", "PostgreSQL at " + silentAt + ": no answer in time", "firewall"},
		{"no socket", "postgres:///app?host=" + url.QueryEscape(folder) + "&password=secret", "PostgreSQL at " + folder + ": connection refused", "start it"},
		{"a wrong password", with(t, real, func(u *url.URL) { u.User = url.UserPassword("waybill", wrong) }), `refuses user "waybill"`, "correct user and password"},
		{"no such user", with(t, real, func(u *url.URL) { u.User = url.UserPassword("nobody", wrong) }), `refuses user "nobody"`, "correct user and password"},
		{"no such database", with(t, real, func(u *url.URL) { u.Path = "/no_such_database" }), `has no database "no_such_database"`, "createdb"},
		{"no TLS", with(t, real, func(u *url.URL) { u.RawQuery = "sslmode=require" }), "does not speak TLS", "sslmode=disable"},
		{"no folder", "sqlite:" + filepath.Join(folder, "none", "w.db"), "there is no folder " + filepath.Join(folder, "none"), "create it"},
		{"a folder", "sqlite:" + folder, folder + " is a folder", "name a file in it"},
		{"a file as a folder", "sqlite:" + filepath.Join(file(t, folder), "w.db"), "", "correct the path"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store, err := OpenStore(StoreConfig{URL: test.url, Registry: waybill.NewRegistry()})
			if err == nil {
				defer store.Close()
				err = reachWithin(store.Reach, test.want)
			}
			checkUnreached(t, err, test.url, test.want, test.do)
		})
	}
}

func file(t *testing.T, folder string) string {
	t.Helper()
	path := filepath.Join(folder, "plain")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// reachWithin does not wait long for what is silent on purpose.
func reachWithin(reach func(context.Context) error, want string) error {
	patience := 20 * time.Second
	if strings.Contains(want, "no answer in time") || strings.Contains(want, "does it speak TLS") {
		patience = 300 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return reach(ctx)
}

func TestStoresThatAreReached(t *testing.T) {
	t.Parallel()
	for _, url := range []string{services.Postgres(t), "sqlite:" + filepath.Join(t.TempDir(), "w.db")} {
		store, err := OpenStore(StoreConfig{URL: url, Registry: waybill.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Reach(context.Background()); err != nil {
			t.Errorf("Reach: %v", err)
		}
		if err := store.Check(context.Background()); err == nil || !strings.Contains(err.Error(), "run `bridge migrate`") {
			t.Errorf("Check of an empty database: %v", err)
		}
		store.Close()
	}
}

func TestBackendsThatCannotBeReached(t *testing.T) {
	t.Parallel()
	locked := miniredis.RunT(t)
	locked.RequireAuth("right-secret")
	loading := miniredis.RunT(t)
	loading.SetError("LOADING Redis is loading the dataset in memory")
	other := miniredis.RunT(t)
	other.SetError("ERR what is this wr0ng-secret")
	closedAt, silentAt := closed(t), silent(t)
	real, rabbit, postgres := services.Redis(t), services.RabbitMQ(t), services.Postgres(t)
	tests := []struct{ name, url, want, do string }{
		{"nothing listens", "redis://ann:secret@" + closedAt + "/0", "Redis at " + closedAt + ": connection refused", "start it, or correct host and port"},
		{"no such host", "redis://ann:secret@no-such-host.invalid", "there is no host no-such-host.invalid", "correct the host"},
		{"no answer", "redis://ann:secret@" + silentAt, "Redis at " + silentAt + ": no answer in time", "firewall"},
		{"no TLS", strings.Replace(real, "redis:", "rediss:", 1), "Redis at ", "does it speak TLS? redis:// is without"},
		{"no password", "redis://" + locked.Addr(), "refuses the login: NOAUTH", "correct user and password"},
		{"a wrong password", with(t, real, func(u *url.URL) { u.User = url.UserPassword("default", wrong) }), "refuses the login: WRONGPASS", "correct user and password"},
		{"no such database", with(t, real, func(u *url.URL) { u.Path = "/9999" }), "has no such database", "correct the number"},
		{"it is loading", "redis://" + loading.Addr(), "is loading its data", "try again"},
		{"it says something else", "redis://:wr0ng-secret@" + other.Addr(), "ERR what is this [hidden]", "is it a Redis"},

		{"River: nothing listens", "river+postgres://ann:secret@" + closedAt + "/app", "PostgreSQL at " + closedAt + ": connection refused", "start it"},
		{"River: a wrong password", "river+" + with(t, postgres, func(u *url.URL) { u.User = url.UserPassword("waybill", wrong) }), `refuses user "waybill"`, "correct user and password"},
		{"River: no such database", "river+" + with(t, postgres, func(u *url.URL) { u.Path = "/no_such_database"; u.RawQuery += "&schema=x" }), `has no database "no_such_database"`, "createdb"},
		{"River: no folder", "river+sqlite:" + filepath.Join(t.TempDir(), "none", "r.db"), "there is no folder", "create it"},

		{"AMQP: nothing listens", "amqp://ann:secret@" + closedAt, "RabbitMQ at " + closedAt + ": connection refused", "start it, or correct host and port"},
		{"AMQP: no such host", "amqp://ann:secret@no-such-host.invalid", "there is no host no-such-host.invalid", "correct the host"},
		{"AMQP: no answer", "amqp://ann:secret@" + silentAt, "RabbitMQ at " + silentAt + ": no answer in time", "firewall"},
		{"AMQP: no answer over TLS", "amqps://ann:secret@" + silentAt, "no answer in time", "does it speak TLS? amqp:// is without"},
		{"AMQP: no TLS", strings.Replace(rabbit, "amqp:", "amqps:", 1), "RabbitMQ at ", "the server does not speak it"},
		{"AMQP: another server", "amqp://ann:secret@" + hangsUp(t), "RabbitMQ at ", "is it a RabbitMQ, and does it want amqps://"},
		{"AMQP: a wrong password", with(t, rabbit, func(u *url.URL) { u.User = url.UserPassword("waybill", wrong) }), `refuses user "waybill"`, "correct user and password"},
		{"AMQP: no such virtual host", with(t, rabbit, func(u *url.URL) { u.Path = "/nowhere" }), `into virtual host "nowhere"`, "rabbitmqctl add_vhost"},
		{"AMQP: two nodes", "amqp://ann:secret@" + closedAt + ",amqp://ann:secret@" + hangsUp(t), "RabbitMQ at " + closedAt + ": connection refused", "start it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			backend, err := OpenBackend(BackendConfig{URL: test.url})
			if err == nil {
				defer backend.Close()
				err = reachWithin(backend.Reach, test.want+test.do)
			}
			checkUnreached(t, err, test.url, test.want, test.do)
		})
	}
}

func checkUnreached(t *testing.T, err error, rawURL, want, do string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), do) {
		t.Fatalf("error = %v, want %q and %q in it", err, want, do)
	}
	if strings.ContainsAny(err.Error(), "\n\t") {
		t.Errorf("the error %q is not one line", err)
	}
	u, parseErr := url.Parse(rawURL)
	if parseErr != nil {
		t.Fatal(parseErr)
	}
	if password, ok := u.User.Password(); ok && strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error %q holds the password", err)
	}
}

func TestBackendsThatAreReached(t *testing.T) {
	t.Parallel()
	rabbit, postgres := services.RabbitMQ(t), services.Postgres(t)
	for _, url := range []string{
		services.Redis(t), "redis://" + miniredis.RunT(t).Addr(), "local:",
		rabbit, "amqp://ann:secret@" + closed(t) + "," + rabbit,
		"river:", "river+" + postgres + "&schema=queue", "river+sqlite:" + filepath.Join(t.TempDir(), "r.db"),
	} {
		backend, err := OpenBackend(BackendConfig{URL: url, StoreURL: postgres, Drain: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if err := backend.Reach(context.Background()); err != nil {
			t.Errorf("Reach: %v", err)
		}
		queue, err := backend.Queue("mail")
		if err != nil {
			t.Errorf("Queue: %v", err)
		}
		if migrator, err := backend.Migrator(); err != nil {
			t.Errorf("Migrator: %v", err)
		} else if migrator != nil {
			if _, err := migrator.Up(context.Background()); err != nil {
				t.Errorf("Up: %v", err)
			}
		}
		if checker, ok := queue.(waybill.Checker); ok {
			if err := checker.Check(context.Background()); err != nil {
				t.Errorf("Check: %v", err)
			}
		}
		backend.Close()
	}
}

package cli_test

import (
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
	"github.com/waybill-go/waybill/internal/services"
)

const oneReceiver = "receivers:\n- {key: a, event: '*', lane: mail, http: {url: 'http://127.0.0.1:9'}}\n"

func TestFailures(t *testing.T) {
	t.Parallel()
	s := newSite(t, oneReceiver)
	closedAt := closedPort(t)
	unmigrated := "sqlite:" + filepath.Join(s.folder, "empty.db")
	postgres := services.Postgres(t)
	rabbit := services.RabbitMQ(t)
	wrongPassword := with(t, postgres, func(u *url.URL) { u.User = url.UserPassword("waybill", "wrong-secret") })
	noDatabase := with(t, postgres, func(u *url.URL) { u.Path = "/no_such_database" })
	broken := s.file("broken.yaml", "receivers:\n- key: a\n  event: '*'\n  leese: 60s\n  http: {url: 'http://ann:secret@127.0.0.1:9'}\n")
	tests := []struct {
		name string
		args []string
		want []string
	}{
		{"an unknown store", []string{"status", "--store", "mysql://ann:secret@db/app"}, []string{"--store: unknown scheme mysql: want postgres://user:password@host:5432/database or sqlite:"}},
		{"a store that cannot be read", []string{"status", "--store", "postgres://ann:se/cret@db/app"}, []string{"--store: the URL cannot be read", "percent-encoded"}},
		{"a server that is down", []string{"status", "--store", "postgres://ann:secret@" + closedAt + "/app"}, []string{"store: PostgreSQL at " + closedAt + ": connection refused", "start it, or correct host and port"}},
		{"a server that is down, to migrate", []string{"migrate", "--store", "postgres://ann:secret@" + closedAt + "/app"}, []string{"connection refused"}},
		{"a wrong password", []string{"status", "--store", wrongPassword}, []string{`refuses user "waybill"`, "correct user and password in the URL"}},
		{"a missing database", []string{"migrate", "--store", noDatabase}, []string{`has no database "no_such_database"`, "create it (createdb)"}},
		{"a missing schema", []string{"status", "--store", unmigrated}, []string{"has no waybill schema yet: run `bridge migrate`"}},
		{"a missing schema on PostgreSQL", []string{"status", "--store", postgres}, []string{"has no schema \"waybill\" yet: run `bridge migrate`"}},
		{"a missing schema, for a relay", []string{"relay", "--store", unmigrated, "--receivers", s.receivers, "--backend", s.backend}, []string{"run `bridge migrate`"}},
		{"a missing schema, to fire", []string{"fire", "a", "--payload", "1", "--store", unmigrated, "--receivers", s.receivers}, []string{"run `bridge migrate`"}},
		{"a missing folder", []string{"migrate", "--store", "sqlite:" + filepath.Join(s.folder, "none", "w.db")}, []string{"there is no folder", "create it"}},
		{"an unknown backend", s.args("relay", "--backend", "kafka://ann:secret@mq"), []string{"--backend: unknown scheme kafka: want redis://user:password@host:6379/0"}},
		{"a queue that is down", s.args("relay", "--backend", "redis://ann:secret@"+closedAt), []string{"backend: Redis at " + closedAt + ": connection refused", "start it"}},
		{"a wrong password of the queue", s.args("relay", "--backend", with(t, services.Redis(t), func(u *url.URL) { u.User = url.UserPassword("default", "wrong-secret") })), []string{"refuses the login", "correct user and password"}},
		{"a virtual host that does not exist", s.args("relay", "--backend", with(t, rabbit, func(u *url.URL) { u.Path = "/nowhere" })), []string{"backend: RabbitMQ at ", `into virtual host "nowhere"`, "rabbitmqctl add_vhost"}},
		{"a RabbitMQ that is down", s.args("relay", "--backend", "amqp://ann:secret@"+closedAt), []string{"backend: RabbitMQ at " + closedAt + ": connection refused", "start it"}},
		{"a queue that is for somebody else to declare", s.args("relay", "--lane", "mail", "--backend", rabbit+"?passive=true"), []string{"backend: ", "waybill-mail", "passive"}},
		{"a River that is down", s.args("relay", "--backend", "river+postgres://ann:secret@"+closedAt+"/app"), []string{"backend: PostgreSQL at " + closedAt + ": connection refused", "start it"}},
		{"a River without its tables", s.args("relay", "--lane", "mail", "--backend", "river:"), []string{"backend: river: ", "run `bridge migrate` with this backend"}},
		{"a schema that is none", s.args("relay", "--backend", "river:?schema=other"), []string{"--backend: ?schema= and ?poll_only= are for River on PostgreSQL"}},
		{"an unknown lane", s.queueArgs("relay", "--lane", "nowhere"), []string{`unknown lane "nowhere"; declared: default, mail`, "correct --lane"}},
		{"a missing file of receivers", []string{"relay", "--receivers", filepath.Join(s.folder, "none.yaml"), "--store", s.store, "--backend", s.backend}, []string{"receivers: open", "none.yaml: no such file"}},
		{"a mistake in the receivers", []string{"relay", "--receivers", broken, "--store", s.store, "--backend", s.backend}, []string{broken + `:4: receiver "a": leese: unknown field; did you mean lease?`}},
		{"a missing file of events", s.args("fire", "--file", filepath.Join(s.folder, "none.jsonl")), []string{"none.jsonl: no such file or directory: correct the path after --file"}},
		{"a folder of events", s.args("fire", "--file", s.folder), []string{"is a folder: name a file after --file"}},
		{"a payload that is no JSON", s.args("fire", "order.placed", "--payload", "{id:1}"), []string{"fire order.placed: the payload is not JSON"}},
		{"a name that is none", s.args("fire", "*", "--payload", "{}"), []string{"stands for every event"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			checkFailure(t, bridge(t, test.args...), 1, test.want...)
		})
	}
	worker := []struct {
		name string
		args []string
		want []string
	}{
		{"worker: a missing schema", []string{"--store", unmigrated, "--receivers", s.receivers, "--backend", s.backend}, []string{"run `bridge migrate`"}},
		{"worker: an unknown lane", s.queueArgs("--lane", "nowhere"), []string{`unknown lane "nowhere"`}},
		{"worker: a queue that is down", s.args("--backend", "redis://ann:secret@"+closedAt), []string{"connection refused"}},
		{"worker: a store that is down", []string{"--store", "postgres://ann:secret@" + closedAt + "/app", "--receivers", s.receivers, "--backend", s.backend}, []string{"connection refused"}},
	}
	for _, test := range worker {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			checkFailure(t, execute(t.Context(), cli.Worker(waybill.NewRegistry()), "", test.args...), 1, test.want...)
		})
	}
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

func TestAMistakeALine(t *testing.T) {
	t.Parallel()
	s := newSite(t, "receivers:\n- key: a\n  lease: 60\n  http: {url: 'http://127.0.0.1:9'}\n")
	got := bridge(t, s.args("status")...)
	want := "bridge: " + s.receivers + ":2: receiver \"a\": event: is missing; name the event it is owed, or '*' for every event\n" +
		"bridge: " + s.receivers + ":3: receiver \"a\": lease: 60 has no unit; write 60s, 60m or 60h\n"
	if got.code != 1 || got.err != want {
		t.Errorf("exit code %d, standard error:\n%swant:\n%s", got.code, got.err, want)
	}
}

func TestASchemaOfAnotherRelease(t *testing.T) {
	t.Parallel()
	older, newer := newSite(t, oneReceiver), newSite(t, oneReceiver)
	changeSQLite(t, older, `UPDATE schema_version SET version_id = 0`)
	changeSQLite(t, newer, `INSERT INTO schema_version (version_id, is_applied) VALUES (99999, 1)`)
	postgres := newSite(t, oneReceiver)
	postgres.store = services.Postgres(t)
	succeeds(t, "migrate", "--store", postgres.store)
	changePostgres(t, postgres.store, `INSERT INTO waybill.schema_version (version_id, is_applied) VALUES (99999, true)`)
	for _, test := range []struct {
		name string
		site *site
		want string
	}{
		{"older", older, "run `bridge migrate`"},
		{"newer", newer, "this binary is older than the schema: upgrade it"},
		{"newer on PostgreSQL", postgres, "this binary is older than the schema: upgrade it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{{"status"}, {"relay", "--backend", test.site.backend}, {"fire", "x", "--payload", "1"}} {
				checkFailure(t, bridge(t, test.site.args(args...)...), 1, test.want)
			}
			checkFailure(t, execute(t.Context(), cli.Worker(waybill.NewRegistry()), "", test.site.queueArgs()...), 1, test.want)
		})
	}
}

func changeSQLite(t *testing.T, s *site, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(s.store, "sqlite:"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

func changePostgres(t *testing.T, url, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

package services

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// pooledConnections is how many connections to the server a private PgBouncer
// shares out, for each database and user: fewer than a test's clients have.
const pooledConnections = 3

// OwnPgBouncer starts a private PgBouncer in transaction mode before the server of
// a postgres:// URL, for all of its databases, and returns the URL that leads
// through it. It is killed when the test ends, and by the kernel (on Linux) when
// the test's process dies without having come to that.
//
// Its clients share three connections to a database: what one transaction leaves
// on its connection, the next one of anybody finds there.
//
// PgBouncer refuses to run as root; a test that does runs it as the user postgres.
func OwnPgBouncer(t testing.TB, postgresURL string) string {
	t.Helper()
	return ownPgBouncer(t, postgresURL, "transaction", pooledConnections)
}

// OwnSessionPgBouncer is OwnPgBouncer in session mode: a client keeps its connection
// to the server for as long as it stays. There are connections enough.
func OwnSessionPgBouncer(t testing.TB, postgresURL string) string {
	t.Helper()
	return ownPgBouncer(t, postgresURL, "session", 50)
}

func ownPgBouncer(t testing.TB, postgresURL, mode string, connections int) string {
	t.Helper()
	target, err := url.Parse(postgresURL)
	if err != nil || target.Scheme != "postgres" && target.Scheme != "postgresql" || target.Port() == "" {
		t.Fatal("a PgBouncer wants the postgres:// URL of its server, with a port")
	}
	program, err := pgbouncerProgram()
	if err != nil {
		t.Fatal(err)
	}
	account, err := postgresAccount()
	if err != nil {
		t.Fatal(err)
	}
	s := own(t, program, account)
	through := *target
	through.Host = s.Addr
	s.URL = through.String()
	config, err := s.pgbouncerFiles(target, mode, connections)
	if err != nil {
		t.Fatal(err)
	}
	s.args = []string{config}
	s.polite = syscall.SIGTERM // at once: it waits for nobody
	s.ready = pingPostgres
	s.Start()
	return s.URL
}

// pgbouncerFiles writes what PgBouncer reads, and returns the first of them.
func (s *Server) pgbouncerFiles(target *url.URL, mode string, connections int) (config string, err error) {
	config, users := filepath.Join(s.dir, "pgbouncer.ini"), filepath.Join(s.dir, "users")
	password, _ := target.User.Password()
	files := map[string]string{
		users: fmt.Sprintf("%s %s\n", quoted(target.User.Username()), quoted(password)),
		config: fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = %s
default_pool_size = %d
max_client_conn = 500
server_tls_sslmode = disable
`, target.Hostname(), target.Port(), s.port(), users, mode, connections),
	}
	for file, text := range files {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	if s.user == nil {
		return config, nil
	}
	for _, file := range []string{s.dir, users, config} {
		if err := os.Chown(file, int(s.user.Uid), int(s.user.Gid)); err != nil {
			return "", err
		}
	}
	return config, nil
}

// quoted is a word of PgBouncer's list of users.
func quoted(word string) string { return `"` + strings.ReplaceAll(word, `"`, `""`) + `"` }

// pgbouncerProgram finds it where Debian puts it, which not every PATH has.
func pgbouncerProgram() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("pgbouncer is not installed: run make services as root, or apt-get install pgbouncer")
}

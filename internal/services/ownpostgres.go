package services

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// OwnPostgres starts a private PostgreSQL with one empty database. What was
// committed is still there after a Stop or a Kill: it is the machine that must
// not crash, since fsync is off for speed. Making one takes about 3 s.
//
// PostgreSQL refuses to run as root; a test that does runs it as the user
// postgres, whom Debian's package brings.
func OwnPostgres(t testing.TB) *Server {
	t.Helper()
	bin, err := postgresBin()
	if err != nil {
		t.Fatal(err)
	}
	account, err := postgresAccount()
	if err != nil {
		t.Fatal(err)
	}
	s := own(t, filepath.Join(bin, "postgres"), account)
	if account != nil {
		if err := os.Chown(s.dir, int(account.Uid), int(account.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(s.dir, "data")
	password := random(12)
	if err := initdb(bin, s.dir, data, password, account); err != nil {
		t.Fatal(err)
	}
	s.polite = syscall.SIGINT // the fast stop: it does not wait for clients to leave
	s.URL = fmt.Sprintf("postgres://waybill:%s@%s/postgres?sslmode=disable", password, s.Addr)
	s.args = []string{
		"-D", data, "-p", s.port(), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=32MB",
	}
	s.ready = pingPostgres
	s.Start()
	return s
}

func initdb(bin, dir, data, password string, account *syscall.Credential) error {
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(password), 0o600); err != nil {
		return err
	}
	if account != nil {
		if err := os.Chown(secret, int(account.Uid), int(account.Gid)); err != nil {
			return err
		}
	}
	run, err := launch(filepath.Join(bin, "initdb"), []string{
		"-D", data, "-U", "waybill", "-A", "scram-sha-256", "--pwfile", secret,
		"-E", "UTF8", "--locale=C.UTF-8", "-N",
	}, dir, account)
	if err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	select {
	case <-run.ended:
	case <-time.After(2 * patience):
		_ = run.cmd.Process.Kill()
		<-run.ended
	}
	if !run.cmd.ProcessState.Success() {
		return fmt.Errorf("initdb: %v: %s", run.cmd.ProcessState, run.output.tail())
	}
	return nil
}

func pingPostgres(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// postgresBin finds the newest server programs: Debian keeps each version's in
// a directory of its own, outside the PATH.
func postgresBin() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	version := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(path, "/")[4])
		return n
	}
	if len(found) > 0 {
		newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
		return filepath.Dir(newest), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("initdb is not installed: run make services as root, or apt-get install postgresql")
	}
	return filepath.Dir(path), nil
}

// postgresAccount is the user to run as: nil when that is ourselves.
func postgresAccount() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("postgresql does not run as root: %w", err)
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

package services

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestOwnRedisLosesAllAndComesBack(t *testing.T) {
	t.Parallel()
	server := OwnRedis(t)
	client := redisClient(t, server.URL)
	for name, end := range map[string]func(){"Kill": server.Kill, "Stop": server.Stop} {
		set(t, client, "mark")
		end()
		if err := client.Ping(t.Context()).Err(); err == nil {
			t.Errorf("after %s the server still answers", name)
		}
		server.Start()
		if keys, err := client.DBSize(t.Context()).Result(); err != nil || keys != 0 {
			t.Errorf("after %s and Start: %d keys, error %v; want none", name, keys, err)
		}
	}
}

func TestOwnPostgresKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	server := OwnPostgres(t)
	mustExec(t, connect(t, server.URL), "CREATE TABLE mark (id int)")
	for i, end := range []func(){server.Kill, server.Stop} {
		conn := connect(t, server.URL)
		mustExec(t, conn, "INSERT INTO mark VALUES (1)")
		end()
		if err := conn.Ping(t.Context()); err == nil {
			t.Errorf("end %d: a connection outlived the server", i)
		}
		if err := pingPostgres(server.URL); err == nil {
			t.Errorf("end %d: the server still answers", i)
		}
		server.Start()
		if rows := scan[int](t, connect(t, server.URL), "SELECT count(*)::int FROM mark"); rows != i+1 {
			t.Errorf("end %d: %d rows are left, want %d", i, rows, i+1)
		}
	}
}

// A test binary that is killed runs no cleanup: its servers must die with it,
// and the next test to come removes their files.
func TestServerDiesWithItsTest(t *testing.T) {
	t.Parallel()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "WAYBILL_TEST_MORTAL=1")
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_ = child.Process.Kill()
	_ = child.Wait()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(5 * time.Second); running(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("server %d outlived its test by 5 s", pid)
		}
	}
}

// mortal is what TestServerDiesWithItsTest kills: it starts a server, says its
// process id and waits.
func mortal() {
	run, err := launch("sleep", []string{"60"}, os.TempDir(), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(run.cmd.Process.Pid)
	<-run.ended
}

package services

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// OwnRedis starts a private Redis that keeps nothing: after a Stop or a Kill it
// starts empty.
func OwnRedis(t testing.TB) *Server {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is not installed: run make services as root, or apt-get install redis-server")
	}
	s := own(t, program, nil)
	// The password tells ours from a stranger's on the same port.
	password := random(12)
	s.URL = fmt.Sprintf("redis://default:%s@%s/0", password, s.Addr)
	s.args = []string{
		"--bind", "127.0.0.1", "--port", s.port(), "--requirepass", password, "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction",
	}
	s.polite = syscall.SIGTERM
	s.ready = pingRedis
	s.Start()
	return s
}

// pingRedis speaks the protocol itself: a client of the library logs a line for
// each attempt that fails, and here failing is part of the plan.
func pingRedis(server string) error {
	u, err := url.Parse(server)
	if err != nil {
		return err
	}
	conn, err := net.DialTimeout("tcp", u.Host, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	password, _ := u.User.Password()
	if _, err := fmt.Fprintf(conn, "AUTH %s\r\nPING\r\n", password); err != nil {
		return err
	}
	const well = "+OK\r\n+PONG\r\n"
	answer := make([]byte, len(well))
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if string(answer) != well {
		return errors.New("another server answers at " + u.Host)
	}
	return nil
}

package services

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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

func pingRedis(url string) error {
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	options.MaxRetries, options.DialerRetries = -1, 1
	client := redis.NewClient(options)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return client.Ping(ctx).Err()
}

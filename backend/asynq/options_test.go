package asynq_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/waybill-go/waybill/backend/asynq"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	o, err := asynq.Options("rediss://user:p%40ss@redis.example:6380/3?pool_size=7&read_timeout=4s")
	if err != nil {
		t.Fatal(err)
	}
	if o.Addrs[0] != "redis.example:6380" || o.Username != "user" || o.Password != "p@ss" || o.DB != 3 || o.TLSConfig == nil {
		t.Errorf("options %+v", o)
	}
	if o.PoolSize != 7 || o.ReadTimeout != 4*time.Second || o.WriteTimeout != 2*time.Second || !o.ContextTimeoutEnabled {
		t.Errorf("options %+v", o)
	}
	if !o.DisableIdentity || o.MaintNotificationsConfig == nil || o.MaintNotificationsConfig.Mode != maintnotifications.ModeDisabled {
		t.Error("the client introduces itself, which some proxies refuse")
	}
	if o, err := asynq.Options("redis://localhost"); err != nil || o.Addrs[0] != "localhost:6379" || o.TLSConfig != nil ||
		o.DialTimeout != 2*time.Second || o.ReadTimeout != 2*time.Second || o.PoolTimeout != 2*time.Second || o.MaxRetries != 1 {
		t.Errorf("options %+v, %v", o, err)
	}
}

func TestOptionsNeverTellThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "localhost:6379", "http://user:secret@localhost", "amqp://user:secret@localhost",
		"redis://user:secret@localhost:port", "redis://user:secret%zz@localhost", "redis://user:12/secret@localhost",
		"redis://user:1?secret@localhost", "redis://user:secret@localhost/db/1", "redis://user:sec ret@localhost",
		"redis://user:secret@localhost/0?unknown=secret", "redis://user:#secret@localhost", "redis://us\x01er:secret@h",
	} {
		_, err := asynq.Options(url)
		if err == nil {
			t.Errorf("%q was read", url)
		} else if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "sec ret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	heeds := &redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true}
	good := redis.NewClient(heeds)
	defer good.Close()
	deaf := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer deaf.Close()
	deafCluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer deafCluster.Close()
	endless := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true, ReadTimeout: -1})
	defer endless.Close()
	endlessCluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, ContextTimeoutEnabled: true, WriteTimeout: -1})
	defer endlessCluster.Close()
	for name, config := range map[string]asynq.Config{
		"waits without limit":    {Redis: endless},
		"cluster without limit":  {Redis: endlessCluster},
		"no client":              {},
		"deaf to deadlines":      {Redis: deaf},
		"deaf cluster":           {Redis: deafCluster},
		"braces in the name":     {Redis: good, Queue: "a{b}"},
		"space in the name":      {Redis: good, Queue: "a b"},
		"negative servers":       {Redis: good, Servers: -1},
		"negative prefetch":      {Redis: good, Prefetch: -1},
		"negative timeout":       {Redis: good, Timeout: -1},
		"negative interval":      {Redis: good, CheckInterval: -1},
		"negative drain":         {Redis: good, Drain: -1},
		"braces through a lane":  {Redis: good, Lane: "{}"},
		"line break in the name": {Redis: good, Queue: "a\n"},
	} {
		if _, err := asynq.New(config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := asynq.New(asynq.Config{Redis: good}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := open(t, asynq.Config{Redis: good})
	if err := b.Check(ctx); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "is it running") {
		t.Errorf("check without a server: %v", err)
	}
}

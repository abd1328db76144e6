package outages

import (
	"context"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/services"
)

func TestAsynq(t *testing.T) {
	t.Parallel()
	short.through(t, onAsynq(t))
}

func TestAsynqWithoutAWindow(t *testing.T) {
	t.Parallel()
	short.deep().through(t, onAsynq(t))
}

func onAsynq(t *testing.T) *bed {
	server := services.OwnRedis(t)
	proxy := fault.NewProxy(t, server.Addr)
	database := services.Postgres(t)
	direct := redisClient(t, server.URL)
	return &bed{
		store: database, direct: database, proxy: proxy,
		open: func() queue {
			b, err := asynq.New(asynq.Config{
				Redis: redisClient(t, at(t, server.URL, proxy.Addr())), CheckInterval: 30 * time.Millisecond,
				Timeout: time.Second, Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		restart: func() {
			server.Kill()
			server.Start()
		},
		lose: func() {
			if err := direct.FlushAll(context.Background()).Err(); err != nil {
				t.Error(err)
			}
		},
	}
}

func redisClient(t *testing.T, redisURL string) redis.UniversalClient {
	t.Helper()
	options, err := asynq.Options(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewUniversalClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

// at is the URL with another address in it.
func at(t *testing.T, serverURL, addr string) string {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = addr
	return u.String()
}

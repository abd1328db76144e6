package asynq_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	peer "github.com/alicebob/miniredis/v2/server"
	queue "github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/services"
)

func TestMain(m *testing.M) {
	asynq.LogRedis(slog.New(slog.DiscardHandler))
	backendtest.ConsumerProcess(func(spec string) (waybill.Consumer, error) {
		redisURL, lane, _ := strings.Cut(spec, " ")
		options, err := asynq.Options(redisURL)
		if err != nil {
			return nil, err
		}
		return asynq.New(asynq.Config{Redis: redis.NewUniversalClient(options), Lane: lane, CheckInterval: checkInterval})
	})
	backendtest.Parallel()
	goleak.VerifyTestMain(m)
}

// checkInterval is short, but not so short that idle servers keep miniredis busy:
// each look costs it a millisecond or two.
const checkInterval = 30 * time.Millisecond

func TestConformanceOnMiniredis(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, func(t *testing.T, setup backendtest.Setup) backendtest.Harness {
		server := miniredis.RunT(t)
		// It has no settings, and a Check wants to see this one.
		err := server.Server().Register("CONFIG", func(c *peer.Peer, _ string, _ []string) {
			c.WriteMapLen(1)
			c.WriteBulk("maxmemory-policy")
			c.WriteBulk("noeviction")
		})
		if err != nil {
			t.Fatal(err)
		}
		h := harness(t, setup, "redis://"+server.Addr()+"?read_timeout=3s", "lane")
		h.Large = 300
		return h
	})
}

func TestConformanceOnRedis(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, func(t *testing.T, setup backendtest.Setup) backendtest.Harness {
		if !setup.Restarts {
			return harness(t, setup, services.Redis(t), services.Unique(t))
		}
		server := services.OwnRedis(t)
		h := harness(t, setup, server.URL, "lane")
		h.Restart = func(*testing.T) {
			server.Kill()
			server.Start()
		}
		return h
	})
}

// harness puts a proxy before the server at serverURL and a Backend behind it.
func harness(t *testing.T, setup backendtest.Setup, serverURL, lane string) backendtest.Harness {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := fault.NewProxy(t, u.Host)
	u.Host = proxy.Addr()
	client := connect(t, u.String())
	refuser := new(refuser)
	client.AddHook(refuser)
	b := open(t, asynq.Config{Redis: client, Lane: lane, Logger: setup.Log})
	return backendtest.Harness{
		Backend: b,
		FIFO:    true,
		Inject: func(t *testing.T, body []byte) {
			task := queue.NewTask(waybill.MessageKind, body)
			_, err := queue.NewClientFromRedisClient(client).EnqueueContext(t.Context(), task, queue.Queue(waybill.QueueName(lane)))
			if err != nil {
				t.Fatal(err)
			}
		},
		Refuse: func(t *testing.T, deliveryID int64) (heal func()) {
			refuser.id.Store(deliveryID)
			return func() { refuser.id.Store(0) }
		},
		Crash: func(t *testing.T, n int) []waybill.Message {
			return backendtest.CrashConsumer(t, serverURL+" "+lane, n)
		},
		Hang: func(*testing.T) (release func()) {
			proxy.Hold()
			return proxy.Restore
		},
		Down: func(*testing.T) (up func()) {
			proxy.Cut()
			return proxy.Restore
		},
	}
}

func connect(t testing.TB, redisURL string) redis.UniversalClient {
	t.Helper()
	options, err := asynq.Options(redisURL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewUniversalClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

func open(t testing.TB, config asynq.Config) *asynq.Backend {
	t.Helper()
	config.CheckInterval = checkInterval
	b, err := asynq.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// refuser makes the server itself refuse one message of a pipeline, by spoiling
// the command that carries it.
type refuser struct{ id atomic.Int64 }

func (r *refuser) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (r *refuser) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (r *refuser) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		mark := fmt.Sprintf(":t:%d:", r.id.Load())
		for _, cmd := range cmds {
			args := cmd.Args()
			if len(args) < 5 || !strings.Contains(fmt.Sprint(args[3]), mark) {
				continue
			}
			keys := args[2]
			args[2] = -1 // how many keys follow
			defer func() { args[2] = keys }()
		}
		return next(ctx, cmds)
	}
}

package asynq_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	queue "github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
)

// holding consumes with n slots, and returns once each holds a message; let go, the
// handlers return.
func holding(t *testing.T, b *asynq.Backend, n int) (letGo func(), end func() error) {
	t.Helper()
	if _, err := b.Enqueue(t.Context(), messages(1, n)); err != nil {
		t.Fatal(err)
	}
	var held atomic.Int64
	gate := make(chan struct{})
	end = backendtest.Consuming(t, b, n, func(context.Context, waybill.Message) error {
		held.Add(1)
		<-gate
		return nil
	})
	letGo = func() { close(gate) }
	poll.Until(t, "every slot holds a message", func() bool { return held.Load() == int64(n) })
	return letGo, end
}

func backlogOf(t *testing.T, b *asynq.Backend) waybill.Backlog {
	t.Helper()
	backlog, err := b.Backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return backlog
}

// Where Redis tells all, nothing is unknown: not that there is no consumer either.
func TestBacklogIsKnown(t *testing.T) {
	t.Parallel()
	client, lane := connect(t, services.Redis(t)), services.Unique(t)
	b := open(t, asynq.Config{Redis: client, Lane: lane})
	figures := func(b waybill.Backlog) string { return fmt.Sprint(b.Ready, b.Running, b.Consumers) }
	letGo, end := holding(t, b, 3)
	if _, err := b.Enqueue(t.Context(), messages(10, 4)); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "4 ready, 3 running, 3 consumers", func() bool { return figures(backlogOf(t, b)) == "4 3 3" })
	first, ok := backlogOf(t, b).Oldest.Value()
	if !ok || first <= 0 {
		t.Errorf("the oldest has waited %s, known: %t", first, ok)
	}
	poll.Until(t, "the oldest has waited longer", func() bool {
		later, ok := backlogOf(t, b).Oldest.Value()
		return ok && later > first
	})
	letGo()
	poll.Until(t, "nothing is ready or running", func() bool { return figures(backlogOf(t, b)) == "0 0 3" })
	if err := end(); err != nil {
		t.Error(err)
	}
	poll.Until(t, "there is no consumer", func() bool { return figures(backlogOf(t, b)) == "0 0 0" })
}

// Another application's servers are none of ours: on other queues, or on a queue of
// the same name in another database.
func TestBacklogCountsItsOwnConsumers(t *testing.T) {
	t.Parallel()
	server := services.OwnRedis(t)
	b := open(t, asynq.Config{Redis: connect(t, server.URL), Lane: "mail"})
	others := []*asynq.Backend{
		open(t, asynq.Config{Redis: connect(t, server.URL), Lane: "crm"}),
		open(t, asynq.Config{Redis: connect(t, strings.TrimSuffix(server.URL, "0")+"1"), Lane: "mail"}),
	}
	for _, other := range others {
		letGo, _ := holding(t, other, 2)
		defer letGo()
	}
	for _, other := range others {
		poll.Until(t, "the others' consumers are known", func() bool { return backlogOf(t, other).Consumers == waybill.Known(int64(2)) })
	}
	if got := backlogOf(t, b); got.Consumers != waybill.Known(int64(0)) || got.Running != waybill.Known(int64(0)) {
		t.Errorf("backlog %+v", got)
	}
}

const withoutSubscriptions = "flushed where nobody may subscribe"

// A Redis that forgot its consumers, who live and hold messages, is not believed.
func TestBacklogAfterRedisForgot(t *testing.T) {
	t.Parallel()
	flush := func(t *testing.T, _ *services.Server, client redis.UniversalClient) {
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for name, forget := range map[string]func(t *testing.T, server *services.Server, client redis.UniversalClient){
		"flushed":            flush,
		withoutSubscriptions: flush,
		"restarted": func(_ *testing.T, server *services.Server, _ redis.UniversalClient) {
			server.Kill()
			server.Start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := services.OwnRedis(t)
			url, servers := server.URL, 2
			if name == withoutSubscriptions { // then some of several servers cannot be told from all
				allow(t, server, "quiet", "resetchannels")
				url, servers = as(server, "quiet"), 1
			}
			client := connect(t, url)
			b := open(t, asynq.Config{Redis: client, Lane: "mail", Servers: servers})
			letGo, _ := holding(t, b, 3)
			defer letGo()
			three := waybill.Known(int64(3))
			poll.Until(t, "the consumers are known", func() bool { return backlogOf(t, b).Consumers == three })
			forget(t, server, client)
			poll.Until(t, "the consumers are known again", func() bool {
				got, err := b.Backlog(t.Context())
				if err != nil {
					return false // a connection of the run before
				}
				if n, ok := got.Consumers.Value(); ok && n != 3 {
					t.Fatalf("%d consumers, want 3 or unknown", n)
				}
				if n, ok := got.Running.Value(); ok {
					t.Fatalf("%d running, which redis cannot know", n)
				}
				if got.Ready != waybill.Known(int64(0)) {
					t.Fatalf("%s ready, want 0", got.Ready)
				}
				return got.Consumers == three
			})
		})
	}
}

// Keys that lost their other half make Asynq's Inspector fail. Ready is known all
// the same.
func TestBacklogOfBrokenKeys(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	b := open(t, asynq.Config{Redis: connect(t, "redis://"+server.Addr()), Lane: "mail"})
	const key = "asynq:{waybill-mail}:"
	if _, err := b.Enqueue(t.Context(), messages(1, 1)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, since string
		want        waybill.Reading[time.Duration]
	}{
		{"the task is gone", "", waybill.Reading[time.Duration]{}},
		{"the time is none", "soon", waybill.Reading[time.Duration]{}},
		{"a clock that is ahead", "7999999999000000000", waybill.Known(time.Duration(0))},
	} {
		server.Push(key+"pending", c.name) // the tail is what goes out next
		if c.since != "" {
			server.HSet(key+"t:"+c.name, "pending_since", c.since)
		}
		list, err := server.List(key + "pending")
		if err != nil {
			t.Fatal(err)
		}
		if got := backlogOf(t, b); got.Oldest != c.want || got.Ready != waybill.Known(int64(len(list))) {
			t.Errorf("%s: oldest %s, %s ready; want %s, %d", c.name, got.Oldest, got.Ready, c.want, len(list))
		}
	}
	server.FlushAll()
	if _, err := b.Enqueue(t.Context(), messages(1, 2)); err != nil {
		t.Fatal(err)
	}
	server.Del("asynq:queues") // to Asynq's tools there is no queue now
	if _, err := queue.NewInspectorFromRedisClient(connect(t, "redis://"+server.Addr())).GetQueueInfo("waybill-mail"); err == nil {
		t.Error("the Inspector finds the queue, so this test shows nothing")
	}
	if got := backlogOf(t, b).Ready; got != waybill.Known(int64(2)) {
		t.Errorf("%s ready, want 2", got)
	}
}

// What a user may not ask is unknown; one who may not ask for anything gets an error.
func TestBacklogOfAUserWithFewRights(t *testing.T) {
	t.Parallel()
	server := services.OwnRedis(t)
	letGo, _ := holding(t, open(t, asynq.Config{Redis: connect(t, server.URL), Lane: "mail"}), 1)
	defer letGo()
	if _, err := open(t, asynq.Config{Redis: connect(t, server.URL), Lane: "mail"}).Enqueue(t.Context(), messages(10, 2)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		rules []string
		ready bool
		word  string
	}{
		"no scripts":    {rules: []string{"-@scripting"}, ready: true},
		"no servers":    {rules: []string{"-get"}, ready: true},
		"no running":    {rules: []string{"-hvals", "-info"}, ready: true},
		"read only":     {rules: []string{"-@all", "+llen", "+ping"}, ready: true},
		"nothing":       {rules: []string{"-@all"}, word: "NOPERM"},
		"no such login": {word: "WRONGPASS"},
	} {
		user := strings.ReplaceAll(name, " ", "-")
		if c.rules != nil {
			allow(t, server, user, c.rules...)
		}
		b := open(t, asynq.Config{Redis: connect(t, as(server, user)), Lane: "mail"})
		got, err := b.Backlog(t.Context())
		if !c.ready {
			if err == nil || !strings.Contains(err.Error(), c.word) || got != (waybill.Backlog{}) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		if err != nil || got.Ready != waybill.Known(int64(2)) {
			t.Errorf("%s: %s ready, %v", name, got.Ready, err)
		}
		if unknown := (waybill.Reading[int64]{}); got.Consumers != unknown || got.Running != unknown {
			t.Errorf("%s: %s consumers, %s running, want both unknown", name, got.Consumers, got.Running)
		}
	}
}

const testPassword = "a-test-s-own"

// allow makes a user of the server, who may do everything but what the rules take away.
func allow(t *testing.T, server *services.Server, user string, rules ...string) {
	t.Helper()
	args := []any{"ACL", "SETUSER", user, "on", ">" + testPassword, "~*", "&*", "+@all"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	if err := connect(t, server.URL).Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}

func as(server *services.Server, user string) string {
	return "redis://" + user + ":" + testPassword + "@" + server.Addr + "/0"
}

// Asynq's Inspector takes no context: one that began before Redis hung has to end
// by the deadline too.
func TestBacklogWhenRedisHangsHalfWay(t *testing.T) {
	t.Parallel()
	url := "redis://" + miniredis.RunT(t).Addr()
	letGo, _ := holding(t, open(t, asynq.Config{Redis: connect(t, url), Lane: "mail"}), 1)
	defer letGo()
	if _, err := open(t, asynq.Config{Redis: connect(t, url), Lane: "mail"}).Enqueue(t.Context(), messages(10, 1)); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"hget", "evalsha", "get", "hvals"} {
		client := connect(t, url)
		b := open(t, asynq.Config{Redis: client, Lane: "mail"})
		backlogOf(t, b)
		client.AddHook(hanging{command})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if got, err := b.Backlog(ctx); err == nil || got != (waybill.Backlog{}) {
			t.Errorf("%s hangs: %+v, %v", command, got, err)
		}
	}
}

// hanging lets one command hang as long as its context allows.
type hanging struct{ command string }

func (h hanging) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h hanging) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (h hanging) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != h.command {
			return next(ctx, cmd)
		}
		<-ctx.Done()
		cmd.SetErr(ctx.Err())
		return ctx.Err()
	}
}

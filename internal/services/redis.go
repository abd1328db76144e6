package services

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Redis returns the URL of the shared server. Nothing on it belongs to one
// test, so a test there uses lanes named by [Unique], and never FLUSHALL.
func Redis(t testing.TB) string {
	t.Helper()
	return env(t, "WAYBILL_TEST_REDIS")
}

// Unique returns a lane name that no other test has: lower-case, and naming
// the test, so that what is found on a server tells where it came from. When
// the test ends, the Asynq queues of all lanes whose names begin with it are
// removed from the shared Redis, if there is one.
func Unique(t testing.TB) string {
	t.Helper()
	name := laneName(t.Name()) + "-" + random(5)
	if os.Getenv("WAYBILL_TEST_REDIS") != "" {
		t.Cleanup(func() { deleteQueues(t, name) })
	}
	return name
}

// laneName turns a test's name into a lane's: [a-z0-9]+([-_][a-z0-9]+)*.
func laneName(test string) string {
	words := strings.FieldsFunc(strings.ToLower(test), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	name := strings.Join(words, "-")
	if len(name) > 40 {
		name = strings.TrimRight(name[:40], "-")
	}
	if name == "" {
		return "test"
	}
	return name
}

func deleteQueues(t testing.TB, lane string) {
	t.Helper()
	options, err := redis.ParseURL(Redis(t))
	if err != nil {
		t.Fatalf("WAYBILL_TEST_REDIS: %v", err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	// A lane's queue is waybill-<lane>, and Asynq keeps it in keys of this
	// form, beside one set of all the queues there are.
	keys := client.Scan(ctx, 0, "asynq:{waybill-"+lane+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := client.Unlink(ctx, keys.Val()).Err(); err != nil {
			t.Fatalf("delete %s: %v", keys.Val(), err)
		}
	}
	queues := client.SScan(ctx, "asynq:queues", 0, "waybill-"+lane+"*", 1000).Iterator()
	for queues.Next(ctx) {
		if err := client.SRem(ctx, "asynq:queues", queues.Val()).Err(); err != nil {
			t.Fatalf("forget queue %s: %v", queues.Val(), err)
		}
	}
	if err := keys.Err(); err != nil {
		t.Fatalf("list the keys of lane %s: %v", lane, err)
	}
	if err := queues.Err(); err != nil {
		t.Fatalf("list the queues of lane %s: %v", lane, err)
	}
}

package wire

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/asynq"
)

const redisExamples = "redis://user:password@host:6379/0 or rediss://… for TLS"

type onRedis struct {
	client redis.UniversalClient
	config BackendConfig
	place  string
}

func openRedis(config BackendConfig) (Backend, error) {
	if _, err := parse(config.URL, redisExamples); err != nil {
		return nil, err
	}
	options, err := asynq.Options(config.URL)
	if err != nil {
		return nil, errUnreadable(redisExamples)
	}
	return &onRedis{client: redis.NewUniversalClient(options), config: config, place: options.Addrs[0]}, nil
}

func (b *onRedis) InProcess() bool { return false }

// Migrator returns none: Redis has no schema.
func (b *onRedis) Migrator() (waybill.Migrator, error) { return nil, nil }

func (b *onRedis) Queue(lane string) (Queue, error) {
	config := asynq.Config{Redis: b.client, Lane: lane, Logger: b.config.Logger}
	config.Drain = b.config.queueDrain()
	return asynq.New(config)
}

// Close loses nothing when it fails: every message is in Redis, or was not sent.
func (b *onRedis) Close() { _ = b.client.Close() }

func (b *onRedis) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	err := b.client.Ping(ctx).Err()
	switch {
	case err == nil:
		return nil
	case redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "AUTH"), redis.HasErrorPrefix(err, "NOPERM"),
		redis.HasErrorPrefix(err, "invalid password"), redis.HasErrorPrefix(err, "Client sent AUTH"):
		return hint(fmt.Sprintf("Redis at %s refuses the login: %s", b.place, hide(b.config.URL, err)), "correct user and password in the URL")
	case redis.HasErrorPrefix(err, "DB index"), redis.HasErrorPrefix(err, "invalid DB index"): // it leaves out ERR itself
		return hint(fmt.Sprintf("Redis at %s has no such database: %s", b.place, hide(b.config.URL, err)), "correct the number at the end of the URL")
	case redis.HasErrorPrefix(err, "LOADING"):
		return hint(fmt.Sprintf("Redis at %s is loading its data", b.place), "try again in a moment")
	}
	withTLS := strings.HasPrefix(b.config.URL, "rediss:")
	if withTLS && isTimeout(err) { // a Redis without TLS waits for the greeting's end, which never comes
		return hint(fmt.Sprintf("Redis at %s: no answer in time", b.place), "is it up, and does it speak TLS? redis:// is without")
	}
	if lost := unreachable("Redis", b.place, err); lost != nil {
		return lost
	}
	do := "is it a Redis, and does it want rediss://, which is with TLS?"
	if withTLS {
		do = "is it a Redis, and does it speak TLS? redis:// is without"
	}
	return hint(fmt.Sprintf("Redis at %s: %s", b.place, hide(b.config.URL, err)), do)
}

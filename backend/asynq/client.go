package asynq

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// errorPause is what a consumer waits after an error of Redis.
const errorPause = 250 * time.Millisecond

// handshakeTimeout bounds the start of a subscription.
const handshakeTimeout = 2 * time.Second

// consumerClient is the Redis client of Asynq's servers, with two of their traps
// closed.
type consumerClient struct {
	redis.UniversalClient
	stopping <-chan struct{}
	presence string
}

// EvalSha pauses after an error. Asynq asks again at once, so that a Redis which
// answers with errors (it is loading, or wants a password) would be asked
// thousands of times a second.
func (c *consumerClient) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	cmd := c.UniversalClient.EvalSha(ctx, sha, keys, args...)
	c.pauseAfter(cmd.Err())
	return cmd
}

// Eval pauses after an error, as EvalSha does.
func (c *consumerClient) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	cmd := c.UniversalClient.Eval(ctx, script, keys, args...)
	c.pauseAfter(cmd.Err())
	return cmd
}

func (c *consumerClient) pauseAfter(err error) {
	switch {
	case err == nil, errors.Is(err, redis.Nil), redis.HasErrorPrefix(err, "NOSCRIPT"), redis.HasErrorPrefix(err, "NOT FOUND"):
		return
	}
	timer := time.NewTimer(errorPause)
	defer timer.Stop()
	select {
	case <-c.stopping:
	case <-timer.C:
	}
}

// Subscribe returns a subscription whose first receive does not block. Asynq waits
// for the confirmation of its subscription without any limit, and its shutdown
// waits for that; and it never closes a subscription that was refused. So the
// confirmation is awaited here, within a limit, and a second one, of a channel
// that came in the same command, is left for Asynq to find. That channel is also how
// a Backlog counts the servers that are there.
func (c *consumerClient) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	subscription := c.UniversalClient.Subscribe(ctx, append(channels, c.presence)...)
	if _, err := subscription.ReceiveTimeout(ctx, handshakeTimeout); err != nil {
		subscription.Close() // a closed one fails at once, and Asynq tries again in 5 s
	}
	return subscription
}

package asynq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
)

// Backlog asks Redis itself, within Config.Timeout. Asynq's own Inspector says of a
// queue that Redis forgot, while messages flow through it, that there is none.
//
// Ready is exact. Oldest is the age of the message that is handed out next, between
// the clock of the relay that enqueued it and that of this process: it is off by
// what their hosts' clocks differ, and never below zero. It is unknown for a message
// that a worker put back when it stopped.
//
// Consumers adds up the slots that Asynq's servers on this queue publish every five
// seconds, those for Config.Prefetch among them; a worker that serves several lanes
// counts in each, as does a team's own server (see Handler) that serves other queues
// beside this one. One that died is counted for ten seconds more. It is unknown as
// long as Redis, flushed or just started, may have forgotten servers that live; where
// a team's own servers use another database of the same Redis, that may be for as long
// as no Consume runs on the queue.
//
// Running is what is out with consumers by Redis's account. It is unknown where that
// account contradicts the servers: more than they have slots for is left over from
// workers that died, and nothing, while they run some, was forgotten. What a dead
// worker held counts for up to two minutes, until Asynq files it away.
func (b *Backend) Backlog(ctx context.Context) (waybill.Backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, b.config.Timeout)
	defer cancel()
	backlog, err := b.backlog(ctx)
	if err != nil {
		return waybill.Backlog{}, fmt.Errorf("backlog of %s: %w", b.queue, err)
	}
	return backlog, nil
}

func (b *Backend) backlog(ctx context.Context) (backlog waybill.Backlog, err error) {
	pipe := b.config.Redis.Pipeline()
	pending, active := pipe.LLen(ctx, b.key("pending")), pipe.LLen(ctx, b.key("active"))
	next := pipe.LIndex(ctx, b.key("pending"), -1)
	subscribed := pipe.PubSubNumSub(ctx, b.presence(), everyServer)
	server := pipe.Info(ctx, "server")
	if err := execute(ctx, pipe); err != nil {
		return backlog, err
	}
	if err := pending.Err(); err != nil {
		return backlog, err // of what can be known this comes first
	}
	backlog.Ready = waybill.Known(pending.Val())
	if backlog.Oldest, err = b.waited(ctx, pending.Val(), next); err != nil {
		return backlog, err
	}
	servers, published, err := b.published(ctx)
	if err != nil {
		return backlog, err
	}
	backlog.Consumers = servers.consumers(b.look(ctx, subscribed, server, published))
	if active.Err() == nil {
		backlog.Running = servers.running(active.Val(), backlog.Consumers)
	}
	return backlog, nil
}

// execute runs a pipeline whose commands may be refused one by one: a user may lack
// the right to some, and those stay unknown. It returns an error if there was no
// answer.
func execute(ctx context.Context, pipe redis.Pipeliner) error {
	cmds, err := pipe.Exec(ctx)
	for _, cmd := range cmds {
		if lost := unanswered(cmd.Err()); lost != nil {
			return lost
		}
	}
	if slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return cmd.Err() != nil }) {
		return nil
	}
	return err // of a login that was refused: the commands are left blank
}

// unanswered returns the error unless it is an answer of Redis.
func unanswered(err error) error {
	var reply redis.Error
	if errors.As(err, &reply) {
		return nil
	}
	return err
}

// waited returns how long the next of the pending messages has waited.
func (b *Backend) waited(ctx context.Context, pending int64, next *redis.StringCmd) (oldest waybill.Reading[time.Duration], err error) {
	if pending == 0 {
		return waybill.Known(time.Duration(0)), nil
	}
	if next.Err() != nil {
		return oldest, nil
	}
	text, err := b.config.Redis.HGet(ctx, b.key("t:"+next.Val()), "pending_since").Result()
	if err != nil {
		return oldest, unanswered(err) // no such field: it was put back, or is gone by now
	}
	since, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return oldest, nil
	}
	return waybill.Known(max(0, time.Since(time.Unix(0, since)))), nil
}

// key returns the name of one of the keys in which Asynq keeps the queue.
func (b *Backend) key(name string) string { return "asynq:{" + b.queue + "}:" + name }

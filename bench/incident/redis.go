package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill/backend/asynq"
)

// Of the numbered databases of a Redis, the ones that a run may have. 0 is what
// everybody else uses.
const (
	firstRedis = 1
	lastRedis  = 15
)

// redisMark is the key by which a database is a run's own. Its value is until when, in
// Unix seconds: what is there after that was left behind by a run that was killed.
const (
	redisMark = "waybill-incident"
	redisTerm = time.Hour
)

// ownRedis is a numbered database that a run has to itself. To flush it is to that run
// what FLUSHALL is, and costs nobody else anything.
type ownRedis struct {
	url    string
	client *redis.Client
}

// claimRedis takes an empty database of the server.
func claimRedis(ctx context.Context, server string) (*ownRedis, error) {
	if _, err := asynq.Options(server); err != nil {
		return nil, err
	}
	own, err := url.Parse(server)
	if err != nil {
		return nil, asynq.ErrURL
	}
	for number := firstRedis; number <= lastRedis; number++ {
		own.Path = "/" + strconv.Itoa(number)
		options, err := redis.ParseURL(own.String())
		if err != nil {
			return nil, asynq.ErrURL // the error quotes the URL, password and all
		}
		r := &ownRedis{url: own.String(), client: redis.NewClient(options)}
		mine, err := r.claim(ctx)
		if mine {
			return r, nil
		}
		r.client.Close()
		if err != nil {
			return nil, fmt.Errorf("claim Redis database %d: %w", number, err)
		}
	}
	return nil, fmt.Errorf("none of the Redis databases %d to %d is empty", firstRedis, lastRedis)
}

func (r *ownRedis) claim(ctx context.Context) (bool, error) {
	until, err := r.client.Get(ctx, redisMark).Int64()
	switch {
	case err == nil && time.Now().Unix() > until:
		if err := r.client.FlushDB(ctx).Err(); err != nil {
			return false, err
		}
	case !errors.Is(err, redis.Nil):
		return false, err
	}
	size, err := r.client.DBSize(ctx).Result()
	if err != nil || size > 0 {
		return false, err
	}
	return r.client.SetNX(ctx, redisMark, deadline(), 0).Result()
}

func deadline() int64 { return time.Now().Add(redisTerm).Unix() }

// flush loses all that is in the database, but whose it is.
func (r *ownRedis) flush(ctx context.Context) error {
	_, err := r.client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.FlushDB(ctx)
		pipe.Set(ctx, redisMark, deadline(), 0)
		return nil
	})
	return err
}

func (r *ownRedis) end(ctx context.Context) error {
	return errors.Join(r.client.FlushDB(ctx).Err(), r.client.Close())
}

package demo

import (
	"context"
	"errors"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	rabbitmq "github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/backend/asynq"
)

// dropSchema drops a schema of PostgreSQL with all that is in it.
func dropSchema(ctx context.Context, rawURL, schema string) (err error) {
	config, err := pgxpool.ParseConfig(rawURL) // which knows the options of a pool, too
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
	return err
}

// deleteFromRedis deletes queues with all that Asynq keeps of them: tasks, states
// and its daily counts, all under one prefix, and their names in the set of queues.
func deleteFromRedis(ctx context.Context, rawURL string, queues []string) error {
	options, err := asynq.Options(rawURL)
	if err != nil {
		return err
	}
	client := redis.NewUniversalClient(options)
	defer client.Close()
	for _, queue := range queues {
		keys := client.Scan(ctx, 0, "asynq:{"+queue+"}:*", 1000).Iterator()
		for keys.Next(ctx) {
			if err := client.Unlink(ctx, keys.Val()).Err(); err != nil {
				return err
			}
		}
		if err := errors.Join(keys.Err(), client.SRem(ctx, "asynq:queues", queue).Err()); err != nil {
			return err
		}
	}
	return nil
}

// deleteFromRabbitMQ deletes queues with the messages in them, on the first node
// that answers.
func deleteFromRabbitMQ(ctx context.Context, rawURLs string, queues []string) error {
	config, err := rabbitmq.ParseURLs(rawURLs)
	if err != nil {
		return err
	}
	var errs []error
	for _, node := range config.URLs {
		err := deleteFromNode(ctx, node, queues)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// deleteFromNode closes the socket when ctx ends: the client library knows none.
func deleteFromNode(ctx context.Context, rawURL string, queues []string) (err error) {
	release := func() bool { return true }
	defer func() {
		if !release() {
			err = context.Cause(ctx)
		}
	}()
	conn, err := amqp091.DialConfig(rawURL, amqp091.Config{Dial: func(network, address string) (net.Conn, error) {
		socket, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			release = context.AfterFunc(ctx, func() { socket.Close() })
		}
		return socket, err
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	for _, queue := range queues {
		if _, err := channel.QueueDelete(queue, false, false, false); err != nil {
			return err
		}
	}
	return nil
}

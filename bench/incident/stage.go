package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	rabbit "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/store/postgres"
)

// cleanup bounds what has to be done when a run is over.
const cleanup = 30 * time.Second

// stage is a database and a queue that one run has to itself.
type stage struct {
	servers
	database string // its URL
	pool     *pgxpool.Pool
	at       address
	queue    *opened
	flush    func(context.Context) error // the queue loses all it has
	ends     []func(context.Context) error
}

// newStage makes a database and a queue on the servers. It has to be ended, also
// where it returns an error.
func newStage(ctx context.Context, servers servers, backend string) (*stage, error) {
	s := &stage{servers: servers}
	if err := s.makeDatabase(ctx); err != nil {
		return s, fmt.Errorf("make a database: %w", err)
	}
	if err := s.makeQueue(ctx, backend); err != nil {
		return s, fmt.Errorf("make a queue: %w", err)
	}
	queue, err := s.at.open(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return s, err
	}
	s.queue = queue
	s.ends = append(s.ends, func(context.Context) error { queue.close(); return nil })
	return s, nil
}

func (s *stage) makeDatabase(ctx context.Context) error {
	admin, err := pgx.ParseConfig(s.postgres)
	if err != nil {
		return errNoPostgres // the error quotes the URL, password and all
	}
	own, err := url.Parse(s.postgres)
	if err != nil {
		return errNoPostgres
	}
	name := "waybill_incident_" + random()
	if err := execAs(ctx, admin, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return err
	}
	s.ends = append(s.ends, func(ctx context.Context) error {
		return execAs(ctx, admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	})
	own.Path = "/" + name
	s.database = own.String()
	if s.pool, err = pgxpool.New(ctx, s.database); err != nil {
		return errNoPostgres
	}
	s.ends = append(s.ends, func(context.Context) error { s.pool.Close(); return nil })
	migrator, err := postgres.NewMigrator(s.pool, "")
	if err != nil {
		return err
	}
	_, err = migrator.Up(ctx)
	return err
}

func (s *stage) makeQueue(ctx context.Context, backend string) error {
	s.at = address{Backend: backend, Queue: "incident-" + random()}
	switch backend {
	case "asynq":
		own, err := claimRedis(ctx, s.redis)
		if err != nil {
			return err
		}
		s.at.URL, s.flush = own.url, own.flush
		s.ends = append(s.ends, own.end)
	case "amqp":
		s.at.URL = s.amqp
		s.ends = append(s.ends, func(context.Context) error { return s.deleteRabbitQueue() })
	case "river":
		s.at.URL, s.at.Queue = s.database, "river_"+random()
		migrator, err := river.NewMigrator(s.pool, s.at.Queue)
		if err != nil {
			return err
		}
		_, err = migrator.Up(ctx)
		return err
	}
	return nil
}

func (s *stage) deleteRabbitQueue() error {
	conn, err := rabbit.Dial(s.amqp)
	if err != nil {
		return errors.New("rabbitmq does not answer") // the error may quote the URL
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	_, err = channel.QueueDelete(s.at.Queue, false, false, false)
	return err
}

// end removes all of it, last things first, also after the run was interrupted.
func (s *stage) end() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanup)
	defer cancel()
	for i := len(s.ends) - 1; i >= 0; i-- {
		err = errors.Join(err, s.ends[i](ctx))
	}
	return err
}

func execAs(ctx context.Context, config *pgx.ConnConfig, sql string) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

func random() string {
	var b [5]byte
	rand.Read(b[:]) // never fails: it ends the process instead
	return hex.EncodeToString(b[:])
}

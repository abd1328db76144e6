package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/bench/own"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/postgres"
	"github.com/waybill-go/waybill/worker"
)

const (
	roleArgument = "incident-role"
	roleRelay    = role("relay")
	roleWorker   = role("worker")

	eventName   = "incident.fired"
	receiverKey = "incident.receiver"
	batch       = 100 // rows of a claim
	workers     = 2   // processes
)

// role is what this program does in a process of its own, if it does not direct.
type role string

// roleOf returns the role that a command line asks for.
func roleOf(args []string) (role, bool) {
	if len(args) != 3 || args[1] != roleArgument {
		return "", false
	}
	return role(args[2]), true
}

// part is what a process is told on its standard input. It works until that ends, so
// that none outlives the program that started it.
type part struct {
	Database string // URLs, with their passwords: they are on no command line
	Queue    address
	Window   bool
	Slots    int
	Service  time.Duration
	Lease    time.Duration
	Standard time.Duration
	Poll     time.Duration
	Horizon  time.Duration
	Margin   time.Duration
}

// main works as the process that it is, and returns its exit code.
func (r role) main() int {
	signal.Ignore(os.Interrupt) // of a terminal, which also reaches the one who ends this process
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := r.play(ctx, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "incident %s: %v\n", r, err)
		return 1
	}
	return 0
}

func (r role) play(ctx context.Context, in io.Reader, out io.Writer) error {
	var p part
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&p); err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		var more json.RawMessage
		_ = decoder.Decode(&more) // there is none: it is the end that is waited for
		stop()
	}()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	pool, err := pgxpool.New(ctx, p.Database)
	if err != nil {
		return own.ErrNoPostgres
	}
	defer pool.Close()
	store, err := postgres.New(postgres.Config{Pool: pool, Registry: registryOf(p.Lease, p.Service), Logger: log})
	if err != nil {
		return err
	}
	queue, err := p.Queue.open(ctx, log)
	if err != nil {
		return err
	}
	defer queue.close()
	counts := &counter{}
	told := counts.tell(out)
	defer told()
	switch r {
	case roleRelay:
		relay, err := relay.New(relay.Config{
			Store: store, Backend: queue, BatchSize: batch, Poll: p.Poll, StandardLease: p.Standard,
			WindowOff: !p.Window, WindowHorizon: p.Horizon, WindowMargin: p.Margin, Logger: log, Observer: counts.observe,
		})
		if err != nil {
			return err
		}
		return relay.Run(ctx)
	case roleWorker:
		worker, err := worker.New(worker.Config{
			Store: store, Backend: queue, Slots: p.Slots, Logger: log, Observer: counts.observe,
		})
		if err != nil {
			return err
		}
		return worker.Run(ctx)
	}
	return errors.New("no such role")
}

// registryOf declares the one receiver, whose run takes that long.
func registryOf(lease, service time.Duration) *waybill.Registry {
	reg := waybill.NewRegistry()
	reg.Add(waybill.Receiver{Key: receiverKey, Event: eventName, Options: waybill.Options{Lease: lease},
		Run: func(ctx context.Context, _ *waybill.Delivery) error {
			select {
			case <-time.After(service):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}})
	return reg
}

package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/worker"
)

// bridge is a relay and a worker on one queue, in this process.
type bridge struct {
	group *errgroup.Group
	stop  context.CancelFunc
	lost  atomic.Int64 // stale copies and lost runs: there should be none
}

// start runs a relay and a worker until stop. acked is told of each success.
func (b *bench) start(ctx context.Context, store store, queue queue, slots int, acked func()) (*bridge, error) {
	r, err := relay.New(relay.Config{Store: store, Backend: queue, BatchSize: batch, WindowOff: b.windowOff, Logger: b.log})
	if err != nil {
		return nil, err
	}
	br := &bridge{}
	w, err := worker.New(worker.Config{Store: store, Backend: queue, Slots: slots, Logger: b.log,
		Observer: func(seen waybill.Observation) {
			switch seen.Kind {
			case waybill.ObservedAck:
				acked()
			case waybill.ObservedRefusal, waybill.ObservedLost:
				br.lost.Add(1)
			}
		}})
	if err != nil {
		return nil, err
	}
	ctx, br.stop = context.WithCancel(ctx)
	br.group, ctx = errgroup.WithContext(ctx)
	br.group.Go(func() error { return r.Run(ctx) })
	br.group.Go(func() error { return w.Run(ctx) })
	return br, nil
}

func (br *bridge) end() error {
	br.stop()
	if err := br.group.Wait(); err != nil {
		return err
	}
	if n := br.lost.Load(); n > 0 {
		return fmt.Errorf("%d stale copies or lost runs, where there should be none", n)
	}
	return nil
}

// endToEnd takes n deliveries from fire to ack through the queue and returns
// deliveries a second.
func (b *bench) endToEnd(ctx context.Context, db database, queue queue, slots int) (float64, error) {
	if err := db.clear(ctx); err != nil {
		return 0, err
	}
	store, err := db.open(func(context.Context, *waybill.Delivery) error { return nil })
	if err != nil {
		return 0, err
	}
	var acks atomic.Int64
	done := make(chan struct{})
	br, err := b.start(ctx, store, queue, slots, func() {
		if acks.Add(1) == int64(b.deliveries) {
			close(done)
		}
	})
	if err != nil {
		return 0, err
	}
	started := time.Now()
	err = fire(ctx, store, b.deliveries)
	if err == nil {
		select {
		case <-done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	elapsed := time.Since(started)
	if ended := br.end(); err == nil {
		err = ended
	}
	if err != nil {
		return 0, err
	}
	return rate(b.deliveries, elapsed), b.settled(ctx, store)
}

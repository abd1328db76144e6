package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	sampleGap    = 250 * time.Millisecond
	depthTimeout = 2 * time.Second
	stopPatience = 40 * time.Second // a worker drains for 25 s at most
	never        = 5                // times as long as it takes at best, and it will not get done
)

// sample is the burst at one moment.
type sample struct {
	at      time.Time // by the database's clock
	Seconds float64   `json:"seconds"` // since the first hand-off
	Settled int       `json:"settled"`
	Depth   int       `json:"queue_depth"` // -1: the queue cannot tell
	HandOff int       `json:"handed_off"`
	Stale   int       `json:"stale_copies"`
	Size    int       `json:"window"`
	Waiting int       `json:"window_waiting"`
	Drain   float64   `json:"window_drain"`
	Stalled bool      `json:"stalled"`
}

// scene is one burst on one stage.
type scene struct {
	*stage
	incident
	window bool

	processes []*process // all that were ever started
	relaying  []*process
	working   []*process
	samples   []sample
	fault     time.Time // by the database's clock; zero: there was none
	healed    time.Time // when nothing was broken any more
}

// play has the burst happen and returns its ledger.
func play(ctx context.Context, servers servers, i incident, window bool) (l ledger, err error) {
	stage, err := newStage(ctx, servers, i.Backend)
	defer func() { err = errors.Join(err, stage.End()) }()
	if err != nil {
		return l, err
	}
	s := &scene{stage: stage, incident: i, window: window}
	defer s.killAll()
	if err := stage.fire(ctx, i.Rows); err != nil {
		return l, fmt.Errorf("fire %d rows: %w", i.Rows, err)
	}
	if err := s.happen(ctx); err != nil {
		return l, err
	}
	if err := s.endAll(); err != nil {
		return l, err
	}
	return s.account(ctx)
}

// happen starts workers and then relays, and returns when all is settled and the queue
// is empty.
func (s *scene) happen(ctx context.Context) error {
	if err := s.startWorkers(); err != nil {
		return err
	}
	for range s.relays() {
		relay, err := s.start(roleRelay, 0)
		if err != nil {
			return err
		}
		s.relaying = append(s.relaying, relay)
	}
	ideal := time.Duration(float64(s.Rows)/s.Rate*float64(time.Second)) + s.Lease + s.Outage
	ctx, cancel := context.WithTimeoutCause(ctx, never*ideal, errors.New("it does not get done"))
	defer cancel()
	ticker := time.NewTicker(sampleGap)
	defer ticker.Stop()
	for {
		now, err := s.sample(ctx)
		if err != nil {
			return err
		}
		if now.Settled == s.Rows && now.Depth <= 0 { // a copy that is left is a stale one: it counts
			return nil
		}
		if err := s.harm(ctx, now); err != nil {
			return fmt.Errorf("fault %s: %w", s.Fault, err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d rows are settled: %w", now.Settled, s.Rows, context.Cause(ctx))
		}
	}
}

// harm breaks what is to be broken as half of the rows are settled, and mends it when
// that is due.
func (s *scene) harm(ctx context.Context, now sample) error {
	switch {
	case s.Fault == faultNone:
	case s.fault.IsZero() && now.Settled >= s.Rows/2:
		s.fault, s.healed = now.at, now.at
		switch s.Fault {
		case faultWorkers:
			s.healed = time.Time{}
			for _, worker := range s.working {
				worker.kill()
			}
		case faultFlush:
			return s.flush(ctx)
		case faultRelay:
			s.relaying[0].kill()
		}
	case !s.fault.IsZero() && s.healed.IsZero() && now.at.Sub(s.fault) >= s.Outage:
		s.healed = now.at
		return s.startWorkers()
	}
	return nil
}

func (s *scene) startWorkers() error {
	s.working = nil
	for n := range workers {
		worker, err := s.start(roleWorker, (s.Slots+n)/workers)
		if err != nil {
			return err
		}
		s.working = append(s.working, worker)
	}
	return nil
}

func (s *scene) start(role role, slots int) (*process, error) {
	p, err := start(role, part{
		Database: s.database, Queue: s.at, Window: s.window, Slots: slots, Service: s.service(), Lease: s.Lease,
		Standard: s.standard(), Poll: s.Poll, Horizon: s.Horizon, Margin: s.Margin,
	})
	if err == nil {
		s.processes = append(s.processes, p)
	}
	return p, err
}

// counts are what all processes say they have done.
func (s *scene) counts() (all counts) {
	for _, p := range s.processes {
		all = all.and(p.said())
	}
	return all
}

func (s *scene) sample(ctx context.Context) (now sample, err error) {
	for _, p := range s.processes {
		if err := p.gone(); err != nil {
			return now, err
		}
	}
	if now.Settled, now.at, err = settled(ctx, s.pool); err != nil {
		return now, fmt.Errorf("count the settled rows: %w", err)
	}
	asking, cancel := context.WithTimeout(ctx, depthTimeout)
	defer cancel()
	depth, known, err := s.queue.depth(asking)
	if err != nil {
		return now, err
	}
	if now.Depth = depth; !known {
		now.Depth = -1
	}
	said := s.counts()
	now.HandOff, now.Stale = said.HandedOff, said.stale()
	now.Size, now.Waiting, now.Drain, now.Stalled = said.Window.Size, said.Window.Waiting, said.Window.Drain, said.Window.Stalled
	s.samples = append(s.samples, now)
	return now, nil
}

// endAll has all processes stop by themselves.
func (s *scene) endAll() (err error) {
	for _, p := range s.processes {
		p.input.Close()
	}
	for _, p := range s.processes {
		err = errors.Join(err, p.end(stopPatience))
	}
	return err
}

func (s *scene) killAll() {
	for _, p := range s.processes {
		p.kill()
	}
}

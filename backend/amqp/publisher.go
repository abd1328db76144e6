package amqp

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// recheckDelay is how long after a message was returned the queue is looked
	// for. A broker whose queue is declared again the moment it was deleted may
	// forget to tell the consumers, who then wait on the old one for good.
	recheckDelay = time.Second
	// recheckWait is how long after such a look the next is made.
	recheckWait = 5 * time.Second
)

// publisher is a session for sending. Its channel publishes and does nothing else.
type publisher struct {
	*session
	backend *Backend
	opened  time.Time
	channel *amqp.Channel
	returns chan amqp.Return // messages that no queue took; told before their confirms
	alarm   alarm
	recheck chan struct{} // the queue may be gone

	// spoilt: messages were given up that an alarm held. Their confirms may come
	// at any time, so that no other batch can be sent here. Guarded by the turn.
	spoilt bool
}

func (b *Backend) openPublisher(ctx context.Context) (*publisher, error) {
	s, err := b.dialer.dial(ctx, "publish")
	if err != nil {
		return nil, err
	}
	p := &publisher{
		session: s, backend: b, opened: time.Now(),
		returns: make(chan amqp.Return, batchSize), // there is room for all of a batch
		recheck: make(chan struct{}, 1),
	}
	p.alarm.clear()
	p.watchAlarm(s.conn.NotifyBlocked(make(chan amqp.Blocking, 8)))
	if err = b.topology.ensure(ctx, s); err == nil {
		err = s.call(ctx, rpcTimeout, "open a channel", p.prepare)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	p.watchEnd("channel", p.channel.NotifyClose(make(chan *amqp.Error, 1)))
	return p, nil
}

func (p *publisher) prepare() (err error) {
	if p.channel, err = p.conn.Channel(); err != nil {
		return err
	}
	p.channel.NotifyReturn(p.returns)
	return p.channel.Confirm(false)
}

func (p *publisher) watchAlarm(blockings <-chan amqp.Blocking) {
	p.watchers.Go(func() {
		for blocking := range blockings {
			if blocking.Active {
				p.backend.log.Warn("rabbitmq takes no messages", "reason", blocking.Reason)
				p.alarm.raise(blocking.Reason)
			} else {
				p.backend.log.Info("rabbitmq takes messages again")
				p.alarm.clear()
			}
		}
	})
}

// serve looks for the queue when a message was returned, until the session is dead.
func (p *publisher) serve(ctx context.Context) error {
	var last time.Time
	for {
		select {
		case <-p.dead:
			return p.cause
		case <-ctx.Done():
			return ctx.Err()
		case <-p.recheck:
		}
		select {
		case <-p.dead:
			return p.cause
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(recheckDelay, time.Until(last.Add(recheckWait)))):
		}
		last = time.Now()
		if err := p.backend.topology.ensure(ctx, p.session); err != nil && p.alive() {
			p.backend.log.Warn("the queue is gone", "error", err)
		}
	}
}

func (p *publisher) askForRecheck() {
	select {
	case p.recheck <- struct{}{}:
	default: // somebody has
	}
}

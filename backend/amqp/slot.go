package amqp

import (
	"context"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
)

const (
	firstPause = 500 * time.Millisecond // after the first error of a handler in a row
	lastPause  = 15 * time.Second
)

// slot is room for one handler call, and has a subscription while it is free. So
// there are never more calls than slots, whatever the broker delivers.
type slot struct {
	backend     *Backend
	subscribers *supervisor[*subscriber]
	channel     int // which one of a session's
	handle      waybill.Handler
	running     *atomic.Int64
	errors      int // of the handler, in a row
}

// run subscribes whenever there is a session and the slot is free, until ctx ends.
func (s *slot) run(ctx context.Context) {
	for {
		link, ok := s.subscribers.await(ctx)
		if !ok {
			return
		}
		subscription, err := link.subscribe(ctx, s.backend.queue, s.channel)
		if err == nil {
			s.receive(ctx, subscription)
		}
	}
}

// receive handles what a subscription brings, until it or ctx ends.
func (s *slot) receive(ctx context.Context, subscription *subscription) {
	for {
		select {
		case <-ctx.Done():
			subscription.cancel(cancelTimeout)
			return
		case d, ok := <-subscription.deliveries:
			if !ok {
				subscription.link.fail(errCancelled)
				return
			}
			subscription.link.idle.remove(subscription)
			if ctx.Err() != nil {
				subscription.cancel(cancelTimeout)
				_ = d.Nack(false, true)
				return
			}
			if !s.deliver(ctx, subscription, d) {
				return
			}
			subscription.link.idle.add(subscription)
		}
	}
}

// deliver hands one message over and settles it. It returns false if the
// subscription was ended meanwhile.
//
// An acknowledgement that cannot be sent is no matter: the message comes again,
// and is refused.
func (s *slot) deliver(ctx context.Context, subscription *subscription, d amqp.Delivery) bool {
	message, err := decode(d)
	if err != nil {
		s.backend.log.WarnContext(ctx, "dropped a message that is none of ours",
			"message_id", d.MessageId, "message_type", d.Type, "bytes", len(d.Body), "error", err)
		_ = d.Ack(false) // it would be none the next time either
		return true
	}
	done := make(chan error, 1)
	s.running.Add(1)
	go func() {
		defer s.running.Add(-1)
		done <- s.handle(ctx, message)
	}()
	ackCap := time.NewTimer(s.backend.config.AckCap)
	defer ackCap.Stop()
	stopping := ctx.Done()
	subscribed, settled := true, false
	for {
		select {
		case err := <-done:
			if err != nil {
				s.backend.log.DebugContext(ctx, "handling a message failed",
					"delivery_id", message.DeliveryID, "claimed_by", message.Claim.By,
					"claimed_at", message.Claim.At.String(), "error", err)
			}
			if !settled {
				s.settle(ctx, subscription, d, err)
			}
			return subscribed
		case <-stopping:
			stopping = nil
			if subscribed {
				subscription.cancel(cancelTimeout)
				subscribed = false
			}
		case <-ackCap.C:
			// The subscription goes first, so that no message comes to a slot
			// that is taken.
			if subscribed {
				subscription.cancel(rpcTimeout)
				subscribed = false
			}
			_ = d.Ack(false)
			settled = true
		}
	}
}

// settle acknowledges the message, or puts it back when its handler failed. Not at
// once, for it would come back as fast as it fails.
func (s *slot) settle(ctx context.Context, subscription *subscription, d amqp.Delivery, err error) {
	if err == nil {
		s.errors = 0
		_ = d.Ack(false)
		return
	}
	pause := lastPause
	if s.errors < 5 {
		pause = firstPause << s.errors
	}
	s.errors++
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-subscription.link.dead:
	}
	_ = d.Nack(false, true)
}

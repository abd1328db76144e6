package amqp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
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

// alarm is whether the broker takes messages.
type alarm struct {
	mu     sync.Mutex
	reason string
	raised chan struct{} // closed while the broker takes none
}

func (a *alarm) raise(reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.raised:
	default:
		close(a.raised)
	}
	a.reason = reason
}

func (a *alarm) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raised = make(chan struct{})
}

// state returns a channel that is closed while the alarm lasts, and an error then.
func (a *alarm) state() (<-chan struct{}, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.raised:
		return a.raised, fmt.Errorf("%w: %s", ErrBlocked, a.reason)
	default:
		return a.raised, nil
	}
}

// sending is one message on its way.
type sending struct {
	id      string // comes back with a message that is returned
	confirm *amqp.DeferredConfirmation
	result  *waybill.Result
}

// publish sends up to batchSize messages and waits for the broker's word on them.
// Its error is the queue's, not that of a message. Of what it did not send, the
// results are left as they were.
func (p *publisher) publish(ctx context.Context, messages []waybill.Message, results []waybill.Result) error {
	timeout := p.backend.config.ConfirmTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no confirms in %s: %w", timeout, context.DeadlineExceeded))
	defer cancel()
	// It frees a write that the peer does not take, and every wait for a confirm.
	// And a confirm that is given up could never be told from the next.
	release := context.AfterFunc(ctx, func() {
		p.abandon(fmt.Errorf("publish to %s: %w", p.place, context.Cause(ctx)))
	})
	defer release()
	p.drainReturns()
	sendings, err := p.send(messages, results)
	blocked := p.await(sendings)
	refused := p.settle(sendings, blocked)
	switch {
	case blocked != nil:
		return blocked
	case err != nil:
		return err
	case !p.alive():
		return p.cause
	default:
		return refused
	}
}

// send publishes until the first trouble.
func (p *publisher) send(messages []waybill.Message, results []waybill.Result) ([]*sending, error) {
	sendings := make([]*sending, 0, len(messages))
	for i, message := range messages {
		if _, err := p.alarm.state(); err != nil {
			return sendings, err
		}
		publishing, err := p.backend.publishing(message)
		if err != nil {
			results[i] = waybill.Result{Status: waybill.EnqueueRefused, Err: err}
			continue
		}
		// To the nameless exchange, which nobody has to declare and nobody can
		// delete; mandatory, or a queue that is missing would be no trouble.
		confirm, err := p.channel.PublishWithDeferredConfirm("", p.backend.queue, true, false, publishing)
		if err != nil {
			err = fmt.Errorf("publish to %s: %w", p.place, err)
			if !errors.Is(err, amqp.ErrClosed) { // of that, nothing was written
				results[i] = waybill.Result{Status: waybill.EnqueueUnknown, Err: err}
			}
			p.fail(err)
			return sendings, err
		}
		sendings = append(sendings, &sending{publishing.MessageId, confirm, &results[i]})
	}
	return sendings, nil
}

func (b *Backend) publishing(message waybill.Message) (amqp.Publishing, error) {
	// JSON would put another character there, and the claim would match nothing.
	if !utf8.ValidString(message.Claim.By) {
		return amqp.Publishing{}, fmt.Errorf("delivery %d: claimed_by is not valid UTF-8", message.DeliveryID)
	}
	body, err := message.MarshalJSON()
	if err != nil {
		return amqp.Publishing{}, err
	}
	publishing := amqp.Publishing{
		ContentType:  "application/json",
		DeliveryMode: amqp.Persistent,
		Type:         waybill.MessageKind,
		MessageId:    strconv.FormatInt(message.DeliveryID, 10) + "/" + message.Claim.At.String(),
		Timestamp:    time.Now(),
		Body:         body,
	}
	if b.config.Expiration > 0 {
		publishing.Expiration = strconv.FormatInt(b.config.Expiration.Milliseconds(), 10)
	}
	return publishing, nil
}

// await waits for the confirms: for all, or until the session is dead, or until an
// alarm is raised, which it returns. Nothing is confirmed as long as that lasts.
func (p *publisher) await(sendings []*sending) error {
	raised, _ := p.alarm.state()
	for _, s := range sendings {
		select {
		case <-s.confirm.Done():
			continue
		default:
		}
		select {
		case <-s.confirm.Done():
		case <-p.dead:
			return nil
		case <-raised:
			if _, err := p.alarm.state(); err != nil {
				return err
			}
			return ErrBlocked // and it is over again
		}
	}
	return nil
}

// errNacked is why a message was refused, and all of a batch.
var errNacked = errors.New("the broker refuses it: the queue is full, or cannot store it now")

// settle says what became of each message, once the wait is over. It returns an
// error if the queue took none.
func (p *publisher) settle(sendings []*sending, blocked error) error {
	var refused error
	accepted := 0
	// What the broker has said comes first, and whether the channel was closed
	// after: its end counts as a no to every message that was open.
	open := make([]bool, len(sendings))
	for i, s := range sendings {
		select {
		case <-s.confirm.Done():
		default:
			open[i] = true
		}
	}
	closed := p.channel.IsClosed()
	if closed {
		<-p.dead // it is about to be told
	}
	returned := p.drainReturns()
	for i, s := range sendings {
		reply, isReturned := returned[s.id]
		switch {
		case isReturned:
			err := fmt.Errorf("the broker returned it: %d %s", reply.ReplyCode, reply.ReplyText)
			*s.result = waybill.Result{Status: waybill.EnqueueRefused, Err: err}
			refused = fmt.Errorf("queue %s does not exist: %w", p.backend.queue, err)
		case open[i] && blocked != nil:
			p.spoilt = true
			*s.result = waybill.Result{Status: waybill.EnqueueUnknown, Err: blocked}
		case open[i] || !s.confirm.Acked() && closed:
			*s.result = waybill.Result{Status: waybill.EnqueueUnknown, Err: p.cause}
		case !s.confirm.Acked():
			*s.result = waybill.Result{Status: waybill.EnqueueRefused, Err: errNacked}
			refused = errNacked
		default:
			*s.result = waybill.Result{Status: waybill.EnqueueAccepted}
			accepted++
		}
	}
	if len(returned) > 0 {
		select {
		case p.recheck <- struct{}{}:
		default: // it is asked for
		}
	}
	if accepted > 0 && len(returned) == 0 {
		return nil
	}
	return refused
}

func (p *publisher) drainReturns() map[string]amqp.Return {
	var returned map[string]amqp.Return
	for {
		select {
		case reply, ok := <-p.returns:
			if !ok {
				return returned
			}
			if returned == nil {
				returned = make(map[string]amqp.Return)
			}
			returned[reply.MessageId] = reply
		default:
			return returned
		}
	}
}

package amqp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
)

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
		if errors.Is(err, amqp.ErrClosed) { // nothing of it was written
			<-p.dead // it is about to be told, and why
			return sendings, p.cause
		}
		if err != nil {
			err = fmt.Errorf("publish to %s: %w", p.place, err)
			results[i] = waybill.Result{Status: waybill.EnqueueUnknown, Err: err}
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

// Why the broker refuses a message, and all of a batch.
var (
	errReturned = errors.New("the broker returned it: the queue does not exist")
	errNacked   = errors.New("the broker refuses it: the queue is full, or cannot store it now")
)

// settle says what became of each message, once the wait is over. It returns an
// error if the queue is gone, or took none.
func (p *publisher) settle(sendings []*sending, blocked error) error {
	// What the broker has said comes first, and whether the channel was closed
	// after: its end counts as a no to every message that was open.
	answered := make([]bool, len(sendings))
	for i, s := range sendings {
		select {
		case <-s.confirm.Done():
			answered[i] = true
		default:
		}
	}
	closed := p.channel.IsClosed()
	if closed {
		<-p.dead // it is about to be told
	}
	returned := p.drainReturns()
	accepted := false
	var refused error
	for i, s := range sendings {
		reply, isReturned := returned[s.id]
		status, err := waybill.EnqueueAccepted, error(nil)
		switch {
		case isReturned:
			status, err = waybill.EnqueueRefused, fmt.Errorf("%w: %d %s", errReturned, reply.ReplyCode, reply.ReplyText)
			refused = err
		case s.confirm.Acked() && answered[i]:
			accepted = true
		case answered[i] && !closed:
			status, err = waybill.EnqueueRefused, errNacked
			refused = err
		case blocked != nil:
			status, err = waybill.EnqueueUnknown, blocked
			p.spoilt = true
		default:
			status, err = waybill.EnqueueUnknown, p.cause
		}
		*s.result = waybill.Result{Status: status, Err: err}
	}
	if len(returned) > 0 {
		p.askForRecheck()
		return refused
	}
	if accepted {
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

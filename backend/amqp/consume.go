package amqp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
)

const (
	// slotsPerChannel keeps what one channel has to carry small.
	slotsPerChannel = 200
	// cancelTimeout bounds the wait for the broker when Consume is to end.
	cancelTimeout = 3 * time.Second
)

// Consume subscribes once for each of its slots, hands each message to handle, with
// ctx, and acknowledges it when handle returns, until ctx ends. A slot has one
// message at a time, so nothing waits here that another worker could have.
//
// When handle returns an error, the message goes back to the queue after a pause,
// which grows with each error in a row: 0.5 s up to 15 s. A run that is longer than
// Config.AckCap has its message acknowledged then, so a crash after that is mended
// by the row's lease alone.
//
// A broker that cannot be reached is waited for, and calls that run do not notice.
// Their messages come again, to be refused by the row. If calls still run when
// Config.Drain is over, Consume leaves them behind and returns an error.
func (b *Backend) Consume(ctx context.Context, concurrency int, handle waybill.Handler) error {
	if concurrency < 1 {
		return fmt.Errorf("consume %s: concurrency %d is not positive", b.queue, concurrency)
	}
	if ctx.Err() != nil {
		return nil
	}
	subscribers := newSupervisor(func(ctx context.Context) (*subscriber, error) {
		return b.openSubscriber(ctx, concurrency)
	}, b.log.With("connection", "consume"))
	defer subscribers.stop()

	var slots sync.WaitGroup
	var running atomic.Int64
	for i := range concurrency {
		s := &slot{backend: b, subscribers: subscribers, channel: i / slotsPerChannel, handle: handle, running: &running}
		slots.Go(func() { s.run(ctx) })
	}
	<-ctx.Done()
	if !waitFor(&slots, b.config.Drain) {
		return fmt.Errorf("consume %s: %d handler calls still ran %s after the end was asked for", b.queue, running.Load(), b.config.Drain)
	}
	return nil
}

// waitFor returns whether the group has ended in time.
func waitFor(group *sync.WaitGroup, limit time.Duration) bool {
	ended := make(chan struct{})
	go func() {
		group.Wait()
		close(ended)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}

// subscriber is a session for receiving.
type subscriber struct {
	*session
	ready    func(ctx context.Context) (messages int, err error)
	channels []*channel
	idle     idle
}

// channel is one that several slots share. Acknowledgements may go side by side,
// but what is answered has to be asked one by one: the library takes the next
// answer for its own.
type channel struct {
	*amqp.Channel
	rpc sync.Mutex
}

func (b *Backend) openSubscriber(ctx context.Context, slots int) (*subscriber, error) {
	s, err := b.dialer.dial(ctx, "consume")
	if err != nil {
		return nil, err
	}
	l := &subscriber{session: s, ready: func(ctx context.Context) (int, error) {
		queue, err := b.topology.look(ctx, s)
		return queue.Messages, err
	}}
	err = b.topology.ensure(ctx, s)
	for n := 0; n < slots && err == nil; n += slotsPerChannel {
		err = s.call(ctx, rpcTimeout, "open a channel", l.addChannel)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return l, nil
}

func (l *subscriber) addChannel() error {
	c, err := l.conn.Channel()
	if err != nil {
		return err
	}
	l.watchEnd("channel", c.NotifyClose(make(chan *amqp.Error, 1)))
	// Room for all: the library waits for a full channel, and stops reading.
	l.watchCancel(c.NotifyCancel(make(chan string, 2*slotsPerChannel)))
	l.channels = append(l.channels, &channel{Channel: c})
	return c.Qos(1, 0, false)
}

// watchCancel fails the session when the broker ends a subscription, as it does
// when the queue is deleted: the next session declares it again.
func (l *subscriber) watchCancel(cancelled <-chan string) {
	l.watchers.Go(func() {
		for range cancelled {
			l.fail(errCancelled)
		}
	})
}

var errCancelled = errors.New("the broker ended a subscription: was the queue deleted?")

// subscription is one slot's consumer.
type subscription struct {
	link       *subscriber
	channel    *channel
	tag        string
	deliveries <-chan amqp.Delivery
}

// tags counts subscriptions: no two have the same tag, since a broker may end the
// connection over one that comes again.
var tags atomic.Uint64

func (l *subscriber) subscribe(ctx context.Context, queue string, index int) (*subscription, error) {
	s := &subscription{link: l, channel: l.channels[index], tag: "waybill-" + strconv.FormatUint(tags.Add(1), 10)}
	s.channel.rpc.Lock()
	defer s.channel.rpc.Unlock()
	if !l.alive() {
		return nil, l.cause
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	// Its end must not end the session at once: others acknowledge on it.
	asking, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(cancelTimeout, giveUp) })()
	err := l.call(asking, rpcTimeout, "subscribe", func() (err error) {
		s.deliveries, err = s.channel.Consume(queue, s.tag, false, false, false, false, nil)
		return err
	})
	if err != nil {
		l.fail(err)
		return nil, err
	}
	l.idle.add(s)
	return s, nil
}

// cancel ends the subscription and puts back what came and was not handed over.
func (s *subscription) cancel(timeout time.Duration) {
	s.link.idle.remove(s)
	if !s.askCancel(timeout) {
		return // what came is the broker's again
	}
	for d := range s.deliveries {
		_ = d.Nack(false, true)
	}
}

func (s *subscription) askCancel(timeout time.Duration) bool {
	s.channel.rpc.Lock()
	defer s.channel.rpc.Unlock()
	if !s.link.alive() {
		return false
	}
	err := s.link.call(context.Background(), timeout, "cancel a subscription", func() error {
		return s.channel.Cancel(s.tag, false)
	})
	if err != nil {
		s.link.fail(err)
	}
	return err == nil
}

func decode(d amqp.Delivery) (message waybill.Message, err error) {
	if d.Type != waybill.MessageKind {
		return message, fmt.Errorf("want a message of type %s", waybill.MessageKind)
	}
	err = json.Unmarshal(d.Body, &message)
	return message, err
}

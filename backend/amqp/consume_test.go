package amqp_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
)

// The connection is lost while every slot is busy: the calls go on, what comes again
// waits for a free slot, and acknowledging on the lost connection harms nothing.
func TestConsumeCutWhileCallsRun(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, kind string) {
		const slots = 3
		brokerURL := services.RabbitMQ(t)
		proxy, through := proxied(t, brokerURL)
		logger, log := logtest.New()
		b := open(t, amqp.Config{URLs: []string{through}, Lane: lane, Type: kind, Logger: logger})
		sender := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Type: kind})
		enqueue(t, sender, messages(1, 12))
		h := handled{gate: make(chan struct{})}
		end := consuming(t, b, slots, h.handle)
		poll.Until(t, "every slot is busy", func() bool { return h.running.Load() == slots })
		proxy.Cut()
		direct := connect(t, brokerURL)
		poll.Until(t, "the broker has the messages back", func() bool {
			ready, consumers := inQueue(t, direct, queue)
			return ready == 12 && consumers == 0
		})
		proxy.Restore()
		poll.Until(t, "it is connected again", func() bool { return len(log.Lines("connected to rabbitmq again")) == 1 })
		lost := len(log.Lines("no connection to rabbitmq"))
		if _, consumers := inQueue(t, direct, queue); consumers != 0 {
			t.Errorf("%d busy slots consume", consumers)
		}
		close(h.gate)
		poll.Until(t, "every message came", func() bool { return h.different() == 12 })
		poll.Until(t, "every message is done", func() bool {
			ready, consumers := inQueue(t, direct, queue)
			return ready == 0 && consumers == slots
		})
		if most := h.most.Load(); most > slots {
			t.Errorf("%d calls at a time in %d slots", most, slots)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		log.Want(t, lost, "no connection to rabbitmq") // by the cut, and not again
	})
}

// The broker closes the consuming connection of a worker.
func TestConsumeConnectionClosedByBroker(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	broker := services.BrokerOf(t, brokerURL)
	b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane})
	var h handled
	consuming(t, b, 4, h.handle)
	enqueue(t, b, messages(1, 50))
	poll.Until(t, "the connection is closed", func() bool { return broker.CloseConnections(" consume") == 1 })
	enqueue(t, b, messages(51, 50))
	poll.Until(t, "every message came", func() bool { return h.different() == 100 })
}

// A queue that is deleted under its consumers is declared again and consumed.
func TestConsumeQueueDeleted(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, kind string) {
		const slots = 64 // each of which is told
		brokerURL := services.RabbitMQ(t)
		b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Type: kind})
		var h handled
		held := handled{gate: make(chan struct{})}
		release := sync.OnceFunc(func() { close(held.gate) })
		end := consuming(t, b, slots, func(ctx context.Context, m waybill.Message) error {
			if m.DeliveryID == 1 {
				return held.handle(ctx, m)
			}
			return h.handle(ctx, m)
		})
		t.Cleanup(release)
		enqueue(t, b, messages(1, 1))
		poll.Until(t, "a call runs", func() bool { return held.running.Load() == 1 })
		direct := connect(t, brokerURL)
		poll.Until(t, "every slot consumes", func() bool {
			_, consumers := inQueue(t, direct, queue)
			return consumers == slots
		})
		if _, err := direct.QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
		recovered(t, b, messages(10, 20))
		h.all(t, b, messages(10, 20))
		poll.Until(t, "the free slots consume", func() bool {
			_, consumers := inQueue(t, direct, queue)
			return consumers == slots-1
		})
		release()
		poll.Until(t, "every slot consumes", func() bool {
			_, consumers := inQueue(t, direct, queue)
			return consumers == slots
		})
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

// A queue that is deleted and declared again at once: the broker may say nothing of
// it to the consumers of the old one.
func TestConsumeQueueReplaced(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, kind string) {
		const slots = 8
		brokerURL := services.RabbitMQ(t)
		b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Type: kind})
		var h handled
		consuming(t, b, slots, h.handle)
		direct := connect(t, brokerURL)
		poll.Until(t, "every slot consumes", func() bool {
			if b.Check(t.Context()) != nil {
				return false
			}
			_, consumers := inQueue(t, direct, queue)
			return consumers == slots
		})
		if _, err := direct.QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
		if _, err := direct.QueueDeclare(queue, true, false, false, false, amqp091.Table{"x-queue-type": kind}); err != nil {
			t.Fatal(err)
		}
		h.all(t, b, messages(1, 20))
		poll.Until(t, "every message is done, every slot free", func() bool {
			ready, consumers := inQueue(t, direct, queue)
			return ready == 0 && consumers == slots
		})
	})
}

// Runs beyond the cap are acknowledged and go on. Their slots take nothing until
// they end, and nothing is parked: whatever is not being handled is in the queue.
func TestConsumeAckCap(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, kind string) {
		const slots, capped = 8, 200
		brokerURL := services.RabbitMQ(t)
		logger, log := logtest.New()
		b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Type: kind, AckCap: 20 * time.Millisecond, Logger: logger})
		enqueue(t, b, messages(1, 2*capped))
		var h handled
		end := consuming(t, b, slots, func(ctx context.Context, m waybill.Message) error {
			if m.DeliveryID%2 == 0 {
				time.Sleep(40 * time.Millisecond)
			}
			return h.handle(ctx, m)
		})
		poll.Until(t, "every message came", func() bool { return h.different() == 2*capped })
		direct := connect(t, brokerURL)
		poll.Until(t, "every message is done, every slot free", func() bool {
			ready, consumers := inQueue(t, direct, queue)
			return ready == 0 && consumers == slots
		})
		if err := end(); err != nil {
			t.Error(err)
		}
		for id, n := range h.came {
			if n != 1 {
				t.Errorf("message %d came %d times", id, n)
			}
		}
		log.Want(t, 0, "no connection to rabbitmq")
		log.Want(t, 0, "level=WARN")
	})
}

// A call that outlives the cap holds no message: its end and the consumer's find
// nothing to settle, and its slot is not counted.
func TestConsumeAckCapHoldsNothing(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Type: "classic", AckCap: 50 * time.Millisecond})
	h := handled{gate: make(chan struct{})}
	end := consuming(t, b, 2, h.handle)
	enqueue(t, b, messages(1, 3))
	direct := connect(t, brokerURL)
	poll.Until(t, "both are acknowledged, and the third waits", func() bool {
		ready, consumers := inQueue(t, direct, queue)
		return ready == 1 && consumers == 0
	})
	if n := h.running.Load(); n != 2 {
		t.Errorf("%d calls run, want 2", n)
	}
	time.AfterFunc(50*time.Millisecond, func() { close(h.gate) })
	if err := end(); err != nil {
		t.Error(err)
	}
	if ready, _ := inQueue(t, direct, queue); ready+h.different() != 3 {
		t.Errorf("%d messages in the queue and %d came, of 3", ready, h.different())
	}
}

// A handler that fails gets the message again, but not as fast as it fails.
func TestConsumeDoesNotSpinOnErrors(t *testing.T) {
	t.Parallel()
	b := open(t, amqp.Config{URLs: []string{services.RabbitMQ(t)}, Lane: lane})
	var calls atomic.Int64
	end := consuming(t, b, 1, func(context.Context, waybill.Message) error {
		calls.Add(1)
		return context.DeadlineExceeded
	})
	enqueue(t, b, messages(1, 1))
	poll.Until(t, "the message came again", func() bool { return calls.Load() == 2 })
	if err := end(); err != nil { // in the midst of a pause
		t.Error(err)
	}
	if n := calls.Load(); n > 3 {
		t.Errorf("%d calls", n)
	}
	var h handled
	consuming(t, b, 1, h.handle)
	poll.Until(t, "another consumer gets it", func() bool { return h.different() == 1 })
}

// A handler that does not return cannot hold Consume for ever.
func TestConsumeLeavesStuckHandlerBehind(t *testing.T) {
	t.Parallel()
	b := open(t, amqp.Config{URLs: []string{services.RabbitMQ(t)}, Lane: lane, Drain: 100 * time.Millisecond})
	h := handled{gate: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Consume(ctx, 2, h.handle) }()
	enqueue(t, b, messages(1, 1))
	poll.Until(t, "the message is handled", func() bool { return h.running.Load() == 1 })
	cancel()
	select {
	case err := <-done:
		wantError(t, err, "1 handler calls still ran")
	case <-time.After(time.Minute):
		t.Error("consume did not end")
	}
	close(h.gate)
	poll.Until(t, "the call returned", func() bool { return h.running.Load() == 0 })
}

// A broker that does not answer a slot that subscribes cannot hold Consume for long.
func TestConsumeEndsThoughSubscribingHangs(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	proxy, through := proxied(t, brokerURL)
	b := open(t, amqp.Config{URLs: []string{through}, Lane: lane, Type: "classic"})
	watcher := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Type: "classic"})
	end := consuming(t, b, 1000, new(handled).handle)
	poll.Until(t, "the first slots consume", func() bool {
		backlog, err := watcher.Backlog(t.Context())
		n, _ := backlog.Consumers.Value()
		return err == nil && n > 0
	})
	proxy.Hold()
	begun := time.Now()
	if err := end(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 8*time.Second {
		t.Errorf("the end took %v", took)
	}
}

// What is none of ours is dropped, whatever else is in it.
func TestConsumeDropsOtherTypes(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	logger, log := logtest.New()
	b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Logger: logger})
	enqueue(t, b, messages(1, 1))
	body := []byte(`{"delivery_id":2,"claimed_by":"a","claimed_at":"2026-11-30T09:00:00.000001Z"}`)
	if err := connect(t, brokerURL).Publish("", queue, true, false, amqp091.Publishing{Type: "mail.send", Body: body}); err != nil {
		t.Fatal(err)
	}
	enqueue(t, b, messages(3, 1))
	var h handled
	consuming(t, b, 1, h.handle)
	poll.Until(t, "the messages came", func() bool { return h.different() == 2 && len(log.Lines("none of ours")) > 0 })
	log.Want(t, 1, "level=WARN", "none of ours", "mail.send")
	if strings.Contains(strings.Join(log.Lines(), ""), "claimed_at\":") {
		t.Error("a body is in the log")
	}
}

// More slots than one channel is to carry.
func TestConsumeManySlots(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Type: "classic"})
	h := handled{gate: make(chan struct{})}
	consuming(t, b, 450, h.handle)
	enqueue(t, b, messages(1, 500))
	poll.Until(t, "every slot is busy", func() bool { return h.running.Load() == 450 })
	close(h.gate)
	poll.Until(t, "every message came", func() bool { return h.different() == 500 })
	if most := h.most.Load(); most != 450 {
		t.Errorf("%d calls at a time, want 450", most)
	}
}

package amqp_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
)

// What cannot be done to a broker that others use. One node for all of it.
func TestOnNodeOfItsOwn(t *testing.T) {
	t.Parallel()
	node := services.OwnRabbitMQ(t)
	t.Run("disk alarm", func(t *testing.T) { diskAlarm(t, node) })
	t.Run("consumer timeout", func(t *testing.T) { consumerTimeout(t, node) })
	t.Run("killed under load", func(t *testing.T) { restarted(t, node, "classic", node.Kill) })
}

// A broker that is short of disk says so with the first message it gets. From then
// on nothing is sent, consumers go on, and everything can be closed.
func diskAlarm(t *testing.T, node *services.RabbitMQNode) {
	config := amqp.Config{URLs: []string{node.URL}, Lane: "alarm"}
	b, blockedFromBirth := open(t, config), open(t, config)
	var h handled
	end := consuming(t, b, 2, h.handle)
	recovered(t, b, messages(1, 50))
	poll.Until(t, "every message came", func() bool { return h.different() == 50 })

	node.Eval(`rabbit_disk_monitor:set_disk_free_limit("900GB")`)
	calm := false
	defer func() {
		if !calm {
			node.Eval(`rabbit_disk_monitor:set_disk_free_limit("50MB")`)
		}
	}()
	unknown := make(map[int64]bool)
	for name, b := range map[string]*amqp.Backend{"connected before": b, "connected during the alarm": blockedFromBirth} {
		begun := time.Now()
		batch := messages(100, 300)
		results, err := b.Enqueue(t.Context(), batch)
		if !errors.Is(err, amqp.ErrBlocked) {
			t.Errorf("%s: error %v, want ErrBlocked", name, err)
		}
		counts := wantStatuses(t, results, 300, waybill.EnqueueUnknown, waybill.EnqueueNotSent, waybill.EnqueueAccepted)
		if counts[waybill.EnqueueNotSent] == 0 {
			t.Errorf("%s: results %v, and an alarm was raised meanwhile", name, counts)
		}
		for i, result := range results {
			if result.Status == waybill.EnqueueUnknown {
				unknown[batch[i].DeliveryID] = true
			}
		}
		results, err = b.Enqueue(t.Context(), messages(400, 300))
		if !errors.Is(err, amqp.ErrBlocked) {
			t.Errorf("%s, again: error %v, want ErrBlocked", name, err)
		}
		wantStatuses(t, results, 300, waybill.EnqueueNotSent)
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
	}
	// Consuming and looking go on, and a blocked publisher can be closed.
	if _, err := b.Backlog(t.Context()); err != nil {
		t.Errorf("backlog: %v", err)
	}
	begun := time.Now()
	if err := blockedFromBirth.Close(); err != nil {
		t.Error(err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("closing took %v", took)
	}

	node.Eval(`rabbit_disk_monitor:set_disk_free_limit("50MB")`)
	calm = true
	recovered(t, b, messages(400, 300))
	var after handled
	consuming(t, b, 16, after.handle)
	poll.Until(t, "what was sent came", func() bool { return after.different() >= 300 })
	after.mu.Lock()
	defer after.mu.Unlock()
	for id := range after.came {
		if id < 400 && !unknown[id] {
			t.Errorf("message %d came, which was said not to have been sent", id)
		}
	}
}

// A broker that takes a message back from a run that is too long for it: the run
// goes on, and with a cap below that it is never taken back.
func consumerTimeout(t *testing.T, node *services.RabbitMQNode) {
	// Until the node is started again.
	node.Eval("application:set_env(rabbit,consumer_timeout,2000), application:set_env(rabbit,channel_tick_interval,500)")
	capped := longRun(t, node, "capped", 200*time.Millisecond)
	direct := connect(t, node.URL)
	poll.Until(t, "the cap is over", func() bool {
		_, consumers := inQueue(t, direct, "waybill-capped")
		return consumers == 0
	})
	uncapped := longRun(t, node, "uncapped", 0) // whose message is the younger of the two
	poll.Until(t, "the broker takes it back", func() bool { return len(uncapped.log.Lines("connection=consume", "406", "timed out")) > 0 })
	time.Sleep(time.Second) // the broker looks twice at the other channel
	capped.log.Want(t, capped.lost, "connection=consume", "no connection")
	for _, run := range []*run{capped, uncapped} {
		if n := run.running.Load(); n != 1 {
			t.Errorf("%d calls run, want the one", n)
		}
		close(run.gate)
		poll.Until(t, "both messages came", func() bool { return run.different() == 2 })
		if most := run.most.Load(); most != 1 {
			t.Errorf("%d calls at a time in one slot", most)
		}
	}
}

// run is a handler call that does not return until its gate is closed.
type run struct {
	handled
	log  *logtest.Log
	lost int // how often its connection was lost before
}

// longRun consumes two messages in one slot, the second after the first.
func longRun(t *testing.T, node *services.RabbitMQNode, lane string, ackCap time.Duration) *run {
	t.Helper()
	logger, log := logtest.New()
	r := &run{handled: handled{gate: make(chan struct{})}, log: log}
	b := open(t, amqp.Config{URLs: []string{node.URL}, Lane: lane, AckCap: ackCap, Logger: logger})
	consuming(t, b, 1, r.handle)
	recovered(t, b, messages(1, 2))
	poll.Until(t, "a call runs", func() bool { return r.running.Load() == 1 })
	r.lost = len(log.Lines("connection=consume", "no connection")) // a broker at work for the first time
	return r
}

// The broker goes away and comes back while messages are sent and handled: what was
// accepted is handled, and what was not sent can be sent again.
func restarted(t *testing.T, node *services.RabbitMQNode, kind string, end func()) {
	b := open(t, amqp.Config{URLs: []string{node.URL}, Lane: "restarted-" + kind, Type: kind})
	var h handled
	endConsume := consuming(t, b, 8, h.handle)
	accepted := make(map[int64]bool)
	sent := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer close(sent)
		for id := 1; ctx.Err() == nil; id += 20 {
			enqueueing, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			results, _ := b.Enqueue(enqueueing, messages(id, 20))
			cancel()
			for i, result := range results {
				if result.Status == waybill.EnqueueAccepted {
					accepted[int64(id+i)] = true
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	defer func() {
		stop()
		<-sent
	}()
	poll.Until(t, "messages flow", func() bool { return h.different() > 100 })
	end()
	node.Start()
	before := h.different()
	poll.Until(t, "messages flow again", func() bool { return h.different() > before+100 })
	stop()
	<-sent
	poll.Until(t, "what was accepted came", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		for id := range accepted {
			if h.came[id] == 0 {
				return false
			}
		}
		return true
	})
	if most := h.most.Load(); most > 8 {
		t.Errorf("%d calls at a time in 8 slots", most)
	}
	if err := endConsume(); err != nil {
		t.Error(err)
	}
}

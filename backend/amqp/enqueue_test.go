package amqp_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
)

// The connection is lost in the midst of a batch: the queue has the messages, and
// nobody says so.
func TestEnqueueCutMidBatch(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, kind string) {
		brokerURL := services.RabbitMQ(t)
		proxy, through := proxied(t, brokerURL)
		b := open(t, amqp.Config{URLs: []string{through}, Lane: lane, Type: kind})
		enqueue(t, b, messages(1, 1))
		proxy.HoldToClient()
		type answer struct {
			results []waybill.Result
			err     error
		}
		answers := make(chan answer, 1)
		go func() {
			results, err := b.Enqueue(t.Context(), messages(2, 300))
			answers <- answer{results, err}
		}()
		direct := connect(t, brokerURL)
		poll.Until(t, "the queue holds the batch", func() bool {
			ready, _ := inQueue(t, direct, queue)
			return ready == 301
		})
		proxy.Cut()
		select {
		case a := <-answers:
			if a.err == nil {
				t.Error("the queue called itself well")
			}
			wantStatuses(t, a.results, 300, waybill.EnqueueUnknown)
		case <-time.After(10 * time.Second):
			t.Fatal("enqueue hangs")
		}
		proxy.Restore()
		recovered(t, b, messages(400, 1))
		var h handled
		consuming(t, b, 16, h.handle)
		poll.Until(t, "every message came", func() bool { return h.different() == 302 })
	})
}

// A network that carries nothing: confirms do not come, and writes are not taken.
func TestEnqueueOnSilentNetwork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config amqp.Config
		by     string
		why    string
	}{
		"confirms do not come":   {amqp.Config{ConfirmTimeout: time.Second}, "relay", "no confirms in 1s"},
		"writes are not taken":   {amqp.Config{WriteTimeout: time.Second, ConfirmTimeout: time.Minute}, strings.Repeat("r", 200_000), "i/o timeout"},
		"a peer without pulse":   {amqp.Config{Heartbeat: time.Second, ConfirmTimeout: time.Minute}, "relay", "ended"},
		"deadline of the caller": {amqp.Config{}, "relay", "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, through := proxied(t, services.RabbitMQ(t))
			c.config.URLs, c.config.Lane = []string{through}, lane
			b := open(t, c.config)
			enqueue(t, b, messages(1, 1))
			proxy.Hold()
			batch := messages(2, 100)
			for i := range batch {
				batch[i].Claim.By = c.by
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			if name == "deadline of the caller" {
				ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
			}
			defer cancel()
			begun := time.Now()
			results, err := b.Enqueue(ctx, batch)
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("enqueue took %v", took)
			}
			wantError(t, err, c.why)
			wantStatuses(t, results, 100, waybill.EnqueueUnknown, waybill.EnqueueNotSent)
			// Another is told at once: nothing was sent.
			ctx, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			results, err = b.Enqueue(ctx, messages(500, 3))
			if !errors.Is(err, amqp.ErrUnavailable) {
				t.Errorf("error %v, want ErrUnavailable", err)
			}
			wantStatuses(t, results, 3, waybill.EnqueueNotSent)
			proxy.Restore()
			recovered(t, b, messages(500, 3))
		})
	}
}

// A queue that is deleted under the publisher is declared again, and what was
// returned meanwhile was refused, not lost.
func TestEnqueueQueueDeleted(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, kind string) {
		brokerURL := services.RabbitMQ(t)
		b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Type: kind})
		enqueue(t, b, messages(1, 10))
		direct := connect(t, brokerURL)
		if _, err := direct.QueueDelete(queue, false, false, false); err != nil {
			t.Fatal(err)
		}
		results, err := b.Enqueue(t.Context(), messages(20, 10))
		wantError(t, err, "does not exist", "312 NO_ROUTE")
		wantStatuses(t, results, 10, waybill.EnqueueRefused)
		recovered(t, b, messages(20, 10))
		var h handled
		consuming(t, b, 2, h.handle)
		h.all(t, b, messages(20, 10))
	})
}

// A whole batch is returned: there is room for all of it, and none counts as taken.
func TestEnqueueWholeBatchReturned(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	direct := connect(t, brokerURL)
	if _, err := direct.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Passive: true})
	enqueue(t, b, messages(1, 1))
	if _, err := direct.QueueDelete(queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for range 3 {
		results, err := b.Enqueue(t.Context(), messages(1, 1200))
		wantError(t, err, "does not exist")
		counts := wantStatuses(t, results, 1200, waybill.EnqueueRefused, waybill.EnqueueNotSent)
		if counts[waybill.EnqueueRefused] != 500 {
			t.Errorf("results %v, want 500 refused: the second batch meets the same", counts)
		}
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A queue that is full refuses what does not fit; when it takes nothing at all, it
// is not well.
func TestEnqueueQueueFull(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Type: "classic"}) // whose limit is exact
	enqueue(t, b, messages(1, 1))
	services.BrokerOf(t, brokerURL).Policy(`{"max-length":3,"overflow":"reject-publish"}`)
	direct := connect(t, brokerURL)
	poll.Until(t, "the policy applies", func() bool {
		if _, err := direct.QueuePurge(queue, false); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if err := direct.Publish("", queue, false, false, amqp091.Publishing{}); err != nil {
				t.Fatal(err)
			}
		}
		ready, _ := inQueue(t, direct, queue)
		return ready == 3
	})
	if _, err := direct.QueuePurge(queue, false); err != nil {
		t.Fatal(err)
	}
	results, err := b.Enqueue(t.Context(), messages(1, 10))
	if err != nil {
		t.Errorf("a queue that took some called itself unwell: %v", err)
	}
	counts := wantStatuses(t, results, 10, waybill.EnqueueAccepted, waybill.EnqueueRefused)
	if counts[waybill.EnqueueAccepted] != 3 {
		t.Errorf("results %v, want 3 accepted", counts)
	}
	results, err = b.Enqueue(t.Context(), messages(20, 10))
	wantError(t, err, "full")
	wantStatuses(t, results, 10, waybill.EnqueueRefused)
	if _, err := direct.QueuePurge(queue, false); err != nil {
		t.Fatal(err)
	}
	enqueue(t, b, messages(20, 3)) // on the same connection
}

func TestEnqueueExpiration(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, kind string) {
		brokerURL := services.RabbitMQ(t)
		b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Type: kind, Expiration: 300 * time.Millisecond})
		enqueue(t, b, messages(1, 20))
		direct := connect(t, brokerURL)
		poll.Until(t, "the messages expire", func() bool {
			ready, _ := inQueue(t, direct, queue)
			return ready == 0
		})
		_, there, err := direct.Get(queue, true) // a quorum queue may say 0 of itself and be wrong
		if err != nil || there {
			t.Errorf("a message outlived its expiration, %v", err)
		}
	})
}

// What a message looks like to others.
func TestEnqueueMessage(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Type: "classic"}) // a quorum queue adds a header
	enqueue(t, b, messages(42, 1))
	d, there, err := connect(t, brokerURL).Get(queue, true)
	if err != nil || !there {
		t.Fatalf("no message: %v", err)
	}
	want := `{"delivery_id":42,"claimed_by":"relay:1:ab","claimed_at":"2025-11-30T10:53:20.000001Z"}`
	if string(d.Body) != want || d.ContentType != "application/json" || d.Type != "waybill.deliver.v1" ||
		d.MessageId != "42/2025-11-30T10:53:20.000001Z" || d.DeliveryMode != amqp091.Persistent || d.Expiration != "" || len(d.Headers) != 0 {
		t.Errorf("message %+v with body %s", d, d.Body)
	}
}

// JSON would make another claim of it, which no row has.
func TestEnqueueRefusesWhatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	b := open(t, amqp.Config{URLs: []string{services.RabbitMQ(t)}, Lane: lane})
	batch := messages(1, 3)
	batch[1].Claim.By = "not \xff UTF-8"
	results, err := b.Enqueue(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, results[1:2], 1, waybill.EnqueueRefused)
	wantStatuses(t, []waybill.Result{results[0], results[2]}, 2, waybill.EnqueueAccepted)
}

// The broker closes the publishing connection: the next Enqueue, or the one after,
// has another.
func TestEnqueueConnectionClosedByBroker(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane})
	var h handled
	consuming(t, b, 2, h.handle)
	enqueue(t, b, messages(1, 1))
	broker := services.BrokerOf(t, brokerURL)
	poll.Until(t, "the connection is closed", func() bool { return broker.CloseConnections(" publish") == 1 })
	recovered(t, b, messages(2, 100))
	poll.Until(t, "every message came", func() bool { return h.different() == 101 })
}

// One of two nodes is down: the other is used, and at once.
func TestEnqueueFirstNodeDown(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	proxy, through := proxied(t, brokerURL)
	proxy.Cut()
	b := open(t, amqp.Config{URLs: []string{through, brokerURL}, Lane: lane})
	enqueue(t, b, messages(1, 1))
}

// Whoever connects finds the node that is up, however many do so at the same time,
// and does not begin with the other each time.
func TestDialTriesEveryNode(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	down, dials := dropping(t)
	b := open(t, amqp.Config{URLs: []string{down, brokerURL}, Lane: lane})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := b.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := dials.Load(); n != 4 {
		t.Errorf("%d of 8 connections were tried at the first node before the second, want 4", n)
	}
}

// A peer that takes connections and drops them, as a load balancer without a node,
// is not stormed.
func TestEnqueueOnPeerThatDrops(t *testing.T) {
	t.Parallel()
	dropped(t, 3*time.Second, 12)
}

// dropping returns the URL of such a peer, and counts the connections to it.
func dropping(t *testing.T) (peer string, dials *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	dials = new(atomic.Int64)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			dials.Add(1)
			conn.Close()
		}
	}()
	return "amqp://u:secret@" + listener.Addr().String(), dials
}

// dropped lets a relay and a worker run against such a peer for a while.
func dropped(t *testing.T, while time.Duration, most int64) {
	peer, dials := dropping(t)
	b := open(t, amqp.Config{URLs: []string{peer}, Lane: lane})
	end := consuming(t, b, 4, func(context.Context, waybill.Message) error { return nil })
	for until := time.Now().Add(while); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		results, err := b.Enqueue(t.Context(), messages(1, 2))
		if !errors.Is(err, amqp.ErrUnavailable) {
			t.Fatalf("error %v, want ErrUnavailable", err)
		}
		wantStatuses(t, results, 2, waybill.EnqueueNotSent)
	}
	if n := dials.Load(); n > most {
		t.Errorf("%d connections in %v, want at most %d", n, while, most)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	b, err := amqp.New(amqp.Config{URLs: []string{services.RabbitMQ(t)}, Lane: lane})
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, b, messages(1, 1))
	if _, err := b.Backlog(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	results, err := b.Enqueue(t.Context(), messages(1, 2))
	if !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("enqueue: %v, want ErrClosed", err)
	}
	wantStatuses(t, results, 2, waybill.EnqueueNotSent)
	if _, err := b.Backlog(t.Context()); !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("backlog: %v, want ErrClosed", err)
	}
	never, err := amqp.New(amqp.Config{URLs: []string{"amqp://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := never.Close(); err != nil {
		t.Error(err)
	}
	if _, err := never.Enqueue(t.Context(), messages(1, 1)); !errors.Is(err, amqp.ErrClosed) {
		t.Errorf("enqueue: %v, want ErrClosed", err)
	}
}

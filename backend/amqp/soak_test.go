//go:build soak

package amqp_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/internal/services"
)

// Half a minute of a peer that takes connections and drops them.
func TestSoakPeerThatDrops(t *testing.T) {
	t.Parallel()
	dropped(t, 30*time.Second, 70)
}

// Three minutes of a network that is cut, held and restored all the time, at either
// side, under load: every message comes, though some only when they are sent again,
// and there are never more calls than slots.
func TestSoakNetwork(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, kind string) {
		const slots = 16
		brokerURL := services.RabbitMQ(t)
		sending, sendURL := proxied(t, brokerURL)
		receiving, receiveURL := proxied(t, brokerURL)
		sender := open(t, amqp.Config{URLs: []string{sendURL}, Lane: lane, Type: kind, ConfirmTimeout: time.Second, Heartbeat: time.Second})
		receiver := open(t, amqp.Config{URLs: []string{receiveURL}, Lane: lane, Type: kind, AckCap: 20 * time.Millisecond, Heartbeat: time.Second})
		var h handled
		end := consuming(t, receiver, slots, func(ctx context.Context, m waybill.Message) error {
			time.Sleep(rand.N(40 * time.Millisecond))
			return h.handle(ctx, m)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		var trouble sync.WaitGroup
		trouble.Go(func() {
			for ctx.Err() == nil {
				for _, fault := range []func(){sending.Cut, receiving.Cut, sending.Hold, receiving.Hold, sending.HoldToClient, receiving.HoldToClient, sending.HoldToServer, receiving.HoldToServer} {
					time.Sleep(rand.N(3 * time.Second))
					fault()
					time.Sleep(rand.N(2 * time.Second))
					sending.Restore()
					receiving.Restore()
				}
			}
		})
		total := 0
		last := time.Now() // when what is owed was sent again
		for ctx.Err() == nil {
			batch := h.owed(messages(1, total))
			switch {
			case len(batch) < 500:
				batch = messages(total+1, 50)
				total += 50
			case time.Since(last) > 2*time.Second:
				last = time.Now()
			default:
				batch = nil
			}
			enqueueing, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, _ = sender.Enqueue(enqueueing, batch)
			cancel()
			time.Sleep(50 * time.Millisecond)
		}
		trouble.Wait()
		h.all(t, sender, messages(1, total))
		if most := h.most.Load(); most > slots {
			t.Errorf("%d calls at a time in %d slots", most, slots)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
		t.Logf("%d messages", total)
	})
}

// A quorum queue survives a stop of its node, and a kill once it is a few seconds old.
func TestSoakQuorumQueueRestarted(t *testing.T) {
	t.Parallel()
	node := services.OwnRabbitMQ(t)
	restarted(t, node, "quorum", node.Stop)
	time.Sleep(10 * time.Second)
	for range 3 {
		restarted(t, node, "quorum", node.Kill)
	}
}

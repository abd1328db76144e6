package outages

import (
	"log/slog"
	"net"
	"testing"
	"time"

	rabbit "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/services"
)

func TestRabbitMQWithAQuorumQueue(t *testing.T) {
	t.Parallel()
	short.through(t, onOwnRabbitMQ("quorum")(t))
}

// Without a window, for once.
func TestRabbitMQWithAClassicQueue(t *testing.T) {
	t.Parallel()
	short.deep().through(t, onOwnRabbitMQ("classic")(t))
}

// onOwnRabbitMQ makes beds of a node each.
func onOwnRabbitMQ(queueType string) func(t *testing.T) *bed {
	return func(t *testing.T) *bed {
		node := services.OwnRabbitMQ(t)
		proxy := fault.NewProxy(t, node.Addr)
		database := services.Postgres(t)
		return &bed{
			store: database, direct: database, proxy: proxy,
			open: func() queue { return openRabbitMQ(t, at(t, node.URL, proxy.Addr()), queueType) },
			restart: func() {
				node.Kill()
				node.Start()
			},
			lose: func() { deleteQueue(t, node.URL) },
		}
	}
}

// onRabbitMQ is a queue on the server that tests share, with no faults.
func onRabbitMQ(t *testing.T, database string) *bed {
	server := services.RabbitMQ(t)
	return &bed{store: database, direct: database, open: func() queue { return openRabbitMQ(t, server, "quorum") }}
}

func openRabbitMQ(t *testing.T, server, queueType string) queue {
	t.Helper()
	b, err := amqp.New(amqp.Config{
		URLs: []string{server}, Type: queueType, DialTimeout: 2 * time.Second, WriteTimeout: time.Second,
		ConfirmTimeout: time.Second, Heartbeat: time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// deleteQueue deletes the queue of the default lane, with all that is in it.
func deleteQueue(t *testing.T, server string) {
	t.Helper()
	conn, err := rabbit.DialConfig(server, rabbit.Config{Dial: func(network, addr string) (net.Conn, error) {
		return net.DialTimeout(network, addr, 5*time.Second)
	}})
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err == nil {
		_, err = channel.QueueDelete(waybill.QueueName(waybill.DefaultLane), false, false, false)
	}
	if err != nil {
		t.Error(err)
	}
}

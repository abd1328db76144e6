package outages

import (
	"log/slog"
	"testing"
	"time"

	"github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/internal/services"
)

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

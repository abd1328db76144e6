package amqp_test

import (
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/services"
)

func TestMain(m *testing.M) {
	backendtest.ConsumerProcess(func(spec string) (waybill.Consumer, error) {
		kind, url, _ := strings.Cut(spec, " ")
		return amqp.New(amqp.Config{URLs: []string{url}, Type: kind})
	})
	backendtest.Parallel()
	goleak.VerifyTestMain(m)
}

func TestConformanceOnQuorumQueue(t *testing.T) {
	t.Parallel()
	conform(t, "quorum")
}

func TestConformanceOnClassicQueue(t *testing.T) {
	t.Parallel()
	conform(t, "classic")
}

func conform(t *testing.T, kind string) {
	backendtest.Run(t, func(t *testing.T, setup backendtest.Setup) backendtest.Harness {
		return harness(t, setup, services.RabbitMQ(t), kind)
	})
}

// harness puts a proxy before the broker at brokerURL and a Backend behind it.
func harness(t *testing.T, setup backendtest.Setup, brokerURL, kind string) backendtest.Harness {
	t.Helper()
	proxy, through := proxied(t, brokerURL)
	b := open(t, amqp.Config{URLs: []string{through}, Type: kind, Logger: setup.Log})
	return backendtest.Harness{
		Backend:    b,
		FIFO:       true,
		Redelivers: true,
		Large:      2000,
		Inject: func(t *testing.T, body []byte) {
			err := connect(t, brokerURL).Publish("", waybill.QueueName(waybill.DefaultLane), true, false, amqp091.Publishing{
				ContentType: "application/json", DeliveryMode: amqp091.Persistent, Type: waybill.MessageKind, Body: body,
			})
			if err != nil {
				t.Fatal(err)
			}
		},
		Crash: func(t *testing.T, n int) []waybill.Message {
			return backendtest.CrashConsumer(t, kind+" "+brokerURL, n)
		},
		Hang: func(*testing.T) (release func()) {
			proxy.Hold()
			return proxy.Restore
		},
		Down: func(*testing.T) (up func()) {
			proxy.Cut()
			return proxy.Restore
		},
	}
}

// proxied puts a proxy before the broker and returns the URL that leads through it.
func proxied(t testing.TB, brokerURL string) (*fault.Proxy, string) {
	t.Helper()
	u, err := url.Parse(brokerURL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := fault.NewProxy(t, u.Host)
	u.Host = proxy.Addr()
	return proxy, u.String()
}

// open returns a Backend that is closed when the test ends.
func open(t testing.TB, config amqp.Config) *amqp.Backend {
	t.Helper()
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	b, err := amqp.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		begun := time.Now()
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("close took %v", took)
		}
	})
	return b
}

// connect returns a channel of a plain client, for the test's own ends.
func connect(t testing.TB, brokerURL string) *amqp091.Channel {
	t.Helper()
	conn, err := amqp091.Dial(brokerURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return channel
}

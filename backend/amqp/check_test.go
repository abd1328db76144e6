package amqp_test

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
)

func TestCheckDeclaresQueue(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, kind string) {
		brokerURL := services.RabbitMQ(t)
		for range 2 {
			if err := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Type: kind, Strict: true}).Check(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := connect(t, brokerURL).QueueDeclare(queue, true, false, false, false, amqp091.Table{"x-queue-type": kind}); err != nil {
			t.Errorf("the queue is not as it should be: %v", err)
		}
	})
}

// What a person gets to read, and that no password is in it or in the log.
func TestCheckSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	change := func(change func(u *url.URL)) string {
		u, err := url.Parse(brokerURL)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(u.User.Username(), first(u.User.Password()))
		change(u)
		return u.String()
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections into its backlog
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for name, c := range map[string]struct {
		url   string
		parts []string
	}{
		"wrong password": {change(func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "secret") }), []string{"403", "correct user and password"}},
		"no such vhost":  {change(func(u *url.URL) { u.Path = "/nowhere" }), []string{"530", "nowhere", "add_vhost"}},
		"no server":      {change(func(u *url.URL) { u.Host = "127.0.0.1:1" }), []string{"127.0.0.1:1", "refused", "is it running"}},
		"no such host":   {change(func(u *url.URL) { u.Host = "nowhere.invalid:5672" }), []string{"nowhere.invalid", "is it running"}},
		"a silent one":   {change(func(u *url.URL) { u.Host, u.RawQuery = silent.Addr().String(), "connection_timeout=1000" }), []string{"no answer in 1s", "is it running"}},
		"TLS where none": {change(func(u *url.URL) { u.Scheme = "amqps" }), []string{"does it speak TLS"}},
		"both nodes":     {"amqp://u:secret@127.0.0.1:1,amqp://u:secret@127.0.0.1:2", []string{"127.0.0.1:1", "127.0.0.1:2", "is it running"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := amqp.ParseURLs(c.url)
			if err != nil {
				t.Fatal(err)
			}
			logger, log := logtest.New()
			config.Lane, config.Logger, config.DialTimeout = lane, logger, 5*time.Second
			b := open(t, config)
			err = b.Check(t.Context())
			wantError(t, err, c.parts...)
			results, enqueueErr := b.Enqueue(t.Context(), messages(1, 2))
			wantStatuses(t, results, 2, waybill.EnqueueNotSent)
			consumer, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if err := b.Consume(consumer, 1, new(handled).handle); err != nil {
				t.Errorf("consume ended by itself: %v", err)
			}
			all := strings.Join(append(log.Lines(), err.Error(), enqueueErr.Error(), results[0].Err.Error()), "\n")
			u, _ := url.Parse(config.URLs[0])
			if password, _ := u.User.Password(); strings.Contains(all, password) || strings.Contains(all, "secret") {
				t.Errorf("a password is told: %s", all)
			}
		})
	}
}

func first(password string, _ bool) string { return password }

// Somebody else has declared the queue otherwise: it is used as it is, with one
// warning, and with Strict it is not.
func TestCheckQueueDeclaredOtherwise(t *testing.T) {
	t.Parallel()
	for name, arguments := range map[string]amqp091.Table{
		"classic, not quorum": nil,
		"with a limit":        {"x-queue-type": "quorum", "x-delivery-limit": 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokerURL := services.RabbitMQ(t)
			if _, err := connect(t, brokerURL).QueueDeclare(queue, true, false, false, false, arguments); err != nil {
				t.Fatal(err)
			}
			logger, log := logtest.New()
			b := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Logger: logger})
			if err := b.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			var h handled
			consuming(t, b, 2, h.handle)
			enqueue(t, b, messages(1, 5))
			poll.Until(t, "every message came", func() bool { return h.different() == 5 })
			log.Want(t, 1, "level=WARN", "declared otherwise", "406")

			strict := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane, Strict: true})
			wantError(t, strict.Check(t.Context()), "declared otherwise", "406", "list_queues")
			results, err := strict.Enqueue(t.Context(), messages(1, 2))
			wantError(t, err, "declared otherwise")
			wantStatuses(t, results, 2, waybill.EnqueueNotSent)
		})
	}
}

// A user who may not configure the queue can use one that is there.
func TestCheckWithoutPermissionToConfigure(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	user := services.BrokerOf(t, brokerURL).User("^$", ".*", ".*")
	b := open(t, amqp.Config{URLs: []string{user}, Lane: lane})
	passive := open(t, amqp.Config{URLs: []string{user}, Lane: lane, Passive: true})
	wantError(t, b.Check(t.Context()), "403", "permission to configure")
	wantError(t, passive.Check(t.Context()), "404", "declare it")

	if err := open(t, amqp.Config{URLs: []string{brokerURL}, Lane: lane}).Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*amqp.Backend{b, passive} {
		if err := b.Check(t.Context()); err != nil {
			t.Error(err)
		}
		var h handled
		end := consuming(t, b, 2, h.handle)
		recovered(t, b, messages(1, 5))
		poll.Until(t, "every message came", func() bool { return h.different() == 5 })
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

// A user without the permission to publish is told so, and nothing is taken for sent.
func TestEnqueueWithoutPermissionToWrite(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	user := services.BrokerOf(t, brokerURL).User(".*", "^$", ".*")
	logger, log := logtest.New()
	b := open(t, amqp.Config{URLs: []string{user}, Lane: lane, Logger: logger})
	results, err := b.Enqueue(t.Context(), messages(1, 2))
	wantError(t, err, "403", "access to exchange")
	wantStatuses(t, results, 2, waybill.EnqueueUnknown, waybill.EnqueueNotSent)
	poll.Until(t, "a person is told", func() bool { return len(log.Lines("level=ERROR", "403")) > 0 })
}

// A user without the permission to read is told so, and not every few milliseconds.
func TestConsumeWithoutPermissionToRead(t *testing.T) {
	t.Parallel()
	brokerURL := services.RabbitMQ(t)
	user := services.BrokerOf(t, brokerURL).User(".*", ".*", "^$")
	logger, log := logtest.New()
	b := open(t, amqp.Config{URLs: []string{user}, Lane: lane, Logger: logger})
	end := consuming(t, b, 4, new(handled).handle)
	poll.Until(t, "a person is told", func() bool { return len(log.Lines("level=ERROR", "403", "again_in=15s")) > 0 })
	if err := end(); err != nil {
		t.Error(err)
	}
	log.Want(t, 1, "no connection to rabbitmq")
}

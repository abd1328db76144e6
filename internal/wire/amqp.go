package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/amqp"
)

type onRabbitMQ struct {
	config BackendConfig
	queue  amqp.Config // of every lane

	mu     sync.Mutex
	opened []*amqp.Backend
}

func openRabbitMQ(config BackendConfig) (Backend, error) {
	queue, err := amqp.ParseURLs(config.URL)
	if err != nil {
		return nil, err
	}
	queue.Strict, queue.Drain, queue.Logger = config.Strict, config.queueDrain(), config.Logger
	return &onRabbitMQ{config: config, queue: queue}, nil
}

func (b *onRabbitMQ) InProcess() bool { return false }

// Migrator returns none: queues are declared as they are used.
func (b *onRabbitMQ) Migrator() (waybill.Migrator, error) { return nil, nil }

func (b *onRabbitMQ) Queue(lane string) (Queue, error) {
	config := b.queue
	config.Lane, config.Expiration = lane, b.config.expiration(lane)
	queue, err := amqp.New(config)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened = append(b.opened, queue)
	return queue, nil
}

// Close loses nothing when it fails: what was not confirmed is owed.
func (b *onRabbitMQ) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, queue := range b.opened {
		_ = queue.Close()
	}
}

// Reach logs in to the first node that lets us.
func (b *onRabbitMQ) Reach(ctx context.Context) error {
	var first error
	for _, node := range b.queue.URLs {
		err := reachRabbitMQ(ctx, node)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func reachRabbitMQ(ctx context.Context, rawURL string) error {
	node, err := amqp091.ParseURI(rawURL)
	if err != nil {
		return errUnreadable("amqp://user:password@host:5672/vhost") // its error would tell the password
	}
	place := net.JoinHostPort(node.Host, fmt.Sprint(node.Port))
	if err = logIn(ctx, rawURL); err == nil {
		return nil
	}
	var refusal *amqp091.Error
	errors.As(err, &refusal)
	withTLS := node.Scheme == "amqps"
	switch {
	case refusal != nil && refusal.Code == amqp091.AccessRefused:
		return hint(fmt.Sprintf("RabbitMQ at %s refuses user %q", place, node.Username), "correct user and password in the URL")
	case refusal != nil && refusal.Code == amqp091.NotAllowed:
		return hint(fmt.Sprintf("RabbitMQ at %s does not let user %q into virtual host %q", place, node.Username, node.Vhost),
			"correct the end of the URL, or create it (rabbitmqctl add_vhost) and let the user in (rabbitmqctl set_permissions)")
	case withTLS && isTimeout(err): // one without TLS may wait for more
		return hint(fmt.Sprintf("RabbitMQ at %s: no answer in time", place), "is it up, and does it speak TLS? amqp:// is without")
	}
	if lost := unreachable("RabbitMQ", place, err); lost != nil {
		return lost
	}
	do := "is it a RabbitMQ, and does it want amqps://, which is with TLS?"
	if withTLS {
		do = "is it a RabbitMQ, and does it speak TLS? amqp:// is without"
	}
	return hint(fmt.Sprintf("RabbitMQ at %s: %s", place, hide(rawURL, err)), do)
}

// logIn connects once. The client library knows no context, and words the end of its
// patience in many ways, so the deadline is the socket's and speaks first.
func logIn(ctx context.Context, rawURL string) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	closed := func() bool { return true }
	defer func() { closed() }()
	conn, err := amqp091.DialConfig(rawURL, amqp091.Config{Dial: func(network, address string) (net.Conn, error) {
		socket, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			closed = context.AfterFunc(ctx, func() { socket.Close() })
		}
		return socket, err
	}})
	if err == nil {
		return conn.Close()
	}
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	return err
}

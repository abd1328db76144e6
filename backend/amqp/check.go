package amqp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Check connects, on its own, and declares the queue. A queue that was declared
// otherwise is an error with Config.Strict, and else a warning in the log.
func (b *Backend) Check(ctx context.Context) error {
	s, err := b.dialer.dial(ctx, "check")
	if err != nil {
		return fmt.Errorf("%w; %s", err, hint(err))
	}
	defer s.close()
	if err := b.topology.ensure(ctx, s); err != nil {
		return fmt.Errorf("%w; %s", err, queueHint(err))
	}
	return nil
}

// hint says what a person may do about a connection that could not be made.
func hint(err error) string {
	var (
		unknownAuthority x509.UnknownAuthorityError
		wrongHost        x509.HostnameError
		invalid          x509.CertificateInvalidError
		noTLS            tls.RecordHeaderError
	)
	switch {
	case code(err) == amqp.AccessRefused:
		return "correct user and password in the URL"
	case code(err) == amqp.NotAllowed:
		return "correct the vhost at the end of the URL, or create it (rabbitmqctl add_vhost) and give the user access to it (rabbitmqctl set_permissions)"
	case errors.As(err, &unknownAuthority):
		return "name the authority of the broker's certificate with cacertfile in the URL"
	case errors.As(err, &wrongHost), errors.As(err, &invalid):
		return "the broker's certificate does not fit: correct the host in the URL, set server_name_indication, or renew it"
	case errors.As(err, &noTLS):
		return "does it speak TLS there? amqp:// is without"
	case isUnreachable(err):
		return "is it running, and are host and port right?"
	case errors.Is(err, io.EOF), code(err) == amqp.FrameError, strings.Contains(err.Error(), "EOF"):
		return "is it a RabbitMQ, and does it want amqps://, which is with TLS?"
	default:
		return "is it a RabbitMQ, and is its address right?"
	}
}

func isUnreachable(err error) bool {
	var operation *net.OpError
	var name *net.DNSError
	return errors.As(err, &name) || errors.As(err, &operation) && operation.Op == "dial" || errors.Is(err, context.DeadlineExceeded)
}

// queueHint says what a person may do about the queue.
func queueHint(err error) string {
	switch {
	case errors.Is(err, errStrict):
		return "rabbitmqctl list_queues name type arguments shows how it was declared"
	case code(err) == amqp.NotFound:
		return "declare it, or give a user the permission to"
	case code(err) == amqp.AccessRefused:
		return "give the user the permission to configure it (rabbitmqctl set_permissions), or declare it beforehand"
	default:
		return "see the broker's log"
	}
}

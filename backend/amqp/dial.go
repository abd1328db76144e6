package amqp

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// dialer makes connections, to each URL in turn.
type dialer struct {
	endpoints []endpoint
	tls       *tls.Config
	name      string
	timeout   time.Duration
	write     time.Duration
	heartbeat time.Duration

	begun atomic.Uint64 // how many dials
}

func newDialer(config Config) (*dialer, error) {
	d := &dialer{
		tls: config.TLS, name: config.Name,
		timeout: config.DialTimeout, write: config.WriteTimeout, heartbeat: config.Heartbeat,
	}
	for _, raw := range config.URLs {
		e, err := parseEndpoint(raw)
		if err != nil {
			return nil, err
		}
		d.endpoints = append(d.endpoints, e)
	}
	return d, nil
}

// dial connects to the first node that answers, beginning one further than the dial
// before. Several may dial at the same time, and each of them tries every node. The
// connection's name says what it is for.
func (d *dialer) dial(ctx context.Context, purpose string) (*session, error) {
	var failed error
	nodes := uint64(len(d.endpoints))
	first := d.begun.Add(1) - 1
	for n := range nodes {
		s, err := d.connect(ctx, d.endpoints[(first+n)%nodes], purpose)
		if err == nil {
			return s, nil
		}
		if failed == nil {
			failed = err
		} else {
			failed = fmt.Errorf("%w; %w", failed, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// connect makes one connection. The library knows no context and no deadline for
// the login, so the socket is taken from under it when either is over.
func (d *dialer) connect(ctx context.Context, e endpoint, purpose string) (*session, error) {
	timeout := d.timeout
	if e.timeout > 0 {
		timeout = e.timeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer in %s: %w", timeout, context.DeadlineExceeded))
	defer cancel()
	var raw *socket
	release := func() bool { return true }
	config := amqp.Config{
		Heartbeat: d.heartbeat,
		// The library writes to both, so each connection has its own.
		Properties:      amqp.NewConnectionProperties(),
		TLSClientConfig: d.tls.Clone(), // of nil it is nil
		Dial: func(network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			raw = &socket{Conn: conn, timeout: d.write}
			release = context.AfterFunc(ctx, raw.kill)
			return raw, nil
		},
	}
	config.Properties.SetClientConnectionName(d.name + " " + purpose)
	conn, err := amqp.DialConfig(e.url, config)
	if !release() || err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // what the library makes of it may be anything
	}
	if err != nil {
		if raw != nil {
			raw.kill() // there is no other way to end what a failed login leaves
		}
		return nil, fmt.Errorf("rabbitmq at %s: %w", e.place, err)
	}
	return newSession(conn, raw, e.place), nil
}

// socket is the connection below the library. A write that the peer does not take
// would hold the library for ever, and every attempt to close it: so a write has a
// deadline, and the socket can be closed from outside.
type socket struct {
	net.Conn
	timeout time.Duration
}

func (s *socket) Write(data []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil {
		return 0, err
	}
	return s.Conn.Write(data)
}

// kill closes the socket. Whoever reads or writes gets an error at once.
func (s *socket) kill() { _ = s.Conn.Close() }

package river

import (
	"context"
	"net"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	queue "github.com/riverqueue/river"
)

// open makes a client on a pool of its own: however busy River is, the store's
// calls find a connection, and River's can be cut. River finishes what it has begun
// whatever its context says, and a database that hangs would hold it for a minute.
func (p *postgres) open(config *queue.Config) (*session, error) {
	conns := &connections{open: make(map[*connection]struct{})}
	own := p.pool.Config()
	own.MaxConns, own.MinConns, own.MinIdleConns = workConnections, 0, 0
	own.ConnConfig.DialFunc = conns.dialer(own.ConnConfig.DialFunc)
	pool, err := pgxpool.NewWithConfig(context.Background(), own)
	if err != nil {
		return nil, err
	}
	settings := *config
	settings.Schema = p.schema
	client, err := queue.NewClient(newWorkDriver(pool), &settings)
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &session{client: client, cut: conns.cut, close: pool.Close}, nil
}

// connections are the network connections of one pool.
type connections struct {
	mu   sync.Mutex
	open map[*connection]struct{} // nil once they were cut
}

type connection struct {
	net.Conn
	all *connections
}

// Close closes the connection and forgets it.
func (c *connection) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

func (c *connections) dialer(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return c.add(conn)
	}
}

func (c *connections) add(conn net.Conn) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		conn.Close()
		return nil, net.ErrClosed
	}
	own := &connection{Conn: conn, all: c}
	c.open[own] = struct{}{}
	return own, nil
}

// cut closes all connections, and those that are still being made.
func (c *connections) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for own := range c.open {
		own.Conn.Close()
	}
	c.open = nil
}

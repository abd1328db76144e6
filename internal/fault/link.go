package fault

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// forward serves one client: it carries bytes to and from the server until both
// have said that they are done, or until either breaks or ctx ends, which
// abort brings about: then both are reset.
func (p *Proxy) forward(ctx context.Context, abort func(), client *net.TCPConn) {
	server, err := p.dial(ctx)
	if err != nil {
		reset(client)
		return
	}
	stop := context.AfterFunc(ctx, func() {
		reset(client)
		reset(server)
	})
	var both sync.WaitGroup
	both.Go(func() { carry(ctx, abort, server, client, &p.toServer) })
	both.Go(func() { carry(ctx, abort, client, server, &p.toClient) })
	both.Wait()
	if stop() {
		client.Close()
		server.Close()
	}
}

// dial reaches the server, once something may reach it at all.
func (p *Proxy) dial(ctx context.Context) (*net.TCPConn, error) {
	if err := p.toServer.wait(ctx); err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", p.target)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// carry copies one direction, waiting at the gate before each piece and before
// the end, which is news to the other side too.
func carry(ctx context.Context, abort func(), to, from *net.TCPConn, g *gate) {
	buf := make([]byte, 32<<10)
	for {
		n, readErr := from.Read(buf)
		if g.wait(ctx) != nil {
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				abort()
				return
			}
		}
		if errors.Is(readErr, io.EOF) {
			_ = to.CloseWrite()
			return
		}
		if readErr != nil {
			abort()
			return
		}
	}
}

// reset closes a connection so that the other end gets an error, not an end.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

// gate lets one direction of all links pass, or holds it. The zero gate is open.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // nil while open, closed when it opens
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !open && g.opened == nil {
		g.opened = make(chan struct{})
	}
	if open && g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// wait returns nil once the gate is open, or the context's error.
func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	if opened == nil {
		return ctx.Err()
	}
	select {
	case <-opened:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Package fault stands between what is tested and what that rests on, and breaks
// things there. [Proxy] is a TCP proxy between a client and its server:
// connections are reset, refused, or carry nothing any more. [Store] is a store in
// front of another: calls fail, hang, or lose their answer.
package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// dialTimeout bounds the proxy's own attempt to reach the server.
const dialTimeout = 5 * time.Second

// Proxy forwards connections to one server, until told otherwise. Each of its
// methods replaces what the one before it said, and may be called from any
// goroutine. The address stays the same throughout.
type Proxy struct {
	t      testing.TB
	target string
	addr   string

	toServer, toClient gate
	running            sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	links    map[*net.TCPConn]context.CancelFunc
}

// NewProxy starts a proxy on loopback that forwards to target, a host:port.
// It ends, with all its connections, when the test does.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, target: target, addr: listener.Addr().String(), links: map[*net.TCPConn]context.CancelFunc{}}
	p.serve(listener)
	t.Cleanup(func() {
		p.Cut()
		p.running.Wait()
	})
	return p
}

// listen takes a port below those that the system gives to outgoing
// connections, so that the proxy gets it back after it has refused for a while.
func listen() (net.Listener, error) {
	for range 100 {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 22000+rand.IntN(8000)))
		if err == nil {
			return listener, nil
		}
	}
	return nil, errors.New("no free port between 22000 and 30000")
}

// Addr is the host:port for the client to connect to.
func (p *Proxy) Addr() string { return p.addr }

// Cut resets the connections there are and refuses new ones. What was sent and
// not yet carried is lost, and neither end knows how much that was.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse()
	for _, abort := range p.links {
		abort()
	}
	p.hold(false, false)
}

// Refuse refuses new connections, and leaves those there are as they are.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse()
}

// Hold carries nothing in either direction, as a network that lost its route:
// connections stay open, new ones are accepted, and no byte, nor any end of a
// connection, reaches the other side. Bytes that were under way when Hold was
// called may still arrive.
func (p *Proxy) Hold() { p.listen(true, true) }

// HoldToServer holds what the client sends; what the server sends is carried.
func (p *Proxy) HoldToServer() { p.listen(true, false) }

// HoldToClient holds what the server sends: it does what it is asked, and its
// answer never comes.
func (p *Proxy) HoldToClient() { p.listen(false, true) }

// Restore carries everything again, beginning with what was held.
func (p *Proxy) Restore() { p.listen(false, false) }

// listen accepts connections, and holds the directions given.
func (p *Proxy) listen(toServer, toClient bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold(toServer, toClient)
	if p.listener != nil {
		return
	}
	listener, err := net.Listen("tcp", p.addr)
	if err != nil {
		p.t.Errorf("accept connections again: %v", err)
		return
	}
	p.serve(listener)
}

func (p *Proxy) hold(toServer, toClient bool) {
	p.toServer.set(!toServer)
	p.toClient.set(!toClient)
}

func (p *Proxy) refuse() {
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
}

// serve accepts connections until the listener is closed.
func (p *Proxy) serve(listener net.Listener) {
	p.listener = listener
	p.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.accept(listener, conn.(*net.TCPConn))
		}
	})
}

// accept begins a link, unless connections are refused by now: one that was
// accepted in the same moment must not slip past a Cut.
func (p *Proxy) accept(listener net.Listener, client *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != listener {
		reset(client)
		return
	}
	ctx, abort := context.WithCancel(context.Background())
	p.links[client] = abort
	p.running.Go(func() {
		defer abort()
		p.forward(ctx, abort, client)
		p.mu.Lock()
		delete(p.links, client)
		p.mu.Unlock()
	})
}

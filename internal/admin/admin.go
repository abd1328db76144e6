// Package admin serves what a supervisor, Prometheus and a person at a terminal ask a
// running process: whether it lives, whether it is ready, what it measures and, if
// that is asked for, where its time and memory go.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

const (
	readTimeout    = 5 * time.Second
	writeTimeout   = 15 * time.Second
	profileTimeout = maxProfile + 15*time.Second // the write timeout where profiles are served
	idleTimeout    = time.Minute
	stopTimeout    = time.Second // for answers under way when the server closes
)

// Config says what to serve, and where. Addr, Live and Metrics are required.
type Config struct {
	// Addr is host:port; without a host it is every address of the machine.
	Addr string
	// Live says why the process hangs, nil if it does not. It asks nobody: what
	// restarts the process must not depend on the health of another one.
	Live func() error
	// Ready are asked one beside the other.
	Ready   []Check
	Metrics http.Handler
	// Pprof serves /debug/pprof.
	Pprof  bool
	Logger *slog.Logger // Defaults to slog.Default().
}

// Server answers until it is closed.
type Server struct {
	server   *http.Server
	listener net.Listener
	handling sync.RWMutex // read by each answer under way; locked when there are to be no more
	closing  sync.Once
	served   chan struct{} // closed when nothing is accepted any more
	cancel   context.CancelFunc
}

// Start listens and serves. An address that cannot be used is an error.
func Start(config Config) (*Server, error) {
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	listener, err := listen(config.Addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{listener: listener, served: make(chan struct{}), cancel: cancel}
	write := writeTimeout
	if config.Pprof {
		write = profileTimeout
	}
	s.server = &http.Server{
		Handler:           s.tracked(routes(ctx, config)),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      write,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(config.Logger.Handler(), slog.LevelWarn),
	}
	go func() {
		defer close(s.served)
		// How it ended does not matter: it does when the server is closed.
		_ = s.server.Serve(listener)
	}()
	config.Logger.Info("admin endpoint listens", "address", s.Addr(), "pprof", config.Pprof)
	return s, nil
}

func listen(addr string) (net.Listener, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("admin address %q: want host:port, as in 127.0.0.1:9090", addr)
	}
	listener, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("admin address %s is in use: choose another port, or end who listens there", addr)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("admin address %s is not allowed to this user: choose a port above 1023", addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("admin address %s is not one of this machine: correct the host, or leave it out for all", addr)
	case err != nil:
		return nil, fmt.Errorf("admin address %s: %w: correct host and port", addr, err)
	}
	return listener, nil
}

// routes has what is served. Everything is read, nothing is changed.
func routes(ctx context.Context, config Config) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /livez", liveness(config.Live))
	mux.Handle("GET /readyz", &readiness{ctx: ctx, checks: config.Ready})
	mux.Handle("GET /metrics", config.Metrics)
	if config.Pprof {
		profiles(mux)
	}
	return mux
}

// tracked lets Close know of what is being answered.
func (s *Server) tracked(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.handling.TryRLock() {
			defer s.handling.RUnlock()
			handler.ServeHTTP(w, r)
		}
	})
}

// Addr returns the address that is listened at, with the port that was found where
// Config.Addr has port 0.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close ends the server. Answers under way have a second; what takes longer is cut
// off. Nothing of the server runs when it returns.
func (s *Server) Close() { s.closing.Do(s.close) }

func (s *Server) close() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close()
	}
	s.cancel()
	<-s.served
	s.handling.Lock()
}

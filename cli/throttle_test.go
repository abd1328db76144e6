package cli_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// throttle is a destination that has no time for ten minutes, until it is well.
type throttle struct {
	url   string
	ok    atomic.Bool
	calls atomic.Int64
}

func newThrottle(t *testing.T) *throttle {
	t.Helper()
	s := &throttle{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *throttle) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.calls.Add(1)
	if !s.ok.Load() {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

func (s *throttle) count() int64 { return s.calls.Load() }

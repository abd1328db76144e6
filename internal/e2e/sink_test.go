package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// sink is the destination of http receivers. It keeps every request.
type sink struct {
	*httptest.Server
	answer func(*request) int // the status of the answer

	mu       sync.Mutex
	requests []*request
}

type request struct {
	path   string
	header http.Header
	body   []byte
}

// id is the delivery's, as the idempotency key says it.
func (r *request) id() string { return r.header.Get("Idempotency-Key") }

func newSink(t *testing.T, answer func(*request) int) *sink {
	s := &sink{answer: answer}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// always is a sink's answer to everything.
func always(status int) func(*request) int { return func(*request) int { return status } }

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // the sender was killed while it sent
		return
	}
	got := &request{path: r.URL.Path, header: r.Header, body: body}
	status := s.answer(got)
	s.mu.Lock()
	s.requests = append(s.requests, got)
	s.mu.Unlock()
	w.WriteHeader(status)
}

// received returns the requests so far.
func (s *sink) received() []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*request(nil), s.requests...)
}

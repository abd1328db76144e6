package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	checkTimeout = 3 * time.Second // of each check
	checksServe  = time.Second     // for how long answers are not asked for again
)

// Check is one thing that a process needs to do its work.
type Check struct {
	Name string
	// Ask says what is wrong, in a line that holds no password. It returns by
	// ctx's deadline.
	Ask func(ctx context.Context) error
}

// Health is the body of /livez and /readyz. OK is also told by the status: 200 or 503.
type Health struct {
	OK     bool     `json:"ok"`
	Checks []Answer `json:"checks,omitempty"`
}

// Answer is what one check said.
type Answer struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

func answerOf(name string, err error) Answer {
	if err != nil {
		return Answer{Name: name, Error: strings.Join(strings.Fields(err.Error()), " ")}
	}
	return Answer{Name: name, OK: true}
}

// healthOf is well if all the answers are.
func healthOf(answers []Answer) Health {
	health := Health{OK: true, Checks: answers}
	for _, answer := range answers {
		health.OK = health.OK && answer.OK
	}
	return health
}

// String names what is not well: "store: connection refused; backend: no answer".
func (h Health) String() string {
	var wrong []string
	for _, answer := range h.Checks {
		if !answer.OK {
			wrong = append(wrong, answer.Name+": "+answer.Error)
		}
	}
	return strings.Join(wrong, "; ")
}

func (h Health) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !h.OK {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(h) // who asked may be gone
}

func liveness(live func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		healthOf([]Answer{answerOf("loops", live())}).write(w)
	}
}

// readiness asks the checks for all who want to know at the same time.
type readiness struct {
	ctx    context.Context // the server's
	checks []Check

	mu      sync.Mutex
	answers []Answer
	askedAt time.Time
}

func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) { healthOf(r.ask()).write(w) }

func (r *readiness) ask() []Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.askedAt.IsZero() && time.Since(r.askedAt) < checksServe {
		return r.answers
	}
	// Not the request's context: the answers are for others too.
	ctx, cancel := context.WithTimeout(r.ctx, checkTimeout)
	defer cancel()
	r.answers = make([]Answer, len(r.checks))
	var asking sync.WaitGroup
	for i, check := range r.checks {
		asking.Go(func() { r.answers[i] = answerOf(check.Name, check.Ask(ctx)) })
	}
	asking.Wait()
	r.askedAt = time.Now()
	return r.answers
}

package asynq

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// logAdapter is Asynq's logger. Asynq speaks of trouble with Redis once per server,
// goroutine and try; here each kind of line is a warning once a minute and a debug
// line otherwise. Nothing of it is an error: the rows are safe.
type logAdapter struct {
	logger *slog.Logger

	mu   sync.Mutex
	told map[string]time.Time
}

func newLogAdapter(logger *slog.Logger) *logAdapter {
	return &logAdapter{logger: logger, told: make(map[string]time.Time)}
}

// noise begins the lines that describe what this package does on purpose, or what
// means nothing when every task is tried once and its row knows the outcome.
var noise = []string{
	"Quitting worker",      // a message goes back to the queue at the end
	"Retry exhausted",      // a crashed worker's task is filed away; its row's lease brings it back
	"recoverer: could not", // of tasks that are gone
	"revoke task",
}

// quietTime is how long a kind of line is not repeated as a warning.
const quietTime = time.Minute

func (a *logAdapter) Debug(args ...any) { a.logger.Debug("asynq", "detail", fmt.Sprint(args...)) }
func (a *logAdapter) Info(args ...any)  { a.Debug(args...) }
func (a *logAdapter) Warn(args ...any)  { a.warn(fmt.Sprint(args...)) }
func (a *logAdapter) Error(args ...any) { a.warn(fmt.Sprint(args...)) }

// Fatal does not end the process, which is not Asynq's.
func (a *logAdapter) Fatal(args ...any) { a.logger.Error("asynq", "detail", fmt.Sprint(args...)) }

func (a *logAdapter) warn(text string) {
	if a.repeats(text) {
		a.logger.Debug("asynq", "detail", text)
		return
	}
	a.logger.Warn("asynq", "detail", text)
}

func (a *logAdapter) repeats(text string) bool {
	for _, beginning := range noise {
		if strings.HasPrefix(text, beginning) {
			return true
		}
	}
	kind, _, _ := strings.Cut(text, ":")
	kind, _, _ = strings.Cut(kind, "id=") // ids differ from line to line
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if last, ok := a.told[kind]; ok && now.Sub(last) < quietTime {
		return true
	}
	a.told[kind] = now
	return false
}

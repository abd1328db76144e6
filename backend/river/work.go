package river

import (
	"context"
	"errors"
	"sync"
	"time"

	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// DefaultStuckAfter is when a job that still runs is taken for one whose process
// died; see Config.StuckAfter.
const DefaultStuckAfter = time.Hour

// idlePause is how long a job waits that came to a worker for whose queue nobody
// consumes. It is the longest that River counts without its scheduler.
const idlePause = 5 * time.Second

// Worker is River's worker of Waybill's jobs. It gives each to a Consume of the
// job's queue that has a slot free, and River holds the job for as long as the
// handler runs.
//
// A team that runs River itself adds one to its own workers; see NewWithClient.
type Worker struct {
	queue.WorkerDefaults[args]
	stuckAfter time.Duration
	pause      time.Duration

	mu     sync.Mutex
	queues map[string]*meeting
}

var _ queue.Worker[args] = (*Worker)(nil)

// meeting is where the jobs of a queue meet those who consume it.
type meeting struct {
	calls     chan *call    // unbuffered: a job goes to who has a slot free
	nobody    chan struct{} // closed while nobody consumes
	consumers int
}

// NewWorker returns a Worker for the workers of a team's own River client. A job
// that comes while nobody consumes its queue is snoozed for 5s, which costs it no
// attempt.
func NewWorker() *Worker { return newWorker(DefaultStuckAfter, idlePause) }

func newWorker(stuckAfter, pause time.Duration) *Worker {
	return &Worker{stuckAfter: stuckAfter, pause: pause, queues: make(map[string]*meeting)}
}

// Timeout is when River takes a job for stuck, whatever its client's JobTimeout.
// It interrupts nothing: the handler does not see River's context.
func (w *Worker) Timeout(*queue.Job[args]) time.Duration { return w.stuckAfter }

// call is a job on its way through a handler.
type call struct {
	job      *queue.Job[args]
	returned chan error
}

// errNotTaken is the answer of a consumer that ended in the moment it was asked.
var errNotTaken = errors.New("the consumer has ended")

// Work gives the job to a consumer and returns what the handler returned.
func (w *Worker) Work(ctx context.Context, job *queue.Job[args]) error {
	c := &call{job: job, returned: make(chan error, 1)}
	for {
		calls, nobody := w.meet(job.Queue)
		select {
		case calls <- c:
			if err := <-c.returned; err != errNotTaken {
				return err
			}
		case <-nobody:
			if w.pause > 0 {
				return queue.JobSnooze(w.pause)
			}
			return putBack(job)
		case <-ctx.Done():
			return putBack(job)
		}
	}
}

// putBack makes the job available again at once, at its old place in the queue. To
// a process whose clock is behind the database's that place is in the future, and
// River would keep the job out of sight until then: it goes to the head instead.
func putBack(job *queue.Job[args]) error {
	return &rivertype.JobSnoozeError{Duration: min(time.Until(job.ScheduledAt), 0)}
}

func (w *Worker) meet(queue string) (calls chan<- *call, nobody <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.meeting(queue)
	return m.calls, m.nobody
}

// attach announces a consumer of a queue and returns where it gets its calls.
func (w *Worker) attach(queue string) <-chan *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.meeting(queue)
	if m.consumers == 0 {
		m.nobody = make(chan struct{})
	}
	m.consumers++
	return m.calls
}

// detach takes a consumer's announcement back.
func (w *Worker) detach(queue string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.meeting(queue)
	m.consumers--
	if m.consumers == 0 {
		close(m.nobody)
	}
}

func (w *Worker) meeting(queue string) *meeting {
	m, ok := w.queues[queue]
	if !ok {
		m = &meeting{calls: make(chan *call), nobody: make(chan struct{})}
		close(m.nobody)
		w.queues[queue] = m
	}
	return m
}

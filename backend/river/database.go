package river

import (
	"context"
	"time"

	queue "github.com/riverqueue/river"

	"github.com/waybill-go/waybill"
)

// database is where River's tables are: Postgres or SQLite.
type database interface {
	// insert adds jobs in a transaction of its own. An error comes with what
	// became of all of them: not sent, or unknown.
	insert(ctx context.Context, jobs []queue.InsertManyParams) (waybill.EnqueueStatus, error)
	// refuses reports whether an error is about what was inserted, and not
	// about the database.
	refuses(err error) bool
	// shares reports whether tx is a transaction of this database.
	shares(ctx context.Context, tx any) (bool, error)
	// insertTx adds jobs in tx, which is one of this database.
	insertTx(ctx context.Context, tx any, jobs []queue.InsertManyParams) error
	// backlog asks what is in a queue.
	backlog(ctx context.Context, queue string) (counts, error)
	// missing returns how many of River's migrations the database lacks.
	missing(ctx context.Context) (int, error)
	// kinds returns the first and the last kind of job there is, in some order
	// of the database; both are empty without jobs.
	kinds(ctx context.Context) (first, last string, err error)
	// open makes a client that works jobs, without talking to the database yet.
	open(config *queue.Config) (*session, error)
	// where names the database for an error, without anything secret.
	where() string
}

// counts are what a queue holds.
type counts struct {
	ready, running int64
	oldest         time.Duration
}

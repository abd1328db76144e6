package river

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// workDriver is the driver of a client that works jobs.
type workDriver struct{ *riverpgxv5.Driver }

func newWorkDriver(pool *pgxpool.Pool) workDriver { return workDriver{riverpgxv5.New(pool)} }

// GetListener returns a listener whose every failure fails the start of a client.
func (d workDriver) GetListener(params *riverdriver.GetListenenerParams) riverdriver.Listener {
	return listener{d.Driver.GetListener(params)}
}

// listener words its errors. River takes one that ends with "conn closed" for its
// own stop: a client whose connection broke at the wrong moment would start without
// the part that fetches, say nothing, and never work a job.
type listener struct{ riverdriver.Listener }

// Listen begins to hear of a topic.
func (l listener) Listen(ctx context.Context, topic string) error {
	if err := l.Listener.Listen(ctx, topic); err != nil {
		return fmt.Errorf("%w on the listening connection", err)
	}
	return nil
}

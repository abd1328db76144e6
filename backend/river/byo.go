package river

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
)

// NewWithClient returns a Backend for a team that runs River itself. It inserts
// through the team's client, a *river.Client[pgx.Tx] on Postgres or a
// *river.Client[*sql.Tx] on SQLite, and a Consume handles what that client fetches
// from the Backend's queue. Starting, stopping, housekeeping and the leadership of
// the schema stay the team's.
//
// The worker was added to the client's workers, and the client has the Backend's
// queue among its queues; MaxWorkers there is best what Consume has as concurrency:
// jobs beyond that wait, held by this process. A process that only sends needs
// neither, and passes a nil worker. One worker serves any number of queues. Consume
// ends before the client is stopped: the client waits for its handler calls.
//
// Config.Pool or Config.DB is of the database that holds the client's tables, and
// Schema is the client's. Settings of a working client are the client's own and
// must not be in Config: FetchCooldown, FetchPollInterval, PollOnly, StuckAfter and
// the retentions. A client announces each of its queues once in its FetchCooldown,
// even if the first announcement is rolled back; its FetchPollInterval is how long
// a job may then wait.
func NewWithClient[TTx any](client *queue.Client[TTx], worker *Worker, config Config) (*Backend, error) {
	if client == nil {
		return nil, errors.New("river backend: no client")
	}
	if config.FetchCooldown != 0 || config.FetchPollInterval != 0 || config.PollOnly || config.StuckAfter != 0 ||
		config.CompletedRetention != 0 || config.CancelledRetention != 0 || config.DiscardedRetention != 0 {
		return nil, errors.New("river backend: how jobs are fetched and kept is a matter of the client's own settings")
	}
	if config.Schema != "" && config.Schema != client.Schema() {
		return nil, fmt.Errorf("river backend: schema %q is not the client's, which is %q", config.Schema, client.Schema())
	}
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("river backend: %w", err)
	}
	tables, err := clientDatabase(client, config)
	if err != nil {
		return nil, fmt.Errorf("river backend: %w", err)
	}
	b := newBackend(config)
	b.database, b.ofTeam, b.worker = tables, true, worker
	return b, nil
}

func clientDatabase[TTx any](client *queue.Client[TTx], config Config) (database, error) {
	switch own := any(client).(type) {
	case *queue.Client[pgx.Tx]:
		if config.Pool != nil {
			return newPostgres(config.Pool, own.Driver(), own.Schema(), ofTeam(own)), nil
		}
	case *queue.Client[*sql.Tx]:
		if config.DB != nil && own.Driver().DatabaseName() == riverdriver.DatabaseNameSQLite {
			return newSQLite(config.DB, own.Driver(), ofTeam(own))
		}
	}
	return nil, errors.New("a client on pgx needs Pool, and one on SQLite needs DB; others are not supported")
}

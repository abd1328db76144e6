// Package river hands deliveries to workers through River, on Postgres or SQLite.
//
// A message is an ordinary River job, seen and paused by River's tools, with
// nothing of its own to say: it is worked once, never retried, never scheduled and
// soon deleted, because retries, outcomes and debts live on the row.
//
// Where River's tables are in the database that also holds the rows, claim and
// hand-off are one transaction (EnqueueTx): a crash anywhere leaves both or
// neither. The price is paid there as well: a job costs that database four writes
// more for each delivery. It is the queue for teams that run River already.
//
// By default River's tables are in a schema of their own, so that these clients
// elect a leader of their own and touch nobody else's jobs. A team's own clients
// can be used instead: see NewWithClient.
package river

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"

	"github.com/waybill-go/waybill"
)

// DefaultSchema is where River's tables are on Postgres, unless told otherwise.
const DefaultSchema = "waybill_river"

// Config of a Backend. Exactly one of Pool and DB is set.
type Config struct {
	// Pool is of the Postgres database that holds River's tables. Consume works
	// on connections of its own with the pool's settings, up to six of them. Its
	// owner closes the pool after every Consume has returned.
	Pool *pgxpool.Pool
	// DB is a handle from OpenSQLite, on the file that holds River's tables. Its
	// owner closes it after every Consume has returned.
	DB *sql.DB

	// Schema holds River's tables on Postgres. It must be nobody else's: one of
	// the clients there becomes the leader of the schema, deletes its finished
	// jobs and discards those it does not know. Defaults to DefaultSchema.
	Schema string
	// Lane names the queue: waybill.QueueName(Lane). Defaults to "default".
	Lane string
	// Queue names the queue itself, instead of Lane.
	Queue string
	// Timeout bounds each transaction of Enqueue, each question asked of the
	// database, and how long a Consume waits for its client to end before it
	// cuts the connections. Defaults to 5s.
	Timeout time.Duration

	// FetchCooldown is the least time between two fetches of a Consume. Each
	// fetches no more than there are slots free, so it bounds the rate: slots
	// divided by FetchCooldown. Defaults to 10ms, on SQLite to 20ms.
	FetchCooldown time.Duration
	// FetchPollInterval is how often the queue is looked at although nothing
	// was announced. Defaults to 1s.
	FetchPollInterval time.Duration
	// PollOnly makes Consume poll and never LISTEN, as a connection through
	// PgBouncer in transaction mode needs. FetchPollInterval should then be
	// 200ms to 500ms. Defaults to false.
	PollOnly bool

	// StuckAfter is longer than any run takes. A job that has been running for
	// that long is taken for one whose process died, and filed away as
	// discarded; until then it counts as running. A run that does take longer
	// goes on all the same. Defaults to 1h.
	StuckAfter time.Duration
	// CompletedRetention is how long River keeps the job of a message that was
	// handled. Of this and the next two, the settings of whichever client leads
	// count for the schema. Defaults to 5m, on SQLite to 1m.
	CompletedRetention time.Duration
	// CancelledRetention is how long River keeps a job that an operator
	// cancelled. Defaults to 1h.
	CancelledRetention time.Duration
	// DiscardedRetention is how long River keeps the job of a message whose
	// handling failed, with the error. Defaults to 24h.
	DiscardedRetention time.Duration

	// Drain bounds how long a Consume that is to end waits for handler calls
	// that run. It must be longer than they need: a worker's Drain, and more.
	// Defaults to 10m.
	Drain time.Duration

	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Backend is one queue of a River.
type Backend struct {
	config   Config
	queue    string
	database database
	ofTeam   bool    // a team's own client works the jobs
	worker   *Worker // of that client
	log      *slog.Logger
}

var (
	_ waybill.TaskBackend   = (*Backend)(nil)
	_ waybill.TxBackend     = (*Backend)(nil)
	_ waybill.Consumer      = (*Backend)(nil)
	_ waybill.Checker       = (*Backend)(nil)
	_ waybill.BacklogReader = (*Backend)(nil)
)

// New returns a Backend. It does not talk to the database; Check does.
func New(config Config) (*Backend, error) {
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("river backend: %w", err)
	}
	if config.Pool != nil && config.Schema == "" {
		config.Schema = DefaultSchema
	}
	b := newBackend(config)
	log := quiet(b.log, newTold())
	if config.Pool != nil {
		driver := riverpgxv5.New(config.Pool)
		b.database = newPostgres(config.Pool, driver, config.Schema, insertOnly(driver, config.Schema, log))
		return b, nil
	}
	driver := riversqlite.New(config.DB)
	file, err := newSQLite(config.DB, driver, insertOnly(driver, "", log))
	if err != nil {
		return nil, fmt.Errorf("river backend: %w", err)
	}
	b.database = file
	return b, nil
}

func newBackend(config Config) *Backend {
	return &Backend{
		config: config, queue: config.Queue,
		log: config.Logger.With("backend", "river", "queue", config.Queue),
	}
}

// River's own rules for names.
var (
	queuePattern  = regexp.MustCompile(`^[a-z0-9]+(?:[_|\-]?[a-z0-9]+)*$`)
	schemaPattern = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

const (
	maxQueueLength  = 64
	maxSchemaLength = 46 // what Postgres leaves of a channel's name
)

func (c *Config) complete() error {
	if (c.Pool == nil) == (c.DB == nil) {
		return errors.New("exactly one of Pool and DB is needed")
	}
	if c.DB != nil && c.Schema != "" {
		return errors.New("a SQLite file has no schemas")
	}
	if err := checkSchemaName(c.Schema); err != nil {
		return err
	}
	if c.Lane == "" {
		c.Lane = waybill.DefaultLane
	}
	if c.Queue == "" {
		c.Queue = waybill.QueueName(c.Lane)
	}
	if err := checkQueueName(c.Queue); err != nil {
		return err
	}
	cooldown, completed := 10*time.Millisecond, 5*time.Minute
	if c.DB != nil {
		cooldown, completed = 20*time.Millisecond, time.Minute
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"Timeout", &c.Timeout, 5 * time.Second},
		{"FetchCooldown", &c.FetchCooldown, cooldown},
		{"FetchPollInterval", &c.FetchPollInterval, time.Second},
		{"StuckAfter", &c.StuckAfter, DefaultStuckAfter},
		{"CompletedRetention", &c.CompletedRetention, completed},
		{"CancelledRetention", &c.CancelledRetention, time.Hour},
		{"DiscardedRetention", &c.DiscardedRetention, 24 * time.Hour},
		{"Drain", &c.Drain, 10 * time.Minute},
	} {
		if *d.value < 0 {
			return fmt.Errorf("%s %s is negative", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if c.FetchCooldown < time.Millisecond || c.FetchPollInterval < c.FetchCooldown {
		return fmt.Errorf("FetchCooldown %s must be 1ms at least, and no longer than FetchPollInterval %s", c.FetchCooldown, c.FetchPollInterval)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return nil
}

func checkQueueName(name string) error {
	if len(name) > maxQueueLength {
		return fmt.Errorf("queue name %q: River allows %d characters and this is %d", name, maxQueueLength, len(name))
	}
	if !queuePattern.MatchString(name) {
		return fmt.Errorf("queue name %q: River allows only lower-case letters and digits, in words joined by - or _", name)
	}
	return nil
}

func checkSchemaName(name string) error {
	if len(name) > maxSchemaLength {
		return fmt.Errorf("schema name %q: River allows %d characters and this is %d", name, maxSchemaLength, len(name))
	}
	if name != "" && !schemaPattern.MatchString(name) {
		return fmt.Errorf("schema name %q: River allows only letters, digits and _, and no digit at the beginning", name)
	}
	return nil
}

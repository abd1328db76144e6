// Package postgres keeps Waybill's rows in PostgreSQL 13 or later, through pgx or, with
// OpenDB, through database/sql and any driver.
//
//	pool, err := pgxpool.New(ctx, url)
//	store, err := postgres.Open(ctx, pool, reg)
//	err = store.InTx(ctx, func(tx pgx.Tx) error {
//		...the application's own change...
//		_, err := store.Fire(ctx, tx, OrderPlaced{ID: 42})
//		return err
//	})
//
// The application's transaction is its own: Fire adds one statement to it.
// Everything after that is one conditional statement for each step, committed
// alone, in the order of the files: fire, claim, lapsed, giveback, take, look,
// extend, ack, runtx; pause stops the claims and takes of a lane, and eager claims what
// this process has just fired. Cancel and reopen are statements in the application's
// transaction, as fire is. With a queue in the same database, the steps up to its
// messages can be one transaction: claimtx. All of them go through database, whichever
// it is.
//
// Statements name their tables with the schema, so that the connections of the
// application can be used whatever their search_path is.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
)

// Defaults of a Config.
const (
	DefaultSchema      = "waybill"
	DefaultCallTimeout = 10 * time.Second
)

// Config configures a Store. It has exactly one of Pool and DB.
type Config struct {
	// Pool is the application's own pool, and stays its own: the store never
	// closes it. Each call takes one connection for as long as it lasts. Either it or
	// DB is required.
	Pool *pgxpool.Pool
	// DB is the same through database/sql, with any driver of PostgreSQL; see OpenDB.
	DB *sql.DB
	// Registry holds the declared events and receivers. Required.
	Registry *waybill.Registry
	// Schema holds the tables. Defaults to "waybill".
	Schema string
	// CallTimeout bounds each call, the wait for a connection included.
	// Defaults to 10s.
	CallTimeout time.Duration
	// ClockOffset is added to the database's clock. For tests only.
	ClockOffset time.Duration
	// WakeInterval is how often a lane is woken at most: one wake stands for all that
	// is fired in the same time, because relays look for more for as long. It should
	// be the relays' own. Negative sends a wake for each commit. Defaults to
	// waybill.DefaultWakeInterval.
	WakeInterval time.Duration
	// PollOnly sends no wakes: what is fired waits for a relay's poll. A commit that
	// notifies takes a lock that is one for the whole server, and a server that is
	// full of commits may do better without.
	PollOnly bool
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Store is a waybill.Store on PostgreSQL. It is safe for use by many goroutines.
type Store struct {
	db       database
	registry *waybill.Registry
	schema   string
	timeout  time.Duration
	logger   *slog.Logger
	offset   *atomic.Int64 // microseconds; not zero in tests only
	bound    bool          // to one transaction; see Within

	// The settings of a transaction that is one call, and of one that others go on
	// with. There are none where it is the caller's.
	plain, among string

	wakeInterval time.Duration
	pollOnly     bool
	waking       *waking
	commits      *waybill.CommitHook
}

var (
	_ waybill.TxStore      = (*Store)(nil)
	_ waybill.TxClaimer    = (*Store)(nil)
	_ waybill.Coalescing   = (*Store)(nil)
	_ waybill.EagerStore   = (*Store)(nil)
	_ waybill.StatusReader = (*Store)(nil)
	_ waybill.Pooled       = (*Store)(nil)
)

// New returns a store and does not reach for the database; see Check.
func New(config Config) (*Store, error) {
	var db database = pool{config.Pool}
	switch {
	case (config.Pool == nil) == (config.DB == nil):
		return nil, errors.New("postgres: one of Config.Pool and Config.DB is required, and not both")
	case config.DB != nil:
		db = sqlDB{config.DB}
	}
	if config.Registry == nil {
		return nil, errors.New("postgres: Config.Registry is required")
	}
	if err := config.Registry.Err(); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if config.CallTimeout < 0 {
		return nil, fmt.Errorf("postgres: CallTimeout %s is negative", config.CallTimeout)
	}
	schema, err := schemaName(config.Schema)
	if err != nil {
		return nil, err
	}
	s := &Store{
		db: db, registry: config.Registry, schema: schema,
		timeout: config.CallTimeout, logger: config.Logger, offset: new(atomic.Int64),
		wakeInterval: config.WakeInterval, pollOnly: config.PollOnly, waking: newWaking(), commits: &waybill.CommitHook{},
	}
	if s.wakeInterval == 0 {
		s.wakeInterval = waybill.DefaultWakeInterval
	}
	if s.timeout == 0 {
		s.timeout = DefaultCallTimeout
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.plain, s.among = byIndex, byIndex+fmt.Sprintf(abandonedSQL, max(1, s.timeout.Milliseconds()))
	if config.DB != nil {
		s.plain = s.among // it is several round trips
	}
	s.SetClockOffset(config.ClockOffset)
	return s, nil
}

// Open returns a store in the default schema and checks that the schema is the
// one this release works with. Where there is none yet, and in a program that migrates
// by itself, it is New, Migrator().Up and Check.
func Open(ctx context.Context, pool *pgxpool.Pool, reg *waybill.Registry) (*Store, error) {
	return open(ctx, Config{Pool: pool, Registry: reg})
}

func open(ctx context.Context, config Config) (*Store, error) {
	s, err := New(config)
	if err != nil {
		return nil, err
	}
	if err := s.Check(ctx); err != nil {
		if errors.Is(err, errMigrate) {
			err = fmt.Errorf("%w (or, in the program itself, Migrator().Up of a store made by New)", err)
		}
		return nil, err
	}
	return s, nil
}

// schemaPattern keeps the name usable unquoted, and as the name of a channel.
var schemaPattern = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,49}$`)

func schemaName(name string) (string, error) {
	if name == "" {
		return DefaultSchema, nil
	}
	if !schemaPattern.MatchString(name) || strings.HasPrefix(name, "pg_") {
		return "", fmt.Errorf("postgres: schema %q must be at most 50 lower-case letters, digits and _, must not begin with a digit or with pg_", name)
	}
	return name, nil
}

// Registry returns the declarations the store was opened with.
func (s *Store) Registry() *waybill.Registry { return s.registry }

// Connections returns the size of the pool; that of a *sql.DB without a limit is
// math.MaxInt. A call takes one connection for as long as it lasts, and needs no second
// one; a listener has its own beside the pool.
func (s *Store) Connections() int { return s.db.connections() }

// SetClockOffset adds an offset to the database's clock from now on, as this
// store reads and stamps it. For tests only.
func (s *Store) SetClockOffset(offset time.Duration) { s.offset.Store(offset.Microseconds()) }

// ClockOffset returns what SetClockOffset has set, in whole microseconds.
func (s *Store) ClockOffset() time.Duration { return time.Duration(s.offset.Load()) * time.Microsecond }

// sql fits a statement to the schema and the clock. Production text is what
// stands in the source: another schema replaces the prefix "waybill.", and a
// test's clock replaces the two ways of asking the time.
func (s *Store) sql(text string) string {
	if s.schema != DefaultSchema {
		text = strings.ReplaceAll(text, "waybill.", `"`+s.schema+`".`)
	}
	if s.bound {
		// Within a transaction now() stands still. What is stamped with a clock that goes
		// on would never become due.
		text = strings.ReplaceAll(text, "clock_timestamp()", "now()")
	}
	if offset := s.offset.Load(); offset != 0 {
		text = strings.NewReplacer(
			"clock_timestamp()", fmt.Sprintf("(clock_timestamp() + interval '%d microseconds')", offset),
			"now()", fmt.Sprintf("(now() + interval '%d microseconds')", offset),
		).Replace(text)
	}
	return text
}

// byIndex goes before each statement that finds rows by id, in the same batch and
// so in the same transaction, to which it is limited. A plan made while the table
// was small would read the whole table for as long as the connection keeps it,
// however much the table has grown since. And a bitmap would meet, and lock, rows
// in the order in which they lie, where an index meets them in the order of their
// ids: with one order for all, no two statements can wait for each other.
const byIndex = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)`

// maxTries bounds how often one call is sent. A statement that the database undid
// because of another one changed nothing.
const maxTries = 5

// send runs the statements of a batch as one transaction, over pgx in one round trip,
// within the time of a call. build is called again for each try.
func (s *Store) send(ctx context.Context, build func(*pgx.Batch)) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for try := 1; ; try++ {
		batch := batchOf(s.plain)
		build(batch)
		err := s.db.send(ctx, batch)
		if err == nil || try == maxTries || !isConflict(err) {
			return err
		}
	}
}

// batchOf begins a batch with the settings of its transaction, if it has any.
func batchOf(settings string) *pgx.Batch {
	batch := &pgx.Batch{}
	if settings != "" {
		batch.Queue(settings)
	}
	return batch
}

// sendIn runs the statements of a batch in a transaction that others go on with, over
// pgx in one round trip, within the time of a call. There is no second try: what the
// database undoes is the transaction.
func (s *Store) sendIn(ctx context.Context, tx transaction, build func(*pgx.Batch)) error {
	return s.within(ctx, func(ctx context.Context) error {
		batch := batchOf(s.among)
		build(batch)
		return tx.send(ctx, batch)
	})
}

// abandonedSQL, which goes on from byIndex, has the server end the transaction when its
// client is silent for longer than a call may take. The rows it changed are locked until it ends, and a
// machine that is cut off in the middle of it would keep them from every other
// relay until the server's TCP gives up: for hours.
const abandonedSQL = `, set_config('idle_in_transaction_session_timeout', '%d', true)`

// isConflict reports whether the database undid a statement for no fault of its
// own: a deadlock, or a database whose default isolation is stricter than ours.
func isConflict(err error) bool {
	code := sqlState(err)
	return code == "40P01" || code == "40001"
}

// collectIDs adds the ids a statement returns to ids.
func collectIDs(ids *[]int64) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var id int64
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			*ids = append(*ids, id)
			return nil
		})
		return err
	}
}

// held spreads messages into the three arrays that a condition on the claim is
// made of. Statements match them by array_position, which is quick for batches
// of a few hundred and, unlike a join, has no plan to get wrong.
type held struct {
	ids []int64
	by  []string
	at  []time.Time
}

func (h *held) add(m waybill.Message) {
	h.ids = append(h.ids, m.DeliveryID)
	h.by = append(h.by, m.Claim.By)
	h.at = append(h.at, m.Claim.At.Time())
}

func stampOf(t pgtype.Timestamptz) waybill.Stamp {
	if !t.Valid {
		return 0
	}
	return waybill.StampOf(t.Time)
}

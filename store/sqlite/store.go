// Package sqlite keeps Waybill's rows in a SQLite file: the store of one
// machine, with nothing to install.
//
// Any number of processes on that machine may use one file at once. Every write
// is a transaction that takes SQLite's only write lock at its start (BEGIN
// IMMEDIATE), so that writers queue up instead of failing half-way; who waits
// longer than Config.CallTimeout gets an error. Readers never wait for a writer.
// A file on a network file system is refused: its locks and its shared memory
// do not reach the other machine, and two writers would destroy it.
//
// # What a crash can cost
//
// A process that dies in a transaction leaves no trace of it. A commit that
// returned is on the disk (synchronous=FULL): an event that was fired is owed
// also after a power cut. SQLite's NORMAL would be faster by one sync of the disk
// for each commit, and could forget the last commits in a power cut, whole ones
// in order: also the fire that a caller had already answered for.
//
// # Caveats
//
// InTx, RunTx and ClaimTx hold the write lock for as long as the caller's function
// runs: nobody fires, claims, takes or acknowledges meanwhile, in any process. Do
// nothing slow in them, and call only the methods of the Store that are given the
// transaction (Fire, FireAll, Cancel, Reopen): any other would wait for the lock that
// its own caller holds.
//
// A transaction of the application's own, on a connection of its own, has to
// begin with BEGIN IMMEDIATE as well, and to wait for its turn: one that begins as a
// reader fails with SQLITE_BUSY when it fires after somebody else wrote. The driver
// that this package registers is "sqlite" (modernc.org/sqlite), and such a connection
//
//	sql.Open("sqlite", "file:shop.db?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)")
//
// The tables event, delivery, lane_pause and schema_version are the store's: an
// application in the same file has none of these names.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
)

// Memory as a Path is a database of one Store alone, gone when that is closed.
const Memory = ":memory:"

// DefaultCallTimeout bounds a call, the wait for the write lock included.
const DefaultCallTimeout = 10 * time.Second

// Config says how a Store is opened.
type Config struct {
	// Path of the database file, or Memory. Required.
	Path string
	// Registry holds the declarations. Required.
	Registry *waybill.Registry
	// CallTimeout bounds every call of the Store: how long it waits for other
	// writers, and how long it works. Of InTx and RunTx it bounds all but the
	// caller's function. Defaults to 10s.
	CallTimeout time.Duration
	// ClockOffset is added to the machine's clock, for tests; see
	// SetClockOffset. Defaults to none.
	ClockOffset time.Duration
	// Logger is told of the migrations that run. Defaults to slog.Default().
	Logger *slog.Logger
}

// Store is a waybill.Store on a SQLite file. It is safe for use by many
// goroutines, and by many processes on one file.
type Store struct {
	path        string
	registry    *waybill.Registry
	callTimeout time.Duration
	clockOffset *atomic.Int64 // a time.Duration; shared with the stores that Within made
	logger      *slog.Logger

	// turn is held by whoever writes or waits for the file's lock: writers of
	// one process are served in the order they came, and only one of them
	// competes with the other processes.
	turn    chan struct{}
	writer  *sql.DB // one connection
	reader  *sql.DB // a few; of an in-memory database, the writer's
	bound   *sql.Tx // the transaction in which everything is done; see Within
	ended   error   // why the bound transaction is over; guarded by turn
	signals signals
	commits waybill.CommitHook

	steps []waybill.Migration // of the schema, none of them applied
	files fs.FS               // theirs
}

var (
	_ waybill.TxStore      = (*Store)(nil)
	_ waybill.TxClaimer    = (*Store)(nil)
	_ waybill.Coalescing   = (*Store)(nil)
	_ waybill.EagerStore   = (*Store)(nil)
	_ waybill.StatusReader = (*Store)(nil)
)

// Open opens a file that is migrated, and checks its schema. A new file has none yet:
// there, and in a program that migrates by itself, it is New, Migrator().Up and Check.
// An in-memory database is given its schema.
func Open(ctx context.Context, path string, registry *waybill.Registry) (*Store, error) {
	s, err := New(Config{Path: path, Registry: registry})
	if err != nil {
		return nil, err
	}
	if path == Memory {
		_, err = s.Migrator().Up(ctx)
	}
	if err == nil {
		err = s.Check(ctx)
	}
	if errors.Is(err, errMigrate) {
		err = fmt.Errorf("%w (or, in the program itself, Migrator().Up of a store made by New)", err)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// New returns a Store on the file at Config.Path. Nothing is read or created
// before its first use.
func New(config Config) (*Store, error) {
	switch {
	case config.Path == "":
		return nil, errors.New("open sqlite: the path is empty")
	case config.Registry == nil:
		return nil, errors.New("open sqlite: the registry is nil")
	case config.CallTimeout < 0:
		return nil, fmt.Errorf("open sqlite: call timeout %s is negative", config.CallTimeout)
	}
	if err := config.Registry.Err(); err != nil {
		return nil, fmt.Errorf("open sqlite: %w", err)
	}
	for _, r := range config.Registry.Receivers() {
		if r.Transactional() && r.Heartbeat {
			return nil, fmt.Errorf("open sqlite: receiver %q is transactional and declares heartbeat: its transaction holds the lock that extending its lease needs; declare a longer lease", r.Key)
		}
	}
	if config.CallTimeout == 0 {
		config.CallTimeout = DefaultCallTimeout
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	s := &Store{
		path: config.Path, registry: config.Registry, callTimeout: config.CallTimeout,
		logger: config.Logger, turn: make(chan struct{}, 1), clockOffset: new(atomic.Int64),
	}
	s.SetClockOffset(config.ClockOffset)
	var err error
	if s.steps, s.files, err = embeddedSteps(); err != nil {
		return nil, fmt.Errorf("open sqlite: %w", err)
	}
	if err := s.connect(); err != nil {
		return nil, fmt.Errorf("open sqlite: %w", err)
	}
	return s, nil
}

// Close closes the file. Calls that run have to end first.
func (s *Store) Close() error {
	if s.bound != nil {
		return nil // it is its caller's transaction that ends
	}
	if s.reader == s.writer {
		return s.writer.Close()
	}
	// The writer last: the last connection of all folds the write-ahead log
	// into the file, and a reader may not write.
	return errors.Join(s.reader.Close(), s.writer.Close())
}

// Registry returns the declarations the store was opened with.
func (s *Store) Registry() *waybill.Registry { return s.registry }

// SetClockOffset sets what is added to the machine's clock from now on, for
// tests of what time does to rows.
func (s *Store) SetClockOffset(offset time.Duration) { s.clockOffset.Store(int64(offset)) }

// ClockOffset returns what is added to the machine's clock.
func (s *Store) ClockOffset() time.Duration { return time.Duration(s.clockOffset.Load()) }

// now is the store's clock, in microseconds. What writes reads it under the write
// lock, so that stamps are in the order of the writes.
func (s *Store) now() int64 {
	return time.Now().Add(time.Duration(s.clockOffset.Load())).UnixMicro()
}

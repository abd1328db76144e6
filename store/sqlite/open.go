package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Bounds of what one process holds open, and of the write-ahead log's file once
// a checkpoint has emptied it.
const (
	maxReaders   = 4
	journalLimit = 16 << 20
)

// Waits between two tries for the write lock while another process has it.
const (
	firstLockWait = time.Millisecond
	maxLockWait   = 8 * time.Millisecond
)

// connect sets up the pools; connections are made at their first use.
func (s *Store) connect() (err error) {
	if s.path == Memory {
		s.writer, err = openPool(s.dataSource(writerDSN), 1)
		s.reader = s.writer
		return err
	}
	if s.path, err = filepath.Abs(s.path); err != nil {
		return err
	}
	if _, err = os.Stat(filepath.Dir(s.path)); err != nil {
		return fmt.Errorf("%w: create the directory first", err)
	}
	if err = checkFileSystem(s.path); err != nil {
		return err
	}
	if s.writer, err = openPool(s.dataSource(writerDSN), 1); err != nil {
		return err
	}
	s.reader, err = openPool(s.dataSource(readerDSN), maxReaders)
	return err
}

func openPool(source string, size int) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(source)
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size) // an in-memory database lives in its connection
	return pool, nil
}

type dsn int

const (
	writerDSN  dsn = iota
	readerDSN      // cannot write
	migrateDSN     // waits for locks by itself, as goose does not
)

// dataSource returns the name under which the driver opens the file.
func (s *Store) dataSource(kind dsn) string {
	options := url.Values{
		"_error_rc":     {"1"}, // an error's text is that error's
		"_foreign_keys": {"ON"},
		"_synchronous":  {"FULL"}, // see the package comment
		"_busy_timeout": {fmt.Sprint(s.callTimeout.Milliseconds())},
	}
	switch kind {
	case writerDSN:
		options.Set("_busy_timeout", "0") // begin waits, more evenly than SQLite does
		fallthrough
	case migrateDSN:
		options.Set("_txlock", "immediate")
		options.Add("_pragma", fmt.Sprintf("journal_size_limit(%d)", journalLimit))
		if s.path != Memory {
			options.Set("_journal_mode", "WAL")
		}
	case readerDSN:
		options.Set("_query_only", "ON")
	}
	name := filepath.ToSlash(s.path)
	if s.path != Memory && !strings.HasPrefix(name, "/") {
		name = "/" + name // C:/waybill.db
	}
	escaped := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(name)
	return "file:" + escaped + "?" + options.Encode()
}

// step is one step of the protocol, in a transaction that holds the write lock. now
// was read under it.
type step func(ctx context.Context, tx *sql.Tx, now int64) error

// write runs a step, in one transaction or another.
type write func(ctx context.Context, step step) error

// write runs a step in a transaction of its own.
func (s *Store) write(ctx context.Context, step step) error {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	return s.locked(ctx, ctx, func(tx *sql.Tx) error { return step(ctx, tx, s.now()) })
}

// locked runs work in a transaction that holds the write lock, and commits
// unless work returns an error or panics. wait bounds the wait for the lock; the
// end of life rolls the transaction back.
func (s *Store) locked(wait, life context.Context, work func(tx *sql.Tx) error) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-wait.Done():
		return s.notFree(wait)
	}
	if s.bound != nil {
		return s.saved(life, work)
	}
	life, release := context.WithCancel(life)
	defer release()
	stop := context.AfterFunc(wait, release)
	tx, err := s.begin(life)
	if !stop() { // the wait ended, and with it life: nothing that began goes on
		return s.notFree(wait)
	}
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() // nothing after a commit
	if err := work(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// begin begins a transaction as soon as the write lock is free. SQLite's own
// waiting backs off to a tenth of a second, and so never gets its turn beside
// another process that writes all the time.
func (s *Store) begin(ctx context.Context) (*sql.Tx, error) {
	for wait := firstLockWait; ; wait = min(2*wait, maxLockWait) {
		tx, err := s.writer.BeginTx(ctx, nil)
		if err == nil || !isBusy(err) {
			return tx, err
		}
		if !pause(ctx, wait/2+rand.N(wait)) {
			return nil, ctx.Err()
		}
	}
}

// pause waits, and reports whether ctx has not ended meanwhile.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func isBusy(err error) bool {
	var failure *sqlite.Error
	return errors.As(err, &failure) && failure.Code()&0xff == lib.SQLITE_BUSY
}

func (s *Store) notFree(ctx context.Context) error {
	return fmt.Errorf("wait for the write lock of %s, which a transaction of this or another process holds: %w", s.path, ctx.Err())
}

package river

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/waybill-go/waybill"
)

// busyTimeout is how long a statement of River waits for the file's write lock. It
// stays below the 10s that River gives each.
const busyTimeout = 8 * time.Second

// OpenSQLite returns a handle on the SQLite file at path with the settings River
// needs: one connection, WAL, and transactions that wait for the write lock at
// their start. The file may be the one that holds the store's rows, or another. It
// is opened, and made if need be, at its first use; its directory has to exist.
//
// A commit is on the disk with the next one of the store at the latest
// (synchronous=NORMAL): jobs that a power cut takes cost a lease.
func OpenSQLite(path string) (*sql.DB, error) {
	if path == "" || path == ":memory:" {
		return nil, errors.New("river: open sqlite: a file is needed, which other connections can open as well")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("river: open sqlite: %w", err)
	}
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("river: open sqlite: %w: create the directory first", err)
	}
	connector, err := sqlite.NewConnector(dataSource(path))
	if err != nil {
		return nil, fmt.Errorf("river: open sqlite: %w", err)
	}
	db := sql.OpenDB(&file{connector, path})
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	return db, nil
}

func dataSource(path string) string {
	options := url.Values{
		"_txlock":       {"immediate"},
		"_busy_timeout": {fmt.Sprint(busyTimeout.Milliseconds())},
		"_journal_mode": {"WAL"},
		"_synchronous":  {"NORMAL"},
		"_error_rc":     {"1"}, // an error's text is that error's
	}
	name := filepath.ToSlash(path)
	if !strings.HasPrefix(name, "/") {
		name = "/" + name // C:/waybill.db
	}
	return "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(name) + "?" + options.Encode()
}

// file is a connector that knows its file. To ask a handle for it would need the
// only connection, which a transaction may have.
type file struct {
	driver.Connector
	path string
}

// Driver returns what sql.DB.Driver does, which is the way back to the path.
func (f *file) Driver() driver.Driver { return fileDriver{f.Connector.Driver(), f.path} }

// Connect waits while another connection turns a new file to WAL, which is the one
// lock that SQLite does not wait for itself.
func (f *file) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		conn, err := f.Connector.Connect(ctx)
		if !isBusy(err) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(wait/2 + rand.N(wait)):
		}
	}
}

func isBusy(err error) bool {
	var failure *sqlite.Error
	return errors.As(err, &failure) && failure.Code()&0xff == lib.SQLITE_BUSY
}

type fileDriver struct {
	driver.Driver
	path string
}

// sqliteFile is a River on a SQLite file.
type sqliteFile struct {
	db     *sql.DB
	path   string
	client clientFunc[*sql.Tx]
}

func newSQLite(db *sql.DB, client clientFunc[*sql.Tx]) (*sqliteFile, error) {
	own, ok := db.Driver().(fileDriver)
	if !ok {
		return nil, errors.New("DB is not a handle from OpenSQLite")
	}
	return &sqliteFile{db: db, path: own.path, client: client}, nil
}

func (f *sqliteFile) where() string { return f.path }

func (f *sqliteFile) insert(ctx context.Context, jobs []queue.InsertManyParams) (waybill.EnqueueStatus, error) {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return waybill.EnqueueNotSent, fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() // nothing after a commit
	if err := f.insertTx(ctx, tx, jobs); err != nil {
		return waybill.EnqueueNotSent, err
	}
	switch err := tx.Commit(); {
	case err == nil:
		return waybill.EnqueueAccepted, nil
	case ctx.Err() != nil, errors.Is(err, sql.ErrTxDone): // it was rolled back before
		return waybill.EnqueueNotSent, fmt.Errorf("commit: %w", err)
	default:
		return waybill.EnqueueUnknown, fmt.Errorf("commit: %w", err)
	}
}

// refuses reports a violated constraint.
func (f *sqliteFile) refuses(err error) bool {
	var failure *sqlite.Error
	return errors.As(err, &failure) && failure.Code()&0xff == lib.SQLITE_CONSTRAINT
}

// shares compares files.
func (f *sqliteFile) shares(ctx context.Context, tx any) (bool, error) {
	own, ok := tx.(*sql.Tx)
	if !ok || own == nil {
		return false, nil
	}
	var other string
	err := own.QueryRowContext(ctx, `SELECT file FROM pragma_database_list WHERE name = 'main'`).Scan(&other)
	var failure *sqlite.Error
	switch {
	case errors.As(err, &failure), ctx.Err() != nil:
		return false, fmt.Errorf("ask the transaction for its file: %w", err)
	case err != nil:
		return false, nil // another kind of database
	}
	a, errA := os.Stat(f.path)
	b, errB := os.Stat(other)
	return errA == nil && errB == nil && os.SameFile(a, b), nil
}

func (f *sqliteFile) insertTx(ctx context.Context, tx any, jobs []queue.InsertManyParams) error {
	return f.client.insert(ctx, tx.(*sql.Tx), jobs)
}

// open makes a client on the handle itself: another connection would only have to
// wait for the same lock, and less evenly.
func (f *sqliteFile) open(config *queue.Config) (*session, error) {
	settings := *config
	settings.ReindexerIndexNames = []string{} // it would hold the lock for as long as it takes
	client, err := queue.NewClient(riversqlite.New(f.db), &settings)
	if err != nil {
		return nil, err
	}
	nothing := func() {}
	return &session{client: client, cut: nothing, close: nothing}, nil
}

func (f *sqliteFile) backlog(ctx context.Context, queue string) (c counts, err error) {
	var seconds float64
	const due = `state = 'available' AND queue = ?1 AND scheduled_at <= datetime('now', 'subsec')`
	err = f.db.QueryRowContext(ctx, `
SELECT (SELECT count(*) FROM (SELECT 1 FROM river_job WHERE `+due+` LIMIT ?2)),
       (SELECT count(*) FROM (SELECT 1 FROM river_job WHERE state = 'running' AND queue = ?1 LIMIT ?2)),
       coalesce((SELECT unixepoch('now', 'subsec') - unixepoch(scheduled_at, 'subsec') FROM river_job WHERE `+due+`
                 ORDER BY priority, scheduled_at, id LIMIT 1), 0.0)`,
		queue, backlogBound).Scan(&c.ready, &c.running, &seconds)
	c.oldest = duration(seconds)
	return c, err
}

func (f *sqliteFile) kinds(ctx context.Context) (first, last string, err error) {
	err = f.db.QueryRowContext(ctx, kindsSQL+"river_job").Scan(&first, &last)
	return first, last, err
}

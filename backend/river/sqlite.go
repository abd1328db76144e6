package river

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/waybill-go/waybill"
)

// sqliteFile is a River on a SQLite file.
type sqliteFile struct {
	db     *sql.DB
	path   string
	driver riverdriver.Driver[*sql.Tx]
	client clientFunc[*sql.Tx]
}

func newSQLite(db *sql.DB, driver riverdriver.Driver[*sql.Tx], client clientFunc[*sql.Tx]) (*sqliteFile, error) {
	own, ok := db.Driver().(fileDriver)
	if !ok {
		return nil, errors.New("DB is not a handle from OpenSQLite")
	}
	return &sqliteFile{db: db, path: own.path, driver: driver, client: client}, nil
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

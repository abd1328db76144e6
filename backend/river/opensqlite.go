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

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// busyTimeout is how long a statement of River waits for the file's write lock. It
// stays below the 10s that River gives each.
const busyTimeout = 8 * time.Second

// OpenSQLite returns a handle on the SQLite file at path with the settings River
// needs: one connection, WAL, and transactions that wait for the write lock at
// their start. The file may be the one that holds the store's rows, or another. It
// is opened, and made if need be, at its first use; its directory has to exist, on
// a disk of this machine.
//
// A power cut may take the last commits of the handle, whole ones in order
// (synchronous=NORMAL). A job that is lost so costs a lease; what EnqueueTx adds is
// as safe as the transaction it is in.
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

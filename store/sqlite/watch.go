package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// watch notices what other connections commit. It has a connection of its own,
// because data_version tells of the others' commits only.
type watch struct {
	pool    *sql.DB
	conn    *sql.Conn
	timeout time.Duration
	lane    string
	reg     *waybill.Registry
	version int64 // of the file
	newest  int64 // delivery seen
}

// watch begins to watch the file. Of an in-memory database there is nothing to
// watch: every writer is this process.
func (s *Store) watch(ctx context.Context, lane string) (*watch, error) {
	w := &watch{timeout: s.callTimeout, lane: lane, reg: s.registry}
	if s.path == Memory {
		return w, nil
	}
	var err error
	if w.pool, err = openPool(s.dataSource(readerDSN), 1); err != nil {
		return nil, err
	}
	if w.conn, err = w.pool.Conn(ctx); err == nil {
		_, err = w.fired(ctx)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *watch) close() error {
	var closed error
	if w.conn != nil {
		closed = w.conn.Close()
	}
	if w.pool != nil {
		closed = errors.Join(closed, w.pool.Close())
	}
	return closed
}

const (
	// It reads a counter in shared memory: idle, the file costs nothing to watch.
	dataVersionSQL = `PRAGMA data_version`
	// Claims and acknowledgements change the file as well; only new rows count.
	newestSQL = `SELECT COALESCE(MAX(id), 0) FROM delivery`
	// Ids are in the order of the commits, because one transaction writes at a time.
	newReceiversSQL = `SELECT DISTINCT receiver FROM delivery WHERE id > ? AND id <= ?`
)

// fired reports whether new deliveries of the lane were committed since it was last
// asked.
func (w *watch) fired(ctx context.Context) (bool, error) {
	if w.conn == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	var version, newest int64
	if err := w.conn.QueryRowContext(ctx, dataVersionSQL).Scan(&version); err != nil {
		return false, err
	}
	if version == w.version {
		return false, nil
	}
	if err := w.conn.QueryRowContext(ctx, newestSQL).Scan(&newest); err != nil {
		return false, err
	}
	first := w.version == 0
	ours := false
	if newest > w.newest && !first { // the first look is before all that is to be heard of
		rows, err := w.conn.QueryContext(ctx, newReceiversSQL, w.newest, newest)
		receivers, err := collect(rows, err, scanOne[string])
		if err != nil {
			return false, err
		}
		ours = slices.ContainsFunc(receivers, w.isOurs)
	}
	w.version, w.newest = version, max(w.newest, newest)
	return ours, nil
}

func (w *watch) isOurs(key string) bool {
	receiver, known := w.reg.Receiver(key)
	return !known || receiver.Lane == w.lane
}

package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
)

// A step reads and changes its rows one by one, each by its primary key, with a
// statement that is prepared once. There is no server to save a round trip to, and
// SQLite plans such a statement one way only. A join of the batch with the table
// it plans by statistics, if the application ever runs ANALYZE, and with those of
// an almost empty table it reads the whole of a large one for every row.

// change prepares a statement that changes one row and calls f with a function
// that executes it and reports whether it did. That the caller's time is over is
// noticed between two rows.
func change(ctx context.Context, tx *sql.Tx, query string, f func(execute func(args ...any) (bool, error)) error) error {
	quiet := context.WithoutCancel(ctx) // to watch a context for each row costs as much as the row
	statement, err := tx.PrepareContext(quiet, query)
	if err != nil {
		return err
	}
	defer statement.Close()
	return f(func(args ...any) (bool, error) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		result, err := statement.ExecContext(quiet, args...)
		if err != nil {
			return false, err
		}
		changed, err := result.RowsAffected()
		return changed > 0, err
	})
}

// changeHeld runs a statement on rows under their claims, as one step, and returns
// the ids of those that were held so. Its parameters are the clock, the id, both
// halves of the claim, and what args returns.
func changeHeld[T any](ctx context.Context, write write, query string, rows []T, message func(T) waybill.Message, args func(T) []any) ([]int64, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	var held []int64
	err := write(ctx, func(ctx context.Context, tx *sql.Tx, now int64) error {
		return change(ctx, tx, query, func(execute func(args ...any) (bool, error)) error {
			for _, row := range rows {
				m := message(row)
				ok, err := execute(append([]any{now, m.DeliveryID, m.Claim.By, m.Claim.At}, args(row)...)...)
				if err != nil {
					return fmt.Errorf("delivery %d: %w", m.DeliveryID, err)
				}
				if ok {
					held = append(held, m.DeliveryID)
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return held, nil
}

// preparer is what find reads with: a transaction, or a connection. Not a pool,
// where a statement would wait for a connection without its caller's deadline.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// find prepares a statement that reads one row by its id and returns those that
// are there, in the order of the ids.
func find[T any](ctx context.Context, db preparer, query string, ids []int64, scan func(row *sql.Row, into *T) error) ([]T, error) {
	quiet := context.WithoutCancel(ctx)
	statement, err := db.PrepareContext(quiet, query)
	if err != nil {
		return nil, err
	}
	defer statement.Close()
	found := make([]T, 0, len(ids))
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var one T
		switch err := scan(statement.QueryRowContext(quiet, id), &one); {
		case err == nil:
			found = append(found, one)
		case !errors.Is(err, sql.ErrNoRows):
			return nil, fmt.Errorf("read %d: %w", id, err)
		}
	}
	return found, nil
}

// collect reads all rows of a query and closes it.
func collect[T any](rows *sql.Rows, err error, scan func(rows *sql.Rows, into *T) error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		var one T
		if err := scan(rows, &one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

func scanOne[T any](rows *sql.Rows, into *T) error { return rows.Scan(into) }

// jsonArray is how a list of any length travels in one parameter. Nil is empty.
func jsonArray(values []string) string {
	if values == nil {
		values = []string{}
	}
	text, _ := json.Marshal(values) // cannot fail on strings
	return string(text)
}

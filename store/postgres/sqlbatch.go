package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// sendSQL runs a batch in a transaction of database/sql, statement by statement, and
// gives each its function's rows as pgx would.
func sendSQL(ctx context.Context, tx SQLTx, batch *pgx.Batch) error {
	for _, query := range batch.QueuedQueries {
		results := &sqlResults{ctx: ctx, tx: tx, query: query}
		var err error
		if query.Fn != nil {
			err = query.Fn(results)
		} else {
			_, err = results.Query()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sqlResults are the results of one statement. It runs when they are asked for.
type sqlResults struct {
	ctx   context.Context
	tx    SQLTx
	query *pgx.QueuedQuery
}

var _ pgx.BatchResults = (*sqlResults)(nil)

func (r *sqlResults) Exec() (tag pgconn.CommandTag, err error) {
	args, err := driverArgs(r.query.Arguments)
	if err != nil {
		return tag, err
	}
	n, err := bounded(r.ctx, func() (int64, error) {
		result, err := r.tx.ExecContext(r.ctx, r.query.SQL, args...)
		if err != nil {
			return 0, err
		}
		return result.RowsAffected()
	})
	if err != nil {
		return tag, err
	}
	return pgconn.NewCommandTag(fmt.Sprintf("UPDATE %d", n)), nil
}

func (r *sqlResults) Query() (pgx.Rows, error) {
	rows, err := bounded(r.ctx, func() (*sqlRows, error) {
		return querySQL(r.ctx, r.tx, r.query.SQL, r.query.Arguments)
	})
	if err != nil {
		rows = &sqlRows{err: err}
	}
	return rows, err
}

func (r *sqlResults) QueryRow() pgx.Row {
	rows, _ := r.Query() // the row says so
	return sqlRow{rows}
}

func (r *sqlResults) Close() error { return nil }
func (r *sqlResults) Tx() pgx.Tx   { return nil }

// querySQL runs a statement and reads all of its rows: nothing is left of it on the
// connection, and nothing but memory is read by those who take the rows apart, while
// the driver may still be waiting for one that was given up.
func querySQL(ctx context.Context, tx SQLTx, text string, arguments []any) (*sqlRows, error) {
	args, err := driverArgs(arguments)
	if err != nil {
		return nil, err
	}
	result, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer result.Close()
	columns, err := result.Columns()
	if err != nil {
		return nil, err
	}
	rows := &sqlRows{}
	for result.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := result.Scan(into...); err != nil {
			return nil, err
		}
		rows.left = append(rows.left, row)
		rows.read++
	}
	return rows, errors.Join(result.Err(), result.Close())
}

// sqlRows are rows that were read, as pgx's.
type sqlRows struct {
	left [][]any
	row  []any
	read int
	err  error
}

var _ pgx.Rows = (*sqlRows)(nil)

func (r *sqlRows) Close()     { r.left, r.row = nil, nil }
func (r *sqlRows) Err() error { return r.err }

func (r *sqlRows) CommandTag() pgconn.CommandTag {
	return pgconn.NewCommandTag(fmt.Sprintf("SELECT %d", r.read))
}

func (r *sqlRows) Next() bool {
	if len(r.left) == 0 {
		r.row = nil
		return false
	}
	r.row, r.left = r.left[0], r.left[1:]
	return true
}

func (r *sqlRows) Scan(dest ...any) error {
	if r.err == nil {
		r.err = scanAll(dest, r.row)
	}
	if r.err != nil {
		r.Close()
	}
	return r.err
}

func scanAll(dest, row []any) error {
	if len(dest) != len(row) {
		return fmt.Errorf("scan %d columns into %d variables", len(row), len(dest))
	}
	for i := range row {
		if err := scanValue(dest[i], row[i]); err != nil {
			return fmt.Errorf("scan column %d: %w", i+1, err)
		}
	}
	return nil
}

func (r *sqlRows) Values() ([]any, error)                       { return r.row, r.err }
func (r *sqlRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (r *sqlRows) RawValues() [][]byte                          { return nil }
func (r *sqlRows) Conn() *pgx.Conn                              { return nil }
func (r *sqlRows) TypeMap() *pgtype.Map                         { return nil }

// sqlRow is the first row, or none.
type sqlRow struct{ rows pgx.Rows }

func (r sqlRow) Scan(dest ...any) error {
	defer r.rows.Close()
	if err := r.rows.Err(); err != nil {
		return err
	}
	if !r.rows.Next() {
		return pgx.ErrNoRows
	}
	return r.rows.Scan(dest...)
}

package postgres

import (
	"context"
	"database/sql"
	"reflect"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
)

// SQLTx is what an event is fired in over database/sql: a *sql.Tx, what sqlc is given
// as its DBTX, GORM's tx.Statement.ConnPool, a bun.Tx, a *sql.Conn on which a transaction is open and, for an event that
// goes with no change of the application's own, a *sql.DB.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// FireSQL is Fire for a transaction of database/sql, of whatever driver. The store may
// be over a pool of pgx or over a *sql.DB: what is fired is the transaction's alone.
// Targets and due times that read in the firing transaction are given tx as it is.
//
// After the commit of a transaction that is not InSQLTx's, call Wake.
func (s *Store) FireSQL(ctx context.Context, tx SQLTx, event any) (int64, error) {
	return s.Fire(ctx, over(tx), event)
}

// FireAllSQL is FireAll for a transaction of database/sql; see FireSQL.
func (s *Store) FireAllSQL(ctx context.Context, tx SQLTx, events []any) ([]int64, error) {
	return s.FireAll(ctx, over(tx), events)
}

// CancelSQL is Cancel for a transaction of database/sql.
func (s *Store) CancelSQL(ctx context.Context, tx SQLTx, request waybill.CancelRequest) (waybill.CancelResult, error) {
	return s.Cancel(ctx, over(tx), request)
}

// ReopenSQL is Reopen for a transaction of database/sql.
func (s *Store) ReopenSQL(ctx context.Context, tx SQLTx, request waybill.ReopenRequest) ([]int64, error) {
	return s.Reopen(ctx, over(tx), request)
}

// overSQL is a transaction of database/sql, for the statements that are written for
// one of pgx.
type overSQL struct {
	tx SQLTx // as the application knows it
	to SQLTx // what statements go to
}

var _ DB = overSQL{}

// over goes to the transaction itself where it is embedded in a struct, as in bun's: that
// one writes parameters into statements, where it knows them by another sign than ours.
func over(tx SQLTx) overSQL {
	o := overSQL{tx, tx}
	v := reflect.Indirect(reflect.ValueOf(tx))
	if v.Kind() != reflect.Struct {
		return o
	}
	for i := range v.NumField() {
		if field := v.Type().Field(i); !field.Anonymous || !field.IsExported() || field.Type.Kind() != reflect.Pointer {
			continue
		}
		switch inner := v.Field(i).Interface().(type) {
		case *sql.Tx:
			o.to = inner
		case *sql.Conn:
			o.to = inner
		case *sql.DB:
			o.to = inner
		}
	}
	return o
}

func (o overSQL) Exec(ctx context.Context, text string, arguments ...any) (tag pgconn.CommandTag, err error) {
	args, err := driverArgs(withoutOptions(arguments))
	if err != nil {
		return tag, err
	}
	_, err = o.to.ExecContext(ctx, text, args...)
	return tag, err
}

func (o overSQL) Query(ctx context.Context, text string, arguments ...any) (pgx.Rows, error) {
	return querySQL(ctx, o.to, text, withoutOptions(arguments))
}

// withoutOptions leaves out how pgx is to execute a statement, which is no parameter.
func withoutOptions(arguments []any) []any {
	if len(arguments) > 0 {
		if _, option := arguments[0].(pgx.QueryExecMode); option {
			return arguments[1:]
		}
	}
	return arguments
}

// knownAs returns the transaction as the application knows it.
func knownAs(tx DB) any {
	if o, ok := tx.(overSQL); ok {
		return o.tx
	}
	return tx
}

// commitsAlone reports whether each statement is a transaction of its own.
func commitsAlone(tx DB) bool {
	switch tx := tx.(type) {
	case overSQL:
		_, pool := tx.to.(*sql.DB)
		return pool
	case *pgxpool.Pool:
		return true
	case *pgx.Conn:
		return tx.PgConn().TxStatus() == 'I' // idle: no transaction is open on it
	case *pgxpool.Conn:
		return tx.Conn().PgConn().TxStatus() == 'I'
	}
	return false
}

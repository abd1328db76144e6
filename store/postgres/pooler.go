package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A pooler in transaction mode gives each transaction the connection to the server
// that is free. What a session keeps there, a prepared statement or a LISTEN, is
// somebody else's afterwards. Only where it is of use is it kept: see checkPooler
// and Listen.

var errPooler = errors.New("a connection pooler is in between that does not carry prepared statements, which the pool keeps on its connections: " +
	"set default_query_exec_mode=cache_describe in the pool's URL, or its ConnConfig.DefaultQueryExecMode")

// checkPooler finds out whether the statements that the pool prepares would be there
// when they are used. Who is in between is seen by the process that answers: it is
// another one than the one that was connected to.
func (s *Store) checkPooler(ctx context.Context) error {
	pooled, err := s.isPooled(ctx)
	if err != nil || !pooled {
		return err
	}
	one, err := s.db.connect(ctx)
	if err != nil {
		return err
	}
	defer one.Close(ctx)
	two, err := s.db.connect(ctx)
	if err != nil {
		return err
	}
	defer two.Close(ctx)
	return carriesStatements(ctx, one, two)
}

// isPooled reports whether the pool prepares statements, and a pooler is in between.
// What another driver than pgx's prepares is that driver's choice.
func (s *Store) isPooled(ctx context.Context) (bool, error) {
	pooled := false
	err := s.db.borrow(ctx, func(conn *pgx.Conn) error {
		if conn.Config().DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
			return nil // as the pool's configuration says, or its BeforeConnect
		}
		pid, err := backend(ctx, conn)
		pooled = err == nil && pid != conn.PgConn().PID()
		return err
	})
	switch {
	case errors.Is(err, errNotPgx), s.bound:
		return false, nil
	case err != nil:
		return false, err
	}
	return pooled, nil
}

// statementTries bounds how often a pooler is asked that keeps to one connection.
const statementTries = 5

// carriesStatements has two clients of a pooler prepare a statement of the same name.
// On one connection to the server the second is refused. On two, the first finds its
// own missing as soon as it is given the other one, unless it is never given another.
func carriesStatements(ctx context.Context, one, two *pgx.Conn) error {
	first, err := prepare(ctx, one)
	if err != nil {
		return err
	}
	second, err := prepare(ctx, two)
	if err != nil || first == second {
		return err
	}
	for range statementTries {
		result := one.PgConn().ExecPrepared(ctx, checkStatement, nil, nil, nil).Read()
		if result.Err != nil {
			return statementError(result.Err)
		}
		if len(result.Rows) == 1 && string(result.Rows[0][0]) != fmt.Sprint(first) {
			return nil // it was carried along
		}
		if _, err := backend(ctx, two); err != nil { // another one becomes the last that was used
			return err
		}
	}
	return nil // a session of its own, by all appearances
}

// checkStatement has the same name in every process, so that one that was left behind
// is met again instead of joined by another.
const checkStatement = "waybill_check"

// prepare prepares the statement and returns the process that has it.
func prepare(ctx context.Context, conn *pgx.Conn) (pid uint32, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback(ctx)
	if pid, err = backend(ctx, conn); err != nil {
		return 0, err
	}
	_, err = conn.PgConn().Prepare(ctx, checkStatement, "SELECT pg_backend_pid()", nil)
	return pid, statementError(err)
}

// statementError tells a statement that is in the way, or not there, from other errors.
func statementError(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && (pgErr.Code == "42P05" || pgErr.Code == "26000" || strings.Contains(pgErr.Message, checkStatement)) {
		return errPooler
	}
	return err
}

// backend returns the process that answers, by a statement that nobody prepares.
func backend(ctx context.Context, conn *pgx.Conn) (pid uint32, err error) {
	err = conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid, err
}

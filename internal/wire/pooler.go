package wire

import (
	"context"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// pooler finds out once whether a connection pooler, such as PgBouncer, stands before
// the server. In transaction mode each transaction has a connection that others had
// before, on which a prepared statement of ours is missing, and theirs is in the way.
type pooler struct{ found atomic.Int32 }

const (
	unknown = iota
	direct
	between
)

// choose has the pool describe statements, and prepare none, where a pooler is in
// between: what it keeps is with us. Types and batches are as they are without one.
// In session mode nothing is lost by it but a little of the server's time.
func (p *pooler) choose(ctx context.Context, config *pgx.ConnConfig) error {
	if p.found.Load() == unknown {
		// Of several who connect at first, each looks: none of them has to wait for
		// another that may get no answer.
		found, err := look(ctx, config.Copy())
		if err != nil {
			return err
		}
		p.found.Store(found)
	}
	if p.found.Load() == between {
		config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return nil
}

// look connects once. A server tells at first which of its processes one is connected
// to; a pooler makes that up, and another one answers.
func look(ctx context.Context, config *pgx.ConnConfig) (found int32, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(config.ConnectTimeout, reachTimeout))
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return unknown, err
	}
	defer conn.Close(ctx)
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		return unknown, err
	}
	if pid == conn.PgConn().PID() {
		return direct, nil
	}
	return between, nil
}

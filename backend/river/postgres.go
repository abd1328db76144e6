package river

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"

	"github.com/waybill-go/waybill"
)

// workConnections is how many connections a working client shares: one fetches,
// one completes, and the leader's elections and housekeeping want two. The one that
// listens comes on top.
const workConnections = 5

// postgres is a River on Postgres.
type postgres struct {
	pool    *pgxpool.Pool
	schema  string
	address address
	driver  riverdriver.Driver[pgx.Tx]
	client  clientFunc[pgx.Tx]
}

// address tells databases apart.
type address struct {
	host     string
	port     uint16
	database string
}

func addressOf(config *pgx.ConnConfig) address {
	return address{config.Host, config.Port, config.Database}
}

func newPostgres(pool *pgxpool.Pool, driver riverdriver.Driver[pgx.Tx], schema string, client clientFunc[pgx.Tx]) *postgres {
	return &postgres{
		pool: pool, schema: schema, address: addressOf(pool.Config().ConnConfig),
		driver: driver, client: client,
	}
}

func (p *postgres) insert(ctx context.Context, jobs []queue.InsertManyParams) (waybill.EnqueueStatus, error) {
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return waybill.EnqueueNotSent, fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback(ctx) // nothing after a commit
	if err := p.insertTx(ctx, tx, jobs); err != nil {
		return waybill.EnqueueNotSent, err
	}
	if err := ctx.Err(); err != nil {
		return waybill.EnqueueNotSent, fmt.Errorf("commit: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return commitStatus(err), fmt.Errorf("commit: %w", err)
	}
	return waybill.EnqueueAccepted, nil
}

// commitStatus says what a failed commit leaves behind. What the server itself
// refused was rolled back; of everything else nobody knows. pgconn.SafeToRetry is
// no help: it says so too of a connection that broke after the commit was sent.
func commitStatus(err error) waybill.EnqueueStatus {
	var refusal *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return waybill.EnqueueNotSent
	case errors.As(err, &refusal) && refusal.Severity == "ERROR" && refusal.Code != "40003" && refusal.Code != "08007":
		return waybill.EnqueueNotSent
	}
	return waybill.EnqueueUnknown
}

// refuses reports a data exception (22) or a violated constraint (23).
func (p *postgres) refuses(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && len(refusal.Code) == 5 && (refusal.Code[:2] == "22" || refusal.Code[:2] == "23")
}

// shares compares addresses. A database that is reached by another name counts as
// another.
func (p *postgres) shares(_ context.Context, tx any) (bool, error) {
	own, ok := tx.(pgx.Tx)
	if !ok || own.Conn() == nil {
		return false, nil
	}
	return addressOf(own.Conn().Config()) == p.address, nil
}

func (p *postgres) insertTx(ctx context.Context, tx any, jobs []queue.InsertManyParams) error {
	return p.client.insert(ctx, tx.(pgx.Tx), jobs)
}

func (p *postgres) where() string {
	if p.schema == "" {
		return fmt.Sprintf("database %q", p.address.database)
	}
	return fmt.Sprintf("schema %q of database %q", p.schema, p.address.database)
}

// table returns the quoted name of one of River's tables.
func (p *postgres) table(name string) string {
	if p.schema == "" {
		return name // wherever the search path finds it
	}
	return pgx.Identifier{p.schema, name}.Sanitize()
}

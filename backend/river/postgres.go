package river

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

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
	client  *queue.Client[pgx.Tx]
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

// newPostgres returns the database of a pool, with an insert-only client of ours.
func newPostgres(pool *pgxpool.Pool, schema string, logger *slog.Logger) (*postgres, error) {
	client, err := queue.NewClient(riverpgxv5.New(pool), insertOnly(schema, logger))
	if err != nil {
		return nil, err
	}
	return newPostgresWith(client, pool, schema), nil
}

func newPostgresWith(client *queue.Client[pgx.Tx], pool *pgxpool.Pool, schema string) *postgres {
	return &postgres{pool: pool, schema: schema, address: addressOf(pool.Config().ConnConfig), client: client}
}

// insertOnly returns the settings of a client that is never started.
func insertOnly(schema string, logger *slog.Logger) *queue.Config {
	return &queue.Config{
		Schema:      schema,
		MaxAttempts: 1,
		// Without Queues this is nothing but the time in which a queue is not
		// announced twice. River starts it as it inserts, and not as that is
		// committed: jobs beside a transaction that is rolled back would wait
		// for the poll.
		FetchCooldown: time.Millisecond,
		Logger:        logger,
	}
}

func (p *postgres) insert(ctx context.Context, jobs []queue.InsertManyParams) (waybill.EnqueueStatus, error) {
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		return waybill.EnqueueNotSent, fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback(ctx) // nothing after a commit
	if _, err := p.client.InsertManyFastTx(ctx, tx, jobs); err != nil {
		return waybill.EnqueueNotSent, fmt.Errorf("insert jobs: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return commitStatus(err), fmt.Errorf("commit: %w", err)
	}
	return waybill.EnqueueAccepted, nil
}

// commitStatus says what a failed commit leaves behind. What the server itself
// refused, or never saw, was rolled back.
func commitStatus(err error) waybill.EnqueueStatus {
	var refusal *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrTxCommitRollback), pgconn.SafeToRetry(err):
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
	_, err := p.client.InsertManyFastTx(ctx, tx.(pgx.Tx), jobs)
	return err
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

package demo

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
	"github.com/waybill-go/waybill/store/sqlite"
)

// table is where the transactional receiver writes a row for each of its
// deliveries: in the store's database, with no constraint that would hide a second
// row.
type table interface {
	// txKind is the type of the transactions that the store hands out.
	txKind() string
	create(ctx context.Context, store wire.Store) error
	insert(ctx context.Context, tx any, d *waybill.Delivery) error
	// count returns the rows, and how many are not the first of their delivery.
	count(ctx context.Context, store wire.Store) (rows, doubled int64, err error)
}

// transactor is a store that runs the application's own transactions.
type transactor[Tx any] interface {
	InTx(ctx context.Context, work func(tx Tx) error) error
}

type sqliteTable struct{}

func (sqliteTable) txKind() string { return sqlite.TxKind }

func (sqliteTable) create(ctx context.Context, store wire.Store) error {
	return store.(transactor[*sql.Tx]).InTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE reservation (delivery_id INTEGER NOT NULL, payload_bytes INTEGER NOT NULL)`)
		return err
	})
}

func (sqliteTable) insert(ctx context.Context, tx any, d *waybill.Delivery) error {
	_, err := tx.(*sql.Tx).ExecContext(ctx, `INSERT INTO reservation (delivery_id, payload_bytes) VALUES (?, ?)`, d.ID, len(d.Event.Payload))
	return err
}

func (sqliteTable) count(ctx context.Context, store wire.Store) (rows, doubled int64, err error) {
	err = store.(transactor[*sql.Tx]).InTx(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT count(*), count(*) - count(DISTINCT delivery_id) FROM reservation`).Scan(&rows, &doubled)
	})
	return rows, doubled, err
}

type postgresTable struct{ schema string }

func (postgresTable) txKind() string { return "pgx.Tx" }

func (t postgresTable) create(ctx context.Context, store wire.Store) error {
	return store.(transactor[pgx.Tx]).InTx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `CREATE TABLE `+t.schema+`.reservation (delivery_id bigint NOT NULL, payload_bytes int NOT NULL)`)
		return err
	})
}

func (t postgresTable) insert(ctx context.Context, tx any, d *waybill.Delivery) error {
	_, err := tx.(pgx.Tx).Exec(ctx, `INSERT INTO `+t.schema+`.reservation (delivery_id, payload_bytes) VALUES ($1, $2)`, d.ID, len(d.Event.Payload))
	return err
}

func (t postgresTable) count(ctx context.Context, store wire.Store) (rows, doubled int64, err error) {
	err = store.(transactor[pgx.Tx]).InTx(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT count(*), count(*) - count(DISTINCT delivery_id) FROM `+t.schema+`.reservation`).Scan(&rows, &doubled)
	})
	return rows, doubled, err
}

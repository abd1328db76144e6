package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
)

// txKind is what OnTx declares, and what a store over a pool of pgx hands out.
const txKind = "pgx.Tx"

// OnTx registers a receiver that runs inside the transaction that records its
// acknowledgement: what it writes there and the acknowledgement are committed
// together or not at all, so both happen once. What it does elsewhere may happen
// again.
func OnTx[T any](reg *waybill.Registry, key string, run func(ctx context.Context, tx pgx.Tx, event T) error, opts waybill.Options) {
	waybill.OnTx(reg, key, txKind, func(ctx context.Context, tx any, event T) error {
		return run(ctx, tx.(pgx.Tx), event)
	}, opts)
}

// TxKind names the type of transaction that RunTx hands out.
func (s *Store) TxKind() string { return s.db.txKind() }

// OnSQLTx is OnTx for a store over a *sql.DB.
func OnSQLTx[T any](reg *waybill.Registry, key string, run func(ctx context.Context, tx *sql.Tx, event T) error, opts waybill.Options) {
	waybill.OnTx(reg, key, sqlTxKind, func(ctx context.Context, tx any, event T) error {
		return run(ctx, tx.(*sql.Tx), event)
	}, opts)
}

// RunTx runs a receiver in a transaction of its own and records the ack in it.
// Where the claim was lost meanwhile, all of it is rolled back and nothing has
// landed. An error of the commit leaves open whether it did: the row knows. What was
// fired in it wakes its lanes, as after InTx.
//
// The run is bounded by ctx only. What comes after it is bounded by the time of
// a call and goes on when ctx has ended: an outcome that can still be written is.
func (s *Store) RunTx(ctx context.Context, ack waybill.Ack, run func(ctx context.Context, tx any) error) (bool, error) {
	tx, err := s.begin(ctx)
	if err != nil {
		return false, fmt.Errorf("run delivery %d: %w", ack.DeliveryID, err)
	}
	defer s.rollBack(ctx, tx)
	fired, err := s.firingIn(tx, func() error { return run(ctx, tx.handle()) })
	if err != nil {
		return false, err
	}
	finish := context.WithoutCancel(ctx)
	landed, err := s.ackIn(finish, tx, ack)
	if err != nil {
		return false, fmt.Errorf("acknowledge delivery %d: %w", ack.DeliveryID, err)
	}
	if !landed {
		return false, nil
	}
	if err := s.within(finish, tx.commit); err != nil {
		return false, fmt.Errorf("commit delivery %d: %w", ack.DeliveryID, err)
	}
	s.tell(finish, fired)
	return true, nil
}

// ackIn records one outcome in a transaction.
func (s *Store) ackIn(ctx context.Context, tx transaction, ack waybill.Ack) (bool, error) {
	var (
		succeeded held
		others    outcomes
		ids       []int64
	)
	if plainSuccess(ack.Outcome) {
		succeeded.add(ack.Message)
	} else {
		others.add(ack)
	}
	err := s.sendIn(ctx, tx, func(batch *pgx.Batch) { s.queueAcks(batch, succeeded, others, &ids) })
	return len(ids) > 0, err
}

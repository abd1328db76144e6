package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-go/waybill"
)

// History returns the newest rows of a lane, whatever became of them.
func (s *Store) History(ctx context.Context, request waybill.HistoryRequest) ([]waybill.HistoryRow, error) {
	if request.Receivers != nil && len(request.Receivers) == 0 {
		return nil, nil
	}
	except := request.Except
	if except == nil {
		except = []string{} // NULL would except everything
	}
	rows, err := waybill.WalkHistory(request, func(below int64, n int) (rows []waybill.HistoryRow, lowest int64, err error) {
		err = s.send(ctx, func(batch *pgx.Batch) {
			rows, lowest = nil, 0 // it may be the second try
			batch.Queue(s.sql(historySQL), below, n, request.Receivers, except).Query(func(page pgx.Rows) error {
				var (
					row                            waybill.HistoryRow
					due, handedOff, taken, settled pgtype.Timestamptz
					ours                           bool
				)
				_, err := pgx.ForEachRow(page, []any{&row.ID, &row.Status, &due, &handedOff, &taken, &settled, &ours}, func() error {
					row.DueAt, row.HandedOffAt, row.TakenAt, row.SettledAt = stampOf(due), stampOf(handedOff), stampOf(taken), stampOf(settled)
					if lowest = row.ID; ours {
						rows = append(rows, row)
					}
					return nil
				})
				return err
			})
		})
		return rows, lowest, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the newest rows of a lane: %w", err)
	}
	return rows, nil
}

// The oldest row of the page comes with the lane's, to say where the next one begins.
const historySQL = `
WITH newest AS MATERIALIZED (
     SELECT id, receiver, status, due_at, handed_off_at, taken_at, settled_at
       FROM waybill.delivery
      WHERE id < $1::bigint
      ORDER BY id DESC
      LIMIT $2)
SELECT id, status, due_at, handed_off_at, taken_at, settled_at, ours
  FROM newest, LATERAL (SELECT ($3::text[] IS NULL OR receiver = ANY($3::text[])) AND receiver <> ALL($4::text[]) AS ours) AS lane
 WHERE ours OR id = (SELECT min(id) FROM newest)
 ORDER BY id DESC`

// Due counts the rows of a lane that are due and unclaimed.
func (s *Store) Due(ctx context.Context, request waybill.DueRequest) (due waybill.Due, err error) {
	except := request.Except
	if except == nil {
		except = []string{}
	}
	ctx, cancel := context.WithTimeout(ctx, countTimes*s.timeout)
	defer cancel()
	batch := batchOf(s.plain)
	batch.Queue(s.sql(dueCountSQL), request.Receivers, except).QueryRow(func(row pgx.Row) error {
		var since pgtype.Timestamptz
		err := row.Scan(&due.Rows, &since)
		due.Since = stampOf(since)
		return err
	})
	if err := s.db.send(ctx, batch); err != nil {
		return waybill.Due{}, fmt.Errorf("count due rows of a lane: %w", err)
	}
	return due, nil
}

const dueCountSQL = `
SELECT count(*), min(available_at)
  FROM waybill.delivery
 WHERE status IN ('pending', 'failed') AND available_at <= now()
   AND ($1::text[] IS NULL OR receiver = ANY($1::text[])) AND receiver <> ALL($2::text[])`

package sqlite

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
)

// It is read from the newest row on for as long as somebody asks for more: one statement,
// because the next one that began below a row might begin at the newest again, by the
// statistics of a table that was all but empty.
const historySQL = `
SELECT id, status, due_at, COALESCE(handed_off_at, 0), COALESCE(taken_at, 0), COALESCE(settled_at, 0),
       (?1 IS NULL OR receiver IN (SELECT value FROM json_each(?1))) AND receiver NOT IN (SELECT value FROM json_each(?2))
  FROM delivery ORDER BY id DESC`

// History returns the newest rows of a lane, whatever became of them.
func (s *Store) History(ctx context.Context, request waybill.HistoryRequest) ([]waybill.HistoryRow, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimes*s.callTimeout)
	defer cancel()
	all, err := s.read().QueryContext(ctx, historySQL, orAll(request.Receivers), jsonArray(request.Except))
	if err != nil {
		return nil, fmt.Errorf("read the newest rows of a lane: %w", err)
	}
	defer all.Close()
	rows, err := waybill.WalkHistory(request, func(_ int64, n int) (rows []waybill.HistoryRow, lowest int64, err error) {
		for ; n > 0; n-- {
			if !all.Next() {
				return rows, 0, all.Err()
			}
			var (
				row  waybill.HistoryRow
				ours bool
			)
			if err := all.Scan(&row.ID, &row.Status, &row.DueAt, &row.HandedOffAt, &row.TakenAt, &row.SettledAt, &ours); err != nil {
				return nil, 0, err
			}
			if lowest = row.ID; ours {
				rows = append(rows, row)
			}
		}
		return rows, lowest, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the newest rows of a lane: %w", err)
	}
	return rows, nil
}

const dueCountSQL = `
SELECT count(*), COALESCE(min(available_at), 0) FROM delivery INDEXED BY delivery_due
 WHERE status IN ('pending', 'failed') AND available_at <= ?1
   AND (?2 IS NULL OR receiver IN (SELECT value FROM json_each(?2)))
   AND receiver NOT IN (SELECT value FROM json_each(?3))`

// Due counts the rows of a lane that are due and unclaimed.
func (s *Store) Due(ctx context.Context, request waybill.DueRequest) (due waybill.Due, err error) {
	ctx, cancel := context.WithTimeout(ctx, countTimes*s.callTimeout)
	defer cancel()
	err = s.read().QueryRowContext(ctx, dueCountSQL, s.now(), orAll(request.Receivers), jsonArray(request.Except)).
		Scan(&due.Rows, &due.Since)
	if err != nil {
		return waybill.Due{}, fmt.Errorf("count due rows of a lane: %w", err)
	}
	return due, nil
}

// orAll is a list in one parameter, where nil is no condition at all.
func orAll(receivers []string) any {
	if receivers == nil {
		return nil
	}
	return jsonArray(receivers)
}

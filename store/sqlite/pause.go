package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/waybill-go/waybill"
)

// A pause without an end is later than any. One that is over is earlier than any,
// and the lane was not paused since then.
const pauseLaneSQL = `
INSERT INTO lane_pause AS p (lane, until, by, reason, since)
VALUES (?2, CASE WHEN ?3 > 0 THEN ?1 + ?3 END, ?4, ?5, ?1)
    ON CONFLICT (lane) DO UPDATE
   SET until = excluded.until, by = excluded.by, reason = excluded.reason,
       since = CASE WHEN p.until <= ?1 THEN excluded.since ELSE p.since END
 WHERE ?6 OR p.until < excluded.until OR p.until IS NOT NULL AND excluded.until IS NULL`

const pauseOfLaneSQL = `SELECT lane, until, by, reason, since FROM lane_pause WHERE lane = ?1`

// PauseLane pauses a lane and returns the pause that is then in force.
func (s *Store) PauseLane(ctx context.Context, request waybill.PauseRequest) (waybill.Pause, error) {
	request, err := request.Checked()
	if err != nil {
		return waybill.Pause{}, err
	}
	var pause waybill.Pause
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx, now int64) error {
		_, err := tx.ExecContext(ctx, pauseLaneSQL, now, request.Lane, request.For.Microseconds(), request.By, request.Reason, request.Exact)
		if err != nil {
			return err
		}
		return scanPause(tx.QueryRowContext(ctx, pauseOfLaneSQL, request.Lane).Scan, now, &pause)
	})
	if err != nil {
		return waybill.Pause{}, fmt.Errorf("pause lane %s: %w", request.Lane, err)
	}
	return pause, nil
}

const resumeLaneSQL = `DELETE FROM lane_pause WHERE lane = ?2 RETURNING until IS NULL OR until > ?1`

// ResumeLane ends the pause of a lane.
func (s *Store) ResumeLane(ctx context.Context, lane string) (bool, error) {
	var ended []bool
	err := s.write(ctx, func(ctx context.Context, tx *sql.Tx, now int64) error {
		rows, err := tx.QueryContext(ctx, resumeLaneSQL, now, lane)
		ended, err = collect(rows, err, scanOne[bool])
		return err
	})
	if err != nil {
		return false, fmt.Errorf("resume lane %s: %w", lane, err)
	}
	return len(ended) > 0 && ended[0], nil
}

const pausesSQL = `
SELECT lane, until, by, reason, since FROM lane_pause
 WHERE until IS NULL OR until > ?1 ORDER BY lane`

// Pauses returns the pauses in force.
func (s *Store) Pauses(ctx context.Context) ([]waybill.Pause, error) {
	ctx, cancel := context.WithTimeout(ctx, s.callTimeout)
	defer cancel()
	now := s.now()
	rows, err := s.read().QueryContext(ctx, pausesSQL, now)
	pauses, err := collect(rows, err, func(rows *sql.Rows, pause *waybill.Pause) error { return scanPause(rows.Scan, now, pause) })
	if err != nil {
		return nil, fmt.Errorf("read the pauses of lanes: %w", err)
	}
	return pauses, nil
}

// scanPause reads a pause, of which it says how much is left at that time.
func scanPause(scan func(...any) error, now int64, pause *waybill.Pause) error {
	var until sql.NullInt64
	err := scan(&pause.Lane, &until, &pause.By, &pause.Reason, &pause.Since)
	if until.Valid {
		pause.Until = waybill.Stamp(until.Int64)
		pause.Left = pause.Until.Time().Sub(waybill.Stamp(now).Time())
	}
	return err
}

const pausedLanesSQL = `SELECT lane FROM lane_pause WHERE until IS NULL OR until > ?1`

// pausedLanes returns the lanes whose rows are not to be taken. It reads a table of
// a row for each lane at most.
func pausedLanes(ctx context.Context, tx *sql.Tx, now int64) ([]string, error) {
	rows, err := tx.QueryContext(ctx, pausedLanesSQL, now)
	return collect(rows, err, scanOne[string])
}

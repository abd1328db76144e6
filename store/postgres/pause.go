package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-go/waybill"
)

// PauseLane pauses a lane and returns the pause that is then in force.
func (s *Store) PauseLane(ctx context.Context, request waybill.PauseRequest) (waybill.Pause, error) {
	request, err := request.Checked()
	if err != nil {
		return waybill.Pause{}, err
	}
	var pause waybill.Pause
	err = s.send(ctx, func(batch *pgx.Batch) {
		batch.Queue(s.sql(pauseLaneSQL), request.Lane, request.For.Microseconds(), request.By, request.Reason, request.Exact)
		batch.Queue(s.sql(pauseOfLaneSQL), request.Lane).Query(func(rows pgx.Rows) (err error) {
			pause, err = pgx.CollectExactlyOneRow(rows, scanPause)
			return err
		})
	})
	if err != nil {
		return waybill.Pause{}, fmt.Errorf("pause lane %s: %w", request.Lane, err)
	}
	return pause, nil
}

// A pause without an end is later than any. One that is over is earlier than any,
// and the lane was not paused since then.
const pauseLaneSQL = `
INSERT INTO waybill.lane_pause AS p (lane, until, by, reason, since)
VALUES ($1, CASE WHEN $2::bigint > 0 THEN now() + $2::bigint * interval '1 microsecond' END, $3, $4, now())
    ON CONFLICT (lane) DO UPDATE
   SET until = excluded.until, by = excluded.by, reason = excluded.reason,
       since = CASE WHEN p.until <= now() THEN excluded.since ELSE p.since END
 WHERE $5::boolean OR p.until < excluded.until OR p.until IS NOT NULL AND excluded.until IS NULL`

// pauseOfLaneSQL reads what pauseLaneSQL wrote, or left, in the same transaction:
// the row is locked, and is there.
const pauseOfLaneSQL = pausesColumns + ` WHERE lane = $1`

// ResumeLane ends the pause of a lane.
func (s *Store) ResumeLane(ctx context.Context, lane string) (bool, error) {
	ended := false
	err := s.send(ctx, func(batch *pgx.Batch) {
		ended = false
		batch.Queue(s.sql(resumeLaneSQL), lane).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&ended}, func() error { return nil })
			return err
		})
	})
	if err != nil {
		return false, fmt.Errorf("resume lane %s: %w", lane, err)
	}
	return ended, nil
}

const resumeLaneSQL = `DELETE FROM waybill.lane_pause WHERE lane = $1 RETURNING until IS NULL OR until > now()`

// Pauses returns the pauses in force.
func (s *Store) Pauses(ctx context.Context) ([]waybill.Pause, error) {
	var pauses []waybill.Pause
	err := s.send(ctx, func(batch *pgx.Batch) {
		batch.Queue(s.sql(pausesSQL)).Query(func(rows pgx.Rows) (err error) {
			pauses, err = pgx.CollectRows(rows, scanPause)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the pauses of lanes: %w", err)
	}
	return pauses, nil
}

const (
	pausesColumns = `SELECT lane, until, by, reason, since, now() FROM waybill.lane_pause`
	whereInForce  = ` WHERE until IS NULL OR until > now()`

	pausesSQL = pausesColumns + whereInForce + ` ORDER BY lane`

	// The order is for the plan: it opens the way by the index. Where sequential
	// scans are off (see byIndex), one that is used all the same counts as so dear
	// that the server compiles the statement before it runs it, for 100 ms.
	pausedLanesSQL = `SELECT lane FROM waybill.lane_pause` + whereInForce + ` ORDER BY lane`
)

// scanPause reads a pause, and how much of it is left by the clock it was read with.
func scanPause(row pgx.CollectableRow) (pause waybill.Pause, err error) {
	var until, since, now pgtype.Timestamptz
	err = row.Scan(&pause.Lane, &until, &pause.By, &pause.Reason, &since, &now)
	pause.Until, pause.Since = stampOf(until), stampOf(since)
	if until.Valid {
		pause.Left = until.Time.Sub(now.Time)
	}
	return pause, err
}

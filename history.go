package waybill

import (
	"context"
	"math"
)

// HistoryReader is a Store that can tell how its rows went: what a lease is sized by
// on the running system. It is asked by people, and by no step of the protocol.
type HistoryReader interface {
	// History returns the newest rows of a lane, newest first: by id, which is the
	// order in which they were fired. It walks the primary key backwards, and
	// reads at most ten times as many rows as it may return, whoever they belong to:
	// a lane whose rows are few among others' may come out short. The rows
	// need not be of one moment, but none is there twice.
	History(ctx context.Context, request HistoryRequest) ([]HistoryRow, error)
	// Due counts the rows of a lane that are due and that nobody has claimed, at a cost
	// that grows with what is owed and not with what is settled.
	Due(ctx context.Context, request DueRequest) (Due, error)
}

// HistoryRequest names the rows to read: those of the named receivers or, with
// Receivers nil, of every receiver but the excepted ones.
type HistoryRequest struct {
	Receivers []string
	Except    []string
	// Limit bounds the rows that are returned, whatever became of them.
	Limit int
	// Settled ends the walk once so many of them are settled by a run. Zero does not.
	Settled int
}

// HistoryRow is when each thing happened to a row, by the database's clock. Zero is not
// yet, or never.
type HistoryRow struct {
	ID          int64
	Status      Status
	DueAt       Stamp // when it became owed; a backoff does not move it
	HandedOffAt Stamp // of its last claim, and zero if it was given back since
	TakenAt     Stamp // of the last run; zero while it waits for one
	SettledAt   Stamp
}

// RanToTheEnd reports whether a run settled the row, for good or ill. What was
// withdrawn or orphaned occupied no worker.
func (r HistoryRow) RanToTheEnd() bool {
	return (r.Status == Succeeded || r.Status == Dead) && r.TakenAt != 0 && r.SettledAt >= r.TakenAt
}

// DueRequest names the rows to count, as HistoryRequest does.
type DueRequest struct {
	Receivers []string
	Except    []string
}

// Due is what waits for a relay.
type Due struct {
	Rows int64
	// Since is when the oldest of them became available. It is zero if there are none.
	Since Stamp
}

// historyReads is how many rows are read for each that may be returned.
const historyReads = 10

// HistoryPage is how many rows a store reads in one statement.
const HistoryPage = 10_000

// WalkHistory reads pages until the request is answered, for stores. page returns the
// rows of the lane among the next n with ids below the given one, newest first, and the
// lowest id that it read, 0 if there was none.
func WalkHistory(request HistoryRequest, page func(below int64, n int) (rows []HistoryRow, lowest int64, err error)) ([]HistoryRow, error) {
	var rows []HistoryRow
	below, settled := int64(math.MaxInt64), 0
	for read := 0; read < historyReads*request.Limit; {
		// Few are missing at the end, and among others' rows they may be far apart.
		missing := max(request.Limit-len(rows), HistoryPage/10)
		n := min(HistoryPage, missing, historyReads*request.Limit-read)
		more, lowest, err := page(below, n)
		if err != nil {
			return nil, err
		}
		for _, row := range more {
			rows = append(rows, row)
			if row.RanToTheEnd() {
				settled++
			}
			if len(rows) == request.Limit || settled > 0 && settled == request.Settled {
				return rows, nil
			}
		}
		if lowest == 0 {
			break
		}
		below, read = lowest, read+n
	}
	return rows, nil
}

package sqlitetest

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
)

// Row is a delivery as it stands in the database. A stamp that is NULL there is
// zero.
type Row struct {
	ID                            int64
	Receiver                      string
	Status                        waybill.Status
	Attempts, Starts              int
	AvailableAt                   waybill.Stamp
	ClaimedAt, Lease              waybill.Stamp
	HandedOff, TakenAt, SettledAt waybill.Stamp
	ClaimedBy, Error              string
}

// GivenBack reports whether the row was given back and may be claimed at once.
func (r Row) GivenBack() bool {
	return r.Status == waybill.Claimed && r.Lease == 1 && r.HandedOff == 0 && r.TakenAt == 0
}

const selectRows = `SELECT id, receiver, status, attempts, starts, available_at,
	COALESCE(claimed_at, 0), COALESCE(lease_expires_at, 0), COALESCE(handed_off_at, 0),
	COALESCE(taken_at, 0), COALESCE(settled_at, 0), claimed_by, last_error
	FROM delivery ORDER BY id`

var errOnlyLooking = errors.New("only looking")

// Rows returns all rows by id. It commits nothing, and so wakes no listener.
func Rows(t testing.TB, store *sqlite.Store) []Row {
	t.Helper()
	var all []Row
	err := store.InTx(context.Background(), func(tx *sql.Tx) error {
		found, err := tx.Query(selectRows)
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var r Row
			if err := found.Scan(&r.ID, &r.Receiver, &r.Status, &r.Attempts, &r.Starts, &r.AvailableAt,
				&r.ClaimedAt, &r.Lease, &r.HandedOff, &r.TakenAt, &r.SettledAt, &r.ClaimedBy, &r.Error); err != nil {
				return err
			}
			all = append(all, r)
		}
		if err := found.Err(); err != nil {
			return err
		}
		return errOnlyLooking
	})
	if !errors.Is(err, errOnlyLooking) {
		t.Fatal(err)
	}
	return all
}

package sqlite_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// A relay would take a queue for well whose lane lives on eager runs alone, and hold
// its lost messages for that.
func TestProgressIsThatOfTheQueue(t *testing.T) {
	t.Parallel()
	store, _ := newFile(t)
	var events []int64
	for range 2 {
		err := store.InTx(t.Context(), func(tx *sql.Tx) error {
			id, err := store.Fire(t.Context(), tx, waybill.RawEvent{Name: "fired", Payload: []byte("{}")})
			events = append(events, id)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	receivers := waybill.Keys(store.Registry().Receivers())
	eager, err := store.ClaimFired(t.Context(), waybill.FiredRequest{By: "app", Events: events[1:], Receivers: store.Registry().Leases(), Limit: 1, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	queued, err := store.Claim(t.Context(), waybill.ClaimRequest{By: "relay", Receivers: receivers, Limit: 1, Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	take := func(rows []waybill.ClaimedRow) waybill.Stamp {
		taken, err := waybill.Take(t.Context(), store, "worker", []waybill.Message{rows[0].Message})
		if err != nil {
			t.Fatal(err)
		}
		return taken[0].Delivery.Claim.At
	}
	want := func(want waybill.Progress) {
		t.Helper()
		if got, err := store.Progress(t.Context(), waybill.ProgressRequest{}); err != nil || got != want {
			t.Errorf("progress %+v, %v, want %+v", got, err, want)
		}
	}
	take(eager)
	want(waybill.Progress{})
	want(waybill.Progress{Taken: take(queued), HandedOff: queued[0].Claim.At})
}

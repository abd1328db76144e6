package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/poll"
)

// What another transaction does to a row that a cancel waits for decides what the row
// counts as.
func TestCancelCountsWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, change string
		want         waybill.CancelResult
	}{
		{"withdrawn", "status = 'cancelled'", waybill.CancelResult{}},
		{"settled", "status = 'succeeded'", waybill.CancelResult{}},
		{"claimed", "status = 'claimed', claimed_by = 'relay', claimed_at = now()", waybill.CancelResult{InFlight: 1}},
		{"untouched", "target = target", waybill.CancelResult{Cancelled: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store, pool := newOrders(t, 3)
			id, err := store.Fire(t.Context(), pool, orderPlaced{})
			if err != nil {
				t.Fatal(err)
			}
			exec(t, pool, "DELETE FROM waybill.delivery WHERE id <> (SELECT min(id) FROM waybill.delivery)")
			other, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer other.Rollback(context.Background())
			exec(t, other, "UPDATE waybill.delivery SET "+c.change)
			type answer struct {
				result waybill.CancelResult
				err    error
			}
			answers := make(chan answer, 1)
			go func() {
				var a answer
				a.err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
					a.result, err = store.Cancel(t.Context(), tx, waybill.CancelRequest{Events: []int64{id}})
					return err
				})
				answers <- a
			}()
			poll.Until(t, "the cancel waits", func() bool {
				return count(t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
			})
			if err := other.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			select {
			case a := <-answers:
				if a.err != nil || a.result != c.want {
					t.Errorf("result %+v, %v, want %+v", a.result, a.err, c.want)
				}
			case <-time.After(10 * time.Second):
				t.Error("the cancel waits on")
			}
		})
	}
}

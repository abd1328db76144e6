package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
)

// TestClaimOfALateCommit shows trap 19: a row whose transaction commits late has a
// lower id than rows that were claimed before it was there, and an earlier time. The
// claim remembers no place in the index, and so passes none by.
func TestClaimOfALateCommit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := newPool(t, services.Postgres(t), 2)
	migrate(t, pool, "")
	reg := waybill.NewRegistry()
	for _, receiver := range lane {
		waybill.OnAny(reg, receiver, func(context.Context, *waybill.Delivery) error { return nil }, waybill.Options{Lane: "mail"})
	}
	store := newStore(t, postgres.Config{Pool: pool, Registry: reg})
	late, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Rollback(ctx)
	if _, err := store.Fire(ctx, late, waybill.RawEvent{Name: "late", Payload: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Fire(ctx, pool, waybill.RawEvent{Name: "soon", Payload: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	claim := func(receivers []string, want int) (lowest, highest int64) {
		t.Helper()
		rows, err := store.Claim(ctx, waybill.ClaimRequest{By: "relay", Receivers: receivers, Limit: 10, Lease: time.Minute})
		if err != nil || len(rows) != want {
			t.Fatalf("%d rows were claimed for %d receivers, want %d: %v", len(rows), len(receivers), want, err)
		}
		if want == 0 {
			return 0, 0
		}
		lowest, highest = rows[0].DeliveryID, rows[0].DeliveryID
		for _, row := range rows {
			lowest, highest = min(lowest, row.DeliveryID), max(highest, row.DeliveryID)
		}
		return lowest, highest
	}
	soon, _ := claim(lane, len(lane))
	claim(lane, 0)
	if err := late.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	// By either statement: for one receiver, and for the rest.
	if _, one := claim(lane[:1], 1); one >= soon {
		t.Errorf("the late row has the id %d, and the lowest of the early ones is %d", one, soon)
	}
	if _, rest := claim(lane, len(lane)-1); rest >= soon {
		t.Errorf("a late row has the id %d, and the lowest of the early ones is %d", rest, soon)
	}
}

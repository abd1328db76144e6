package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
)

var planModes = []string{"force_custom_plan", "force_generic_plan"}

// Trap 2: a question about what is owed that reads what is settled.
func TestPlansInFiveStates(t *testing.T) {
	t.Parallel()
	plansInFiveStates(t, 3_000, 2*3_000)
}

// plansInFiveStates explains every step in the states of the statistics that once
// made plans go wrong: each says something else than what is there. settled rows are
// what history there is in the last two.
func plansInFiveStates(t *testing.T, due, settled int) {
	url := services.Postgres(t)
	b := newPlanBench(t, url)
	var explainers []*explainer
	for _, mode := range planModes {
		explainers = append(explainers, newExplainer(t, url, mode))
	}
	relays := newStore(t, postgres.Config{Pool: newPool(t, url, otherRelays), Registry: waybill.NewRegistry(), Schema: "plan", CallTimeout: time.Minute})
	b.fillDue(dealt, due, 0)
	for _, e := range explainers {
		e.runSteps(t) // the connections keep the statements
	}
	for _, state := range []struct {
		name    string
		prepare func()
	}{
		{"never analysed", func() {}},
		{"analysed while empty", func() {
			b.exec("TRUNCATE plan.delivery, plan.event")
			b.exec("VACUUM ANALYZE plan.delivery, plan.event")
			b.fillDue(dealt, due, 0)
		}},
		{"analysed while all is due", func() { b.exec("ANALYZE plan.delivery, plan.event") }},
		{"analysed while all is settled", func() {
			b.exec("UPDATE plan.delivery SET status = 'succeeded'")
			b.fillSettled(dealt, settled-due)
			b.exec("VACUUM ANALYZE plan.delivery, plan.event")
			b.fillDue(dealt, due, 0)
		}},
		{"analysed as it is", func() { b.exec("VACUUM ANALYZE plan.delivery, plan.event") }},
	} {
		t.Run(state.name, func(t *testing.T) {
			state.prepare()
			for _, e := range explainers {
				all := e.steps(t)
				report(t, e.mode, all)
				besideOtherRelays(t, relays, e, all["claim for 3"])
			}
		})
	}
	for _, e := range explainers {
		var custom, generic int64
		if err := e.pool.QueryRow(t.Context(), `SELECT sum(custom_plans)::bigint, sum(generic_plans)::bigint
  FROM pg_prepared_statements WHERE cardinality(parameter_types) > 0`).Scan(&custom, &generic); err != nil {
			t.Fatal(err)
		}
		if (custom > 0) != (e.mode == planModes[0]) || (generic > 0) != (e.mode == planModes[1]) {
			t.Errorf("%s: %d custom plans, %d generic ones", e.mode, custom, generic)
		}
	}
}

// otherRelays is how many relays a claim is beside.
const otherRelays = 2

// besideOtherRelays explains a claim while two other relays are in the middle of
// theirs: their rows are passed over one by one, and not with the rest of the lane.
func besideOtherRelays(t *testing.T, store *postgres.Store, e *explainer, alone cost) {
	t.Helper()
	request := waybill.ClaimRequest{By: "relay", Receivers: lane, Limit: planBatch, Lease: time.Minute}
	var nest func(ctx context.Context, depth int) error
	nest = func(ctx context.Context, depth int) error {
		if depth < otherRelays {
			err := store.ClaimTx(ctx, func(ctx context.Context, tx any, claims waybill.Claimer) error {
				rows, err := claims.Claim(ctx, request)
				if err != nil {
					return err
				}
				if len(rows) != planBatch {
					return fmt.Errorf("relay %d claimed %d rows, want %d", depth+1, len(rows), planBatch)
				}
				if err := nest(ctx, depth+1); err != nil {
					return err
				}
				return errRolledBack
			})
			if err == errRolledBack {
				return nil
			}
			return err
		}
		var (
			c       cost
			claimed []waybill.ClaimedRow
		)
		may := bounds{sort: int64(len(lane) * planBatch), removed: 10 * planBatch, locked: planBatch}
		for _, plan := range e.explain(func() {
			rows, err := e.store.Claim(ctx, request)
			if err != nil || len(rows) != planBatch {
				t.Errorf("beside other relays %d rows were claimed: %v", len(rows), err)
			}
			c.rows = int64(len(rows))
			claimed = rows
		}) {
			may.check(t, e.mode+": claim beside others", plan, &c)
		}
		e.settle(claimed)
		t.Logf("%-18s claim beside others: %.1f buffers a row", e.mode, c.perRow())
		if c.perRow() > 3*alone.perRow() {
			t.Errorf("%s: a claim beside two others reads %.1f pages a row, and alone %.1f", e.mode, c.perRow(), alone.perRow())
		}
		return nil
	}
	if err := nest(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
}

// settle ends what was claimed.
func (e *explainer) settle(rows []waybill.ClaimedRow) {
	e.t.Helper()
	var acks []waybill.Ack
	for _, row := range rows {
		acks = append(acks, waybill.Ack{Message: row.Message, Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}})
	}
	if held, err := e.store.Ack(e.t.Context(), acks); err != nil || len(held) != len(rows) {
		e.t.Fatalf("%d of %d rows were settled: %v", len(held), len(rows), err)
	}
}

func report(t *testing.T, mode string, all costs) {
	t.Helper()
	for _, name := range []string{"claim for 1", "claim for 3", "claim for 20", "claim lapsed", "extend", "give back", "look", "take", "ack",
		"count in flight", "owed receivers", "count owed events", "pauses"} {
		c := all[name]
		t.Logf("%-18s %-18s %6d rows %8.1f buffers a row, at most %d sorted", mode, name, c.rows, c.perRow(), c.sorted)
	}
}

var errRolledBack = errors.New("rolled back")

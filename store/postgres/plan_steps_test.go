package postgres_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// planBatch is how many rows a step is about.
const planBatch = 100

// wideLane has 20 receivers; the first three are those of lane.
var wideLane = func() []string {
	wide := append([]string{}, lane...)
	for i := len(lane); i < 20; i++ {
		wide = append(wide, fmt.Sprintf("mail.x%02d", i))
	}
	return wide
}()

// dealt is to whom rows are given in turn: half of them are the first receiver's.
var dealt = append(slices.Repeat(wideLane[:1], len(wideLane)), wideLane...)

// costs are what the steps did, by name.
type costs map[string]cost

// steps takes rows of the wide lane through every step, and returns what each cost.
// It begins and ends with nothing in flight. The sorts it allows are of candidates
// (receivers times batch), of rows in flight, and of names.
func (e *explainer) steps(t *testing.T) costs {
	t.Helper()
	ctx := t.Context()
	const lease = time.Minute
	var (
		all  = costs{}
		step = func(name string, may bounds, want int, call func() (int, error)) {
			t.Helper()
			var c cost
			for _, plan := range e.explain(func() {
				n, err := call()
				if err != nil || want >= 0 && n != want {
					t.Fatalf("%s: %d rows, want %d: %v", name, n, want, err)
				}
				c.rows = int64(n)
			}) {
				may.check(t, e.mode+": "+name, plan, &c)
			}
			if c.buffers == 0 && !e.muted {
				t.Errorf("%s: %s: read nothing", e.mode, name)
			}
			all[name] = c
		}
		messages = func(rows []waybill.ClaimedRow) (messages []waybill.Message) {
			for _, row := range rows {
				messages = append(messages, row.Message)
			}
			return messages
		}
		leases   []waybill.ReceiverLease
		byID     = bounds{removed: planBatch, read: []string{"lane_pause_pkey"}}
		claimed  = map[int][]waybill.Message{}
		inFlight = 0
	)
	for _, receiver := range wideLane {
		leases = append(leases, waybill.ReceiverLease{Receiver: receiver, Lane: "mail", Lease: lease})
	}
	for _, k := range []int{1, 3, 20} {
		may := bounds{sort: int64(k * planBatch), removed: 10 * planBatch, locked: planBatch}
		step(fmt.Sprintf("claim for %d", k), may, planBatch, func() (int, error) {
			rows, err := e.store.Claim(ctx, waybill.ClaimRequest{By: "relay", Receivers: wideLane[:k], Limit: planBatch, Lease: lease})
			claimed[k] = messages(rows)
			return len(rows), err
		})
		inFlight += planBatch
	}
	step("extend", byID, planBatch, func() (int, error) {
		var rows []waybill.Extension
		for _, m := range claimed[1] {
			rows = append(rows, waybill.Extension{Message: m, Lease: lease})
		}
		held, err := e.store.Extend(ctx, rows)
		return len(held), err
	})
	step("give back", byID, planBatch, func() (int, error) {
		var rows []waybill.GiveBack
		for _, m := range claimed[3] {
			rows = append(rows, waybill.GiveBack{Message: m})
		}
		held, err := e.store.GiveBack(ctx, rows)
		return len(held), err
	})
	lapsed := bounds{sort: int64(inFlight), removed: int64(inFlight), locked: planBatch, read: []string{"delivery_claimed"}}
	step("claim lapsed", lapsed, planBatch, func() (int, error) {
		rows, err := e.store.ClaimLapsed(ctx, waybill.LapsedRequest{By: "relay", Receivers: wideLane, Limit: planBatch, Lease: lease,
			Hold: waybill.Hold{Longest: time.Hour}}) // which rows that were given back do not heed
		claimed[3] = messages(rows)
		return len(rows), err
	})
	// It answers with one row, and looks at all that are in flight.
	step("progress", bounds{removed: int64(inFlight), read: []string{"delivery_claimed"}}, inFlight, func() (int, error) {
		_, err := e.store.Progress(ctx, waybill.ProgressRequest{Receivers: wideLane})
		return inFlight, err
	})
	step("look", byID, planBatch, func() (int, error) {
		var ids []int64
		for _, m := range claimed[20] {
			ids = append(ids, m.DeliveryID)
		}
		states, err := e.store.Look(ctx, ids)
		return len(states), err
	})
	step("count in flight", bounds{sort: int64(inFlight), read: []string{"delivery_claimed"}}, inFlight, func() (n int, err error) {
		counts, err := e.store.InFlight(ctx)
		for _, c := range counts {
			n += int(c.Waiting + c.Running + c.GivenBack)
		}
		return n, err
	})
	// These two read what is owed, whoever it is owed to, and nothing of the history:
	// trap 2, as no index holds all that is not settled.
	step("owed receivers", bounds{sort: 1000, removed: 1000, read: []string{"delivery_due"}}, -1, func() (int, error) {
		owed, err := e.store.OwedReceivers(ctx, nil)
		return len(owed), err
	})
	owed := bounds{sort: 1 << 40, read: []string{"delivery_due", "delivery_claimed"}, jit: true}
	step("count owed events", owed, -1, func() (n int, err error) {
		counts, err := e.store.OwedEvents(ctx)
		for _, c := range counts {
			n += int(c.Rows)
		}
		return n, err
	})
	// One page, with the sort that keeps it in order, and not a row below it.
	newest := bounds{sort: 20 * planBatch, removed: 10 * planBatch, jit: true}
	step("history", newest, planBatch, func() (int, error) {
		rows, err := e.store.History(ctx, waybill.HistoryRequest{Receivers: wideLane, Limit: planBatch})
		return len(rows), err
	})
	// It reads what is owed, whoever it is owed to.
	step("count due", bounds{removed: 1 << 40, read: []string{"delivery_due"}, jit: true}, -1, func() (int, error) {
		due, err := e.store.Due(ctx, waybill.DueRequest{Receivers: wideLane})
		return int(due.Rows), err
	})
	step("pauses", byID, 0, func() (int, error) {
		pauses, err := e.store.Pauses(ctx)
		return len(pauses), err
	})
	// All that was claimed is settled in the end. The last of these are kept.
	for _, k := range []int{20, 3, 1} {
		var acks []waybill.Ack
		step("take", byID, planBatch, func() (int, error) {
			taken, err := e.store.Take(ctx, waybill.TakeRequest{By: "worker", Messages: claimed[k], Leases: leases})
			for i, d := range taken {
				outcome := waybill.Outcome{Status: waybill.Succeeded, Attempted: true}
				if i%2 == 1 {
					outcome = waybill.Outcome{Status: waybill.Dead, Attempted: true, Error: "no"}
				}
				acks = append(acks, waybill.Ack{Message: waybill.Message{DeliveryID: d.ID, Claim: d.Claim}, Outcome: outcome})
			}
			return len(taken), err
		})
		step("ack", byID, planBatch, func() (int, error) {
			held, err := e.store.Ack(ctx, acks)
			return len(held), err
		})
	}
	return all
}

// runSteps is steps without the explaining.
func (e *explainer) runSteps(t *testing.T) {
	t.Helper()
	e.mute(func() { e.steps(t) })
}

// fillDue adds due rows of these receivers, in turn, each of an event of its own, that
// are as many hours older than what is there.
func (b *planBench) fillDue(receivers []string, n, hours int) {
	b.t.Helper()
	b.exec(`
WITH e AS (INSERT INTO plan.event (name, version, payload, recorded_at)
           SELECT 'filled', 1, '{}', now() FROM generate_series(1, $1::integer) RETURNING id)
INSERT INTO plan.delivery (event_id, receiver, target_digest, max_attempts, available_at, due_at)
SELECT id, ($2::text[])[1 + id % cardinality($2)], sha256(''), 5, now() - make_interval(hours => 1 + $3), now() FROM e`, n, receivers, hours)
}

// fillSettled adds rows of these receivers that succeeded.
func (b *planBench) fillSettled(receivers []string, n int) {
	b.t.Helper()
	b.exec(`
WITH e AS (INSERT INTO plan.event (name, version, payload, recorded_at)
           SELECT 'filled', 1, '{}', now() FROM generate_series(1, $1::integer) RETURNING id)
INSERT INTO plan.delivery (event_id, receiver, target_digest, max_attempts, available_at, due_at, status, attempts, starts, claimed_by, claimed_at, settled_at)
SELECT id, ($2::text[])[1 + id % cardinality($2)], sha256(''), 5, now() - interval '9 hours', now(), 'succeeded', 1, 1, 'worker', now(), now() FROM e`, n, receivers)
}

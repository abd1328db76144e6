package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/declare"
	"github.com/waybill-go/waybill/store/postgres"
)

// Two relays and two workers are told to stop and started again, one after the
// other and for as long as events are fired: no lease lapses on it, no delivery
// runs twice or is begun twice, and no attempt is spent. Traps 12 and 13: what is
// given back is given back by id, and may be claimed in the same instant.
func TestRollingRestartsLoseNoLeaseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	s := newSink(t, func(*request) int {
		time.Sleep(50*time.Millisecond + rand.N(50*time.Millisecond))
		return 200
	})
	d := deploy(t, fmt.Sprintf("receivers:\n  - {key: archive, event: '*', lease: 5s, http: {url: %s}}\n", s.URL))
	d.run(bridgeBin, "migrate").succeed()
	d.exec(`CREATE SCHEMA app`)
	d.noteLapses()

	started := 0
	start := func(i int) *process {
		started++
		if i%2 == 0 {
			return d.run(bridgeBin, "relay")
		}
		return d.run(workerBin, "--slots", "30", "--worker-id", fmt.Sprintf("worker%d", started))
	}
	fleet := make([]*process, 4)
	for i := range fleet {
		fleet[i] = start(i)
	}
	for _, p := range fleet {
		up(t, p)
	}
	loading, cancel := context.WithTimeout(t.Context(), 12*time.Second)
	defer cancel()
	loaded := make(chan int)
	go func() { loaded <- d.load(loading, 200) }()

	restarts, fired := 0, 0
	for fired == 0 {
		i := restarts % len(fleet)
		stopped(t, fleet[i])
		fleet[i] = start(i)
		up(t, fleet[i])
		if i%2 == 1 { // it has started, but do messages come to it?
			await(t, patience, "the worker works", func() (bool, string) {
				return loading.Err() != nil || d.count(`SELECT count(*) FROM waybill.delivery WHERE starts_with(claimed_by, $1)`, fmt.Sprintf("worker%d:", started)) > 0, d.statuses()
			})
		}
		restarts++
		select {
		case fired = <-loaded:
		case <-time.After(time.Second):
		}
	}
	await(t, patience, "every delivery is settled", func() (bool, string) {
		return d.count(`SELECT count(*) FROM waybill.delivery WHERE settled_at IS NULL`) == 0, d.statuses()
	})
	if got, want := d.statuses(), fmt.Sprintf("succeeded %d", fired); got != want {
		t.Errorf("deliveries: %s; want %s", got, want)
	}
	d.none("a lease that lapsed", `SELECT * FROM app.lapse`)
	d.none("a delivery that was not begun and settled exactly once", `SELECT id, attempts, starts FROM waybill.delivery WHERE attempts <> 1 OR starts <> 1`)
	runs := map[string]int{}
	for _, r := range s.received() {
		runs[r.id()]++
	}
	for id, n := range runs {
		if n != 1 {
			t.Errorf("delivery %s ran %d times", id, n)
		}
	}
	if len(runs) != fired {
		t.Errorf("%d deliveries ran, want %d", len(runs), fired)
	}
	t.Logf("%d deliveries, %d restarts", fired, restarts)
}

// up waits until a relay or a worker has started.
func up(t *testing.T, p *process) {
	t.Helper()
	await(t, patience, p.name+" works", func() (bool, string) {
		said := p.err.String()
		return strings.Contains(said, "relay started") || strings.Contains(said, "worker started"), said
	})
}

// load fires so many events a second until ctx ends, and returns how many it was.
// A machine that is slow is given less to do: no more is ever owed than is fired in
// half a second.
func (d *deployment) load(ctx context.Context, rate int) (fired int) {
	reg := waybill.NewRegistry()
	err := declare.LoadFor(reg, d.receivers)
	if err != nil {
		d.t.Error(err)
		return -1
	}
	store, err := postgres.Open(ctx, d.pool, reg)
	if err != nil {
		d.t.Error(err)
		return -1
	}
	pace := time.NewTicker(50 * time.Millisecond)
	defer pace.Stop()
	for {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return fired
		}
		events := make([]any, rate/20)
		for i := range events {
			events[i] = waybill.RawEvent{Name: "thing.happened", Payload: json.RawMessage(fmt.Sprintf(`{"n":%d}`, fired+i))}
		}
		finishing := context.WithoutCancel(ctx)
		err := store.InTx(finishing, func(tx pgx.Tx) error {
			var owed int
			err := tx.QueryRow(finishing, `SELECT count(*) FROM waybill.delivery WHERE status IN ('pending', 'claimed', 'failed')`).Scan(&owed)
			if err != nil || owed >= rate/2 {
				events = nil
				return err
			}
			_, err = store.FireAll(finishing, tx, events)
			return err
		})
		if err != nil {
			d.t.Error(err)
			return -1
		}
		fired += len(events)
	}
}

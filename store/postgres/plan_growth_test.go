package postgres_test

import (
	"testing"

	"github.com/waybill-go/waybill/internal/services"
)

func TestPlansBesideAHistory(t *testing.T) {
	t.Parallel()
	plansBesideAHistory(t, 20_000, 10_000)
}

// plansBesideAHistory lets a table grow from nothing under two connections that keep
// the plans they made at the start, and compares what the steps read then with what
// they read beside so many settled rows of the lane, beside so many older due rows of
// another lane as well, and once it is analysed. (Trap 1: an index that holds less
// than what is asked for is none, and the history is read at each pass.)
//
// What a claim reads for a row is a fixed number of ways down an index, and then the
// row. The ways get longer by a page each time an index grows a level: once or twice
// on the way to millions of rows, from two pages to four. So half as much again is
// flat. As much is allowed for versions of a row that nobody could clean up yet, as
// some snapshot of the server might still see them. The steps after the claim meet
// more of those, up to a dozen for a row that has been through all of them. A plan
// that reads the history reads hundreds of pages more for each row.
func plansBesideAHistory(t *testing.T, settled, foreign int) *planBench {
	const due = 4_000
	url := services.Postgres(t)
	b := newPlanBench(t, url)
	var explainers []*explainer
	for _, mode := range planModes {
		explainers = append(explainers, newExplainer(t, url, mode))
	}
	b.fillDue(dealt, due, 0)
	for _, e := range explainers {
		e.runSteps(t)
	}
	first := map[*explainer]costs{}
	for _, state := range []struct {
		name    string
		prepare func()
	}{
		{"at first", func() {}},
		{"beside a history", func() { b.fillSettled(dealt, settled) }},
		{"beside another lane", func() { b.fillDue([]string{"bulk", "mail.aa", "zoo"}, foreign, 5) }},
		{"analysed", func() { b.exec("ANALYZE plan.delivery, plan.event") }},
	} {
		state.prepare()
		b.fillDue(dealt, due/4, 0) // what the last state settled
		b.exec("VACUUM plan.delivery")
		t.Run(state.name, func(t *testing.T) {
			for _, e := range explainers {
				now := e.steps(t)
				report(t, e.mode, now)
				if first[e] == nil {
					first[e] = now
				}
				for name, c := range now {
					slack := 12.0
					switch name {
					case "claim for 1", "claim for 3", "claim for 20":
						slack = 0
					}
					if was := first[e][name].perRow(); c.perRow() > 2*was+slack {
						t.Errorf("%s: %s reads %.1f pages a row, and did %.1f at first", e.mode, name, c.perRow(), was)
					}
				}
			}
		})
	}
	return b
}

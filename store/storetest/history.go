package storetest

import (
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// history returns the newest rows that a request is answered with, and their ids.
func (b *scene) history(request waybill.HistoryRequest) ([]waybill.HistoryRow, []int64) {
	b.Helper()
	rows, err := b.Store.History(b.ctx, request)
	b.must(err)
	var ids []int64
	for _, row := range rows {
		ids = append(ids, row.ID)
	}
	return rows, ids
}

var historyCases = []testCase{
	{"tells when each thing happened to a row", func(b *scene) {
		b.start("a")
		b.SetClock(-2 * hour)
		messages := b.claimed(4)
		b.parcels(1)
		b.SetClock(-hour)
		b.take(messages[0], messages[1], messages[2])
		b.SetClock(0)
		b.ack(waybill.Ack{Message: b.current(messages[0].DeliveryID), Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}},
			waybill.Ack{Message: b.current(messages[1].DeliveryID), Outcome: waybill.Outcome{Status: waybill.Dead, Attempted: true, Error: "no"}},
			waybill.Ack{Message: b.current(messages[2].DeliveryID), Outcome: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: hour}})
		var want []waybill.HistoryRow
		for _, row := range b.rows() {
			want = append(want, waybill.HistoryRow{ID: row.ID, Status: row.Status, DueAt: row.DueAt,
				HandedOffAt: row.HandedOffAt, TakenAt: row.TakenAt, SettledAt: row.SettledAt})
		}
		slices.Reverse(want)
		got, _ := b.history(waybill.HistoryRequest{Receivers: []string{"a"}, Limit: 100})
		equal(b, "history", got, want)
		var ran []bool
		for _, row := range got {
			ran = append(ran, row.RanToTheEnd())
		}
		equal(b, "rows that a run settled", ran, []bool{false, false, false, true, true})
	}},
	{"returns the newest, up to the limit", func(b *scene) {
		b.start("a")
		rows := b.parcels(7)
		_, ids := b.history(waybill.HistoryRequest{Receivers: []string{"a"}, Limit: 3})
		equal(b, "ids", ids, []int64{rows[6].ID, rows[5].ID, rows[4].ID})
		_, ids = b.history(waybill.HistoryRequest{Receivers: []string{"a"}})
		equal(b, "rows of a limit of none", len(ids), 0)
	}},
	{"reads no more than ten times its limit", func(b *scene) {
		b.start("a", "b")
		b.fire(Parcel{})
		b.exec("UPDATE delivery SET receiver = 'c' WHERE receiver = 'a'") // the oldest row but one
		b.parcels(10)
		one := waybill.HistoryRequest{Receivers: []string{"c"}, Limit: 1}
		_, ids := b.history(one)
		equal(b, "rows out of reach", len(ids), 0)
		one.Limit = 3
		_, ids = b.history(one)
		equal(b, "rows in reach", len(ids), 1)
	}},
	{"goes on from page to page until enough are settled", func(b *scene) {
		b.start("a")
		const rows = 2*waybill.HistoryPage + 10
		b.parcels(1)
		b.exec(`INSERT INTO delivery (event_id, receiver, target_digest, status, max_attempts, available_at, due_at, claimed_at, taken_at, settled_at)
SELECT d.event_id, 'a', %s, 'succeeded', 5, d.due_at, d.due_at, d.due_at, d.due_at, d.due_at
  FROM delivery AS d, (WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM n) AS n
 WHERE d.id = (SELECT min(id) FROM delivery)`, b.digestOf("n.i"), rows)
		all, ids := b.history(waybill.HistoryRequest{Receivers: []string{"a"}, Limit: 10 * rows})
		equal(b, "rows", len(all), rows)
		if !slices.IsSortedFunc(ids, func(x, y int64) int { return int(y - x) }) || len(slices.Compact(slices.Clone(ids))) != rows {
			b.Fatal("the rows are not in order, or not each there once")
		}
		_, ids = b.history(waybill.HistoryRequest{Receivers: []string{"a"}, Limit: 10 * rows, Settled: waybill.HistoryPage})
		equal(b, "rows of one page", len(ids), waybill.HistoryPage)
		_, ids = b.history(waybill.HistoryRequest{Receivers: []string{"a"}, Limit: waybill.HistoryPage + 5, Settled: 2 * waybill.HistoryPage})
		equal(b, "rows up to the limit", len(ids), waybill.HistoryPage+5)
	}},
	// No receivers are not all of them.
	{"reads the rows of the named receivers, or of all but some", func(b *scene) {
		b.start("a", "b", "c")
		b.parcels(1)
		for _, c := range []struct {
			receivers, except []string
			want              int
		}{
			{receivers: []string{"a", "c"}, want: 2},
			{receivers: []string{"nobody"}},
			{receivers: []string{}},
			{except: []string{"b"}, want: 2},
			{except: []string{"a", "b", "c"}},
			{want: 3},
		} {
			rows, _ := b.history(waybill.HistoryRequest{Receivers: c.receivers, Except: c.except, Limit: 10})
			equal(b, "rows", len(rows), c.want)
			due, err := b.Store.Due(b.ctx, waybill.DueRequest{Receivers: c.receivers, Except: c.except})
			b.must(err)
			equal(b, "due rows", int(due.Rows), c.want)
		}
	}},
	{"counts what is due and unclaimed", func(b *scene) {
		b.start("a")
		due := func() waybill.Due {
			b.Helper()
			due, err := b.Store.Due(b.ctx, waybill.DueRequest{Receivers: []string{"a"}})
			b.must(err)
			return due
		}
		equal(b, "due of nothing", due(), waybill.Due{})
		b.SetClock(-hour)
		rows := b.parcels(6)
		b.claim(1, "a")
		b.exec("UPDATE delivery SET status = 'failed' WHERE id = %d", rows[1].ID)
		b.exec("UPDATE delivery SET status = 'succeeded' WHERE id = %d", rows[2].ID)
		b.SetClock(time.Minute)
		b.parcels(1) // not before a minute from now
		b.SetClock(0)
		equal(b, "due", due(), waybill.Due{Rows: 4, Since: rows[1].AvailableAt})
	}},
}

// digestOf is an expression of 32 bytes that differ with n.
func (b *scene) digestOf(n string) string {
	if _, err := b.Int(b.ctx, "SELECT length(zeroblob(32))"); err == nil {
		return "CAST(printf('%032d', " + n + ") AS BLOB)"
	}
	return "convert_to(lpad(" + n + "::text, 32, '0'), 'UTF8')"
}

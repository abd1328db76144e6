package river_test

import (
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/river"
)

// How long the oldest has waited is counted from its claim. A job of the future is
// not ready, and one of another queue is another's.
func TestBacklog(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	db, _ := newSQLiteQueue(t)
	for name, c := range map[string]struct {
		config   river.Config
		postpone func()
	}{
		"Postgres": {river.Config{Pool: q.pool}, func() {
			exec(t, q.url, "UPDATE "+q.schema+".river_job SET scheduled_at = now() + interval '1 hour' WHERE id = 1")
		}},
		"SQLite": {river.Config{DB: db}, func() {
			if _, err := db.Exec("UPDATE river_job SET scheduled_at = datetime('now', '+1 hour', 'subsec') WHERE id = 1"); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		b := open(t, c.config)
		c.config.Lane = "other"
		other := open(t, c.config)
		batch := messages(1, 4)
		batch[2].Claim.At = waybill.StampOf(time.Now().Add(-10 * time.Minute))
		if _, err := b.Enqueue(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Enqueue(t.Context(), messages(1, 7)); err != nil {
			t.Fatal(err)
		}
		c.postpone()
		backlog, err := b.Backlog(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		oldest, known := backlog.Oldest.Value()
		if !known || oldest < 10*time.Minute || oldest > 11*time.Minute {
			t.Errorf("%s: the oldest has waited %s", name, backlog.Oldest)
		}
		if backlog.Ready != waybill.Known[int64](3) || backlog.Running != waybill.Known[int64](0) || backlog.Consumers != (waybill.Reading[int64]{}) {
			t.Errorf("%s: backlog %+v", name, backlog)
		}
	}
}

// A queue that has grown large is counted up to a bound.
func TestBacklogBound(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	exec(t, q.url, "INSERT INTO "+q.schema+`.river_job (args, kind, max_attempts, queue)
		SELECT '{}', 'waybill.deliver.v1', 1, 'waybill-default' FROM generate_series(1, 100010)`)
	backlog, err := open(t, river.Config{Pool: q.pool, Timeout: time.Minute}).Backlog(t.Context())
	if err != nil || backlog.Ready != waybill.Known[int64](100_000) {
		t.Errorf("backlog %+v, %v", backlog, err)
	}
}

package river_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/poll"
)

// wantStatuses wants results of the given numbers and statuses, in pairs.
func wantStatuses(t *testing.T, results []waybill.Result, want ...any) {
	t.Helper()
	at := 0
	for i := 0; i < len(want); i += 2 {
		for range want[i].(int) {
			if at >= len(results) {
				t.Fatalf("%d results only", len(results))
			}
			if got := results[at]; got.Status != want[i+1] {
				t.Fatalf("message %d: %s (%v), want %s", at, got.Status, got.Err, want[i+1])
			}
			at++
		}
	}
	if at != len(results) {
		t.Fatalf("%d results, want %d", len(results), at)
	}
}

// number returns what a query of one number yields on Postgres.
func (q postgresQueue) number(t testing.TB, query string) (n int) {
	t.Helper()
	if err := q.pool.QueryRow(context.Background(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (q postgresQueue) jobs(t testing.TB, condition string) int {
	t.Helper()
	return q.number(t, "SELECT count(*) FROM "+q.schema+".river_job WHERE "+condition)
}

// A job is what section and name promise: tried once, due since the claim, with
// the message alone as its arguments.
func TestEnqueuedJob(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	b := open(t, river.Config{Pool: q.pool, Lane: "mail"})
	m := waybill.Message{DeliveryID: 42, Claim: waybill.Claim{By: "relay:1:ab", At: 1_764_500_000_000_000}}
	if _, err := b.Enqueue(t.Context(), []waybill.Message{m}); err != nil {
		t.Fatal(err)
	}
	want := `state = 'available' AND kind = 'waybill.deliver.v1' AND queue = 'waybill-mail' AND max_attempts = 1 AND attempt = 0
		AND priority = 1 AND tags = '{}' AND metadata = '{}' AND unique_key IS NULL AND scheduled_at = '2025-11-30T10:53:20Z'
		AND args = '{"delivery_id": 42, "claimed_by": "relay:1:ab", "claimed_at": "2025-11-30T10:53:20.000000Z"}'`
	if q.jobs(t, want) != 1 || q.jobs(t, "true") != 1 {
		rows, _ := q.pool.Query(t.Context(), "SELECT to_jsonb(j)::text FROM "+q.schema+".river_job j")
		jobs, err := pgx.CollectRows(rows, pgx.RowTo[string])
		t.Errorf("jobs %s, %v", jobs, err)
	}
}

// A relay whose clock is an hour ahead of the database's: its messages are seen
// at once all the same. Here it is the database that is behind.
func TestEnqueueFromClockAhead(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	exec(t, q.url, `CREATE SCHEMA behind;
		CREATE FUNCTION behind.now() RETURNS timestamptz STABLE LANGUAGE sql AS $$ SELECT pg_catalog.now() - interval '1 hour' $$`)
	pool := connect(t, q.url+"&search_path=behind,pg_catalog,public")
	var now time.Time
	if err := pool.QueryRow(t.Context(), "SELECT now()").Scan(&now); err != nil || time.Since(now) < 50*time.Minute {
		t.Fatalf("the database says it is %s: %v", now, err)
	}
	b := open(t, river.Config{Pool: pool})
	came := make(chan waybill.Message, 1)
	backendtest.Consuming(t, b, 1, func(_ context.Context, m waybill.Message) error {
		came <- m
		return nil
	})
	m := waybill.Message{DeliveryID: 1, Claim: waybill.Claim{By: "relay", At: waybill.StampOf(now)}}
	results, err := b.Enqueue(t.Context(), []waybill.Message{m})
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, results, 1, waybill.EnqueueAccepted)
	poll.Until(t, "the message comes", func() bool { return len(came) == 1 })
}

// A commit whose answer was lost leaves its messages unknown, and those after it
// not sent.
func TestEnqueueAnswerLost(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	proxy := fault.NewProxy(t, hostOf(t, q.url))
	pool := connect(t, through(t, q.url, proxy.Addr()))
	b := open(t, river.Config{Pool: pool})
	if _, err := b.Enqueue(t.Context(), messages(1, 1)); err != nil {
		t.Fatal(err)
	}
	// The commit waits behind a constraint trigger until the answer can no
	// longer come.
	exec(t, q.url, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON `+q.schema+`.river_job DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW WHEN (new.args->>'delivery_id' = '2') EXECUTE FUNCTION slow()`)
	committing := func() bool {
		return q.number(t, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query ILIKE 'commit%'") > 0
	}
	done := make(chan struct{})
	var results []waybill.Result
	var err error
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		results, err = b.Enqueue(ctx, messages(2, 1500))
	}()
	poll.Until(t, "the first transaction commits", committing)
	proxy.Cut()
	<-done
	if err == nil {
		t.Fatal("no error")
	}
	wantStatuses(t, results, 1000, waybill.EnqueueUnknown, 500, waybill.EnqueueNotSent)
	poll.Until(t, "the commit takes place", func() bool { return q.jobs(t, "true") == 1001 })
}

// A commit that the server refuses leaves nothing behind.
func TestEnqueueCommitRefused(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	b := open(t, river.Config{Pool: q.pool})
	exec(t, q.url, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no' USING ERRCODE = 'check_violation'; END $$;
		CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON `+q.schema+`.river_job DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW WHEN (new.args->>'delivery_id' = '37') EXECUTE FUNCTION refuse()`)
	results, err := b.Enqueue(t.Context(), messages(1, 100))
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, results, 36, waybill.EnqueueAccepted, 1, waybill.EnqueueRefused, 63, waybill.EnqueueAccepted)
	if n := q.jobs(t, "true"); n != 99 {
		t.Errorf("%d jobs, want 99", n)
	}
}

// What the next message would meet as well is the queue's trouble: nothing was
// queued, and the relay shall wait.
func TestEnqueueWholeQueueUnwell(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	file := openSQLite(t, t.TempDir()+"/empty.db")
	readOnly := connect(t, q.url+"&default_transaction_read_only=on")
	for name, c := range map[string]struct {
		ctx    context.Context
		config river.Config
		word   string
	}{
		"no server":           {t.Context(), river.Config{Pool: nowhere(t)}, "begin"},
		"no tables":           {t.Context(), river.Config{Pool: q.pool, Schema: "absent"}, "absent"},
		"read-only":           {t.Context(), river.Config{Pool: readOnly}, "read-only"},
		"deadline passed":     {past, river.Config{Pool: q.pool}, "deadline"},
		"no tables on SQLite": {t.Context(), river.Config{DB: file}, "river_job"},
	} {
		b := open(t, c.config)
		results, err := b.Enqueue(c.ctx, messages(1, 1500))
		if err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: error %v, want one of %q", name, err, c.word)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error tells the password: %v", name, err)
		}
		wantStatuses(t, results, 1500, waybill.EnqueueNotSent)
	}
}

func TestEnqueueRefusesWhatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	b := open(t, river.Config{Pool: q.pool})
	batch := messages(1, 4)
	batch[1].Claim.By = "not \xff UTF-8"
	batch[2].Claim.By = "a \x00 NUL"
	results, err := b.Enqueue(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	wantStatuses(t, results, 1, waybill.EnqueueAccepted, 2, waybill.EnqueueRefused, 1, waybill.EnqueueAccepted)
	if n := q.jobs(t, "true"); n != 2 {
		t.Errorf("%d jobs, want 2", n)
	}
	err = inTx(t, q, func(tx pgx.Tx) error { return b.EnqueueTx(t.Context(), tx, batch) })
	if err == nil || !strings.Contains(err.Error(), "delivery 2") {
		t.Errorf("enqueue in a transaction: %v", err)
	}
}

// inTx runs work in a transaction and commits it unless work fails.
func inTx(t testing.TB, q postgresQueue, work func(tx pgx.Tx) error) error {
	t.Helper()
	return pgx.BeginFunc(context.Background(), q.pool, work)
}

// With one connection, whoever asks for another while he holds it waits until his
// deadline, and no longer.
func TestEnqueueInsideTransactionOnSQLite(t *testing.T) {
	t.Parallel()
	db, _ := newSQLiteQueue(t)
	b := open(t, river.Config{DB: db})
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := b.EnqueueTx(t.Context(), tx, messages(1, 1)); err != nil {
		t.Fatal(err) // it asks for no other connection
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	results, err := b.Enqueue(ctx, messages(2, 1))
	if err == nil {
		t.Fatal("no error")
	}
	wantStatuses(t, results, 1, waybill.EnqueueNotSent)
	if _, err := b.Backlog(ctx); err == nil {
		t.Error("backlog: no error")
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if n := sqliteNumber(t, db, "SELECT count(*) FROM river_job"); n != 1 {
		t.Errorf("%d jobs, want 1", n)
	}
}

func sqliteNumber(t testing.TB, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
)

// A step that read the table would do for the rows of a test, and stop a system
// that has kept its settled rows for a month.
// Traps 1 and 2: an index whose condition is not that of the query.
func TestPlansReadNoTable(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, err := New(Config{Path: filepath.Join(t.TempDir(), "plans.db"), Registry: waybill.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Migrator().Up(ctx); err != nil {
		t.Fatal(err)
	}
	statements := []struct {
		name, query string
		args        []any
		want        string // a line of the plan
	}{
		{"due", dueSQL, []any{1, `["a","b"]`, 100}, `SEARCH delivery USING INDEX delivery_due \(receiver=\? AND available_at<\?\)`},
		{"claim", claimSQL, []any{"relay", 1, 1, 1, 1}, `SEARCH delivery USING INTEGER PRIMARY KEY \(rowid=\?\)`},
		{"owed receivers", owedReceiversSQL, []any{`[]`}, `SEARCH d USING INDEX delivery_due \(receiver>\?\)`},
		{"lapsed", lapsedSQL, []any{1, nil, `["a"]`, 100, 60, 1}, `SCAN delivery USING INDEX delivery_claimed`},
		{"progress", progressSQL, []any{1, nil, `["a"]`}, `SCAN delivery USING INDEX delivery_claimed`},
		{"give back", giveBackSQL, []any{1, 1, "relay", 1, 1}, `SEARCH delivery USING INTEGER PRIMARY KEY \(rowid=\?\)`},
		{"offered", offeredSQL, []any{1}, `SEARCH delivery USING INTEGER PRIMARY KEY \(rowid=\?\)`},
		{"take", takeSQL, []any{1, 1, "relay", 1, "worker", 1, 1}, `SEARCH delivery USING INTEGER PRIMARY KEY \(rowid=\?\)`},
		{"event", eventSQL, []any{1}, `SEARCH event USING INTEGER PRIMARY KEY \(rowid=\?\)`},
		{"look", lookSQL, []any{1}, `SEARCH delivery USING INTEGER PRIMARY KEY \(rowid=\?\)`},
		{"extend", extendSQL, []any{1, 1, "relay", 1, 1}, `SEARCH delivery USING INTEGER PRIMARY KEY \(rowid=\?\)`},
		{"ack", ackSQL, []any{1, 1, "relay", 1, "failed", 1, 0, 1, "no"}, `SEARCH delivery USING INTEGER PRIMARY KEY \(rowid=\?\)`},
		{"newest", newestSQL, nil, `SEARCH delivery`},
		{"in flight", inFlightSQL, nil, `SCAN delivery USING INDEX delivery_claimed`},
		{"due count", dueCountSQL, []any{1, nil, `["a"]`}, `(SCAN|SEARCH) delivery USING INDEX delivery_due`},
		{"owed events", owedEventsSQL, nil, `SCAN delivery USING INDEX delivery_claimed`},
	}
	scan := regexp.MustCompile(`SCAN (delivery|event|d|e)( USING (COVERING )?INDEX sqlite_autoindex\S*)?$`)
	check := func(t *testing.T) {
		// That is read for as long as somebody asks, and must not be sorted before.
		if plan := explain(t, store.writer, historySQL, nil, `["a"]`); !strings.Contains(plan, "SCAN delivery\n") || strings.Contains(plan, "B-TREE") {
			t.Errorf("history is not read by the primary key:\n%s", plan)
		}
		for _, statement := range statements {
			plan := explain(t, store.writer, statement.query, statement.args...)
			if !regexp.MustCompile(statement.want).MatchString(plan) {
				t.Errorf("%s: no %q in\n%s", statement.name, statement.want, plan)
			}
			for line := range strings.Lines(plan) {
				if scan.MatchString(strings.TrimSpace(line)) {
					t.Errorf("%s reads a table:\n%s", statement.name, plan)
				}
			}
		}
	}
	fill := func(status string, rows int) {
		err := store.InTx(ctx, func(tx *sql.Tx) error { return fillRows(ctx, tx, status, rows) })
		if err != nil {
			t.Fatal(err)
		}
	}
	analyze := func() {
		if _, err := store.writer.ExecContext(ctx, "ANALYZE"); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("empty", check)
	fill("succeeded", 20_000)
	t.Run("settled", check)
	fill("pending", 5_000)
	fill("claimed", 500)
	t.Run("filled", check)
	analyze()
	t.Run("analyzed when filled", check)
	for _, rows := range []int{0, 1, 3, 10, 100, 1000} {
		if _, err := store.writer.ExecContext(ctx, "DELETE FROM event"); err != nil {
			t.Fatal(err)
		}
		for _, status := range []string{"pending", "claimed", "succeeded"} {
			fill(status, rows)
			analyze()
			t.Run(fmt.Sprintf("analyzed when %d were %s", rows, status), check)
		}
	}
}

// fillRows writes rows of the receivers a to j, ten to an event.
func fillRows(ctx context.Context, tx *sql.Tx, status string, rows int) error {
	for _, statement := range []string{
		`INSERT INTO event (name, version, payload, recorded_at)
		 SELECT 'filled', 1, 'null', 0 FROM (WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2 / 10 + 1) SELECT i FROM n) WHERE ?1 <> ''`,
		`INSERT INTO delivery (event_id, receiver, target_digest, status, max_attempts, available_at, due_at, claimed_by, claimed_at, lease_expires_at)
		 SELECT (SELECT max(id) FROM event) - i / 10, substr('abcdefghij', 1 + i % 10, 1), zeroblob(32), ?1, 5, i, i, 'relay', 1, 1
		   FROM (WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?2 - 1) SELECT i FROM n)`,
	} {
		if _, err := tx.ExecContext(ctx, statement, status, rows); err != nil {
			return err
		}
	}
	return nil
}

func explain(t *testing.T, db *sql.DB, query string, args ...any) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(detail + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
)

// An explainer is a store over one connection that has the server explain what it
// sends: the very statements, with their arguments, by the plans that the connection
// has kept for them, in a transaction that begins as theirs does and is rolled back.
// After that they are sent, so that the next step finds what it needs.
type explainer struct {
	t     *testing.T
	mode  string
	pool  *pgxpool.Pool
	store *postgres.Store

	muted bool // nothing is explained
	asked bool
	names map[string]string // under which pgx keeps the statements, and so their plans
	plans []explained
}

// newExplainer opens a store whose connection plans all its statements anew for their
// arguments (force_custom_plan), or once for any arguments (force_generic_plan).
func newExplainer(t *testing.T, url, mode string) *explainer {
	t.Helper()
	e := &explainer{t: t, mode: mode, names: map[string]string{}}
	config := newPool(t, url, 1).Config()
	config.ConnConfig.Tracer = e
	config.ConnConfig.RuntimeParams["plan_cache_mode"] = mode
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off" // no server is crashed here
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	e.pool = pool
	e.store = newStore(t, postgres.Config{Pool: pool, Registry: waybill.NewRegistry(), Schema: "plan", CallTimeout: 5 * time.Minute})
	return e
}

// explain returns the plans of the statements that call sends, except those that only
// make settings.
func (e *explainer) explain(call func()) []explained {
	e.asked, e.plans = !e.muted, nil
	call()
	e.asked = false
	return e.plans
}

// mute runs f with nothing explained: the connection then keeps the statements.
func (e *explainer) mute(f func()) {
	e.muted = true
	f()
	e.muted = false
}

func (e *explainer) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if e.asked {
		e.asked = false // what it sends itself is not explained
		e.explainBatch(ctx, conn, data.Batch.QueuedQueries)
		e.asked = true
	}
	return ctx
}

func (e *explainer) explainBatch(ctx context.Context, conn *pgx.Conn, batch []*pgx.QueuedQuery) {
	e.t.Helper()
	e.must(conn.Exec(ctx, "BEGIN"))
	for _, q := range batch {
		if strings.HasPrefix(q.SQL, "SELECT set_config(") {
			e.must(conn.Exec(ctx, q.SQL, append([]any{pgx.QueryExecModeSimpleProtocol}, q.Arguments...)...))
			continue
		}
		e.plans = append(e.plans, e.explainOne(ctx, conn, q))
	}
	e.must(conn.Exec(ctx, "ROLLBACK"))
}

func (e *explainer) explainOne(ctx context.Context, conn *pgx.Conn, q *pgx.QueuedQuery) explained {
	e.t.Helper()
	if e.names[q.SQL] == "" {
		var name string
		err := conn.QueryRow(ctx, "SELECT name FROM pg_prepared_statements WHERE statement = $1",
			pgx.QueryExecModeSimpleProtocol, q.SQL).Scan(&name)
		if err != nil {
			e.t.Fatalf("a statement that the connection has not kept: %v: %s", err, q.SQL)
		}
		e.names[q.SQL] = name
	}
	execute := "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE " + pgx.Identifier{e.names[q.SQL]}.Sanitize()
	for i := range q.Arguments {
		execute += []string{", ", "("}[oneIf(i == 0)] + fmt.Sprintf("$%d", i+1)
	}
	if len(q.Arguments) > 0 {
		execute += ")"
	}
	var output []byte
	// The simple protocol, as a parameter of EXECUTE must be a literal.
	err := conn.QueryRow(ctx, execute, append([]any{pgx.QueryExecModeSimpleProtocol}, q.Arguments...)...).Scan(&output)
	if err != nil {
		e.t.Fatalf("%s: %v", q.SQL, err)
	}
	var plans []explained
	if err := json.Unmarshal(output, &plans); err != nil || len(plans) != 1 {
		e.t.Fatalf("%s: %v: %s", q.SQL, err, output)
	}
	plans[0].text = string(output)
	return plans[0]
}

func oneIf(condition bool) int {
	if condition {
		return 1
	}
	return 0
}

func (e *explainer) must(_ any, err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *explainer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return e.TraceBatchStart(ctx, conn, pgx.TraceBatchStartData{
		Batch: &pgx.Batch{QueuedQueries: []*pgx.QueuedQuery{{SQL: data.SQL, Arguments: data.Args}}},
	})
}
func (e *explainer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData)     {}
func (e *explainer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (e *explainer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// explained is what EXPLAIN says of one statement.
type explained struct {
	Plan planNode
	JIT  json.RawMessage
	Time float64 `json:"Execution Time"` // milliseconds
	text string
}

type planNode struct {
	Type       string  `json:"Node Type"`
	Relation   string  `json:"Relation Name"`
	Index      string  `json:"Index Name"`
	Cond       string  `json:"Index Cond"`
	Rows       float64 `json:"Actual Rows"`
	Loops      float64 `json:"Actual Loops"`
	Removed    float64 `json:"Rows Removed by Filter"`
	SharedHit  int64   `json:"Shared Hit Blocks"`
	SharedRead int64   `json:"Shared Read Blocks"`
	Plans      []planNode
}

// all are the rows that a node gave in all its runs.
func (n planNode) all() int64 { return int64(n.Rows*n.Loops + 0.5) }

// bounds are what the plan of a statement may do to rows at most.
type bounds struct {
	sort    int64 // rows that are sorted
	removed int64 // rows that are read and turned away
	locked  int64 // rows that are locked before those to be claimed are known
	read    []string
	jit     bool // may be compiled: it reads many rows, and seldom
}

// cost is what a step did.
type cost struct {
	rows    int64
	buffers int64
	sorted  int64 // the most rows that one sort had
}

func (c cost) perRow() float64 { return float64(c.buffers) / float64(max(1, c.rows)) }

// check fails the test if a plan goes beyond its bounds, and adds it up.
func (b bounds) check(t *testing.T, step string, plan explained, c *cost) {
	t.Helper()
	var wrong []string
	var locked, removed int64
	var walk func(n planNode)
	walk = func(n planNode) {
		switch n.Type {
		case "Seq Scan", "Bitmap Heap Scan", "Bitmap Index Scan":
			// The first reads the history. The second meets rows in the order in which
			// they lie, and two statements that lock them so can wait for each other.
			wrong = append(wrong, n.Type+" of "+n.Relation+n.Index)
		case "Index Scan", "Index Only Scan":
			// An index without a condition is read from end to end: good for one that
			// holds nothing but what is wanted.
			if n.Cond == "" && !slices.Contains(b.read, n.Index) {
				wrong = append(wrong, "all of the index "+n.Index+" is read")
			}
		case "Sort", "Incremental Sort":
			var rows int64
			for _, child := range n.Plans {
				rows += child.all()
			}
			c.sorted = max(c.sorted, rows)
			if rows > b.sort {
				wrong = append(wrong, fmt.Sprintf("%d rows are sorted, want at most %d", rows, b.sort))
			}
		case "LockRows":
			locked += n.all()
		}
		removed += int64(n.Removed*n.Loops + 0.5)
		for _, child := range n.Plans {
			walk(child)
		}
	}
	walk(plan.Plan)
	if locked > b.locked {
		wrong = append(wrong, fmt.Sprintf("%d rows are locked, want at most %d", locked, b.locked))
	}
	if removed > b.removed {
		wrong = append(wrong, fmt.Sprintf("%d rows are read for nothing, want at most %d", removed, b.removed))
	}
	if plan.JIT != nil && !b.jit {
		wrong = append(wrong, "it is compiled before it is run")
	}
	if wrong != nil {
		t.Errorf("%s: %s\n%s", step, strings.Join(wrong, "; "), plan.text)
	}
	c.buffers += plan.Plan.SharedHit + plan.Plan.SharedRead
}

package river_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	queue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/services"
)

func TestConformanceOnPostgres(t *testing.T) {
	t.Parallel()
	shared := services.Postgres(t)
	schema := schemas(t, shared)
	backendtest.Run(t, func(t *testing.T, setup backendtest.Setup) backendtest.Harness {
		if !setup.Restarts {
			return postgresHarness(t, setup, shared, schema(t))
		}
		server := services.OwnPostgres(t)
		name := schemas(t, server.URL)(t)
		h := postgresHarness(t, setup, server.URL, name)
		h.Restart = func(t *testing.T) {
			server.Kill()
			server.Start()
			exec(t, server.URL, "TRUNCATE "+name+".river_job")
		}
		return h
	})
}

// postgresHarness puts a proxy before the server and a Backend behind it.
func postgresHarness(t *testing.T, setup backendtest.Setup, databaseURL, schema string) backendtest.Harness {
	t.Helper()
	proxy := fault.NewProxy(t, hostOf(t, databaseURL))
	pool := connect(t, through(t, databaseURL, proxy.Addr()))
	b := open(t, river.Config{Pool: pool, Schema: schema, Timeout: 3 * time.Second, Logger: setup.Log})
	return backendtest.Harness{
		Backend: b,
		FIFO:    true,
		Large:   1500, // more than one transaction
		Inject: func(t *testing.T, body []byte) {
			client, err := queue.NewClient(riverpgxv5.New(pool), &queue.Config{Schema: schema})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Insert(t.Context(), rawArgs{kind: waybill.MessageKind, body: storable(body)},
				&queue.InsertOpts{Queue: waybill.QueueName(waybill.DefaultLane), MaxAttempts: 1})
			if err != nil {
				t.Fatal(err)
			}
		},
		Refuse: func(t *testing.T, deliveryID int64) (heal func()) {
			exec(t, databaseURL, fmt.Sprintf(`ALTER TABLE %s.river_job ADD CONSTRAINT refused CHECK (args->>'delivery_id' <> '%d') NOT VALID`, schema, deliveryID))
			return func() { exec(t, databaseURL, "ALTER TABLE "+schema+".river_job DROP CONSTRAINT refused") }
		},
		Crash: func(t *testing.T, n int) []waybill.Message {
			return backendtest.CrashConsumer(t, "postgres "+databaseURL+" "+schema, n)
		},
		Hang: func(*testing.T) (release func()) {
			proxy.Hold()
			return proxy.Restore
		},
		Down: func(*testing.T) (up func()) {
			proxy.Cut()
			return proxy.Restore
		},
	}
}

func TestConformanceOnSQLite(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, func(t *testing.T, setup backendtest.Setup) backendtest.Harness {
		db, path := newSQLiteQueue(t)
		change := func(t *testing.T, statement string, args ...any) {
			t.Helper()
			if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
				t.Fatal(err)
			}
		}
		return backendtest.Harness{
			Backend: open(t, river.Config{DB: db, Logger: setup.Log}),
			FIFO:    true,
			Large:   300,
			Inject: func(t *testing.T, body []byte) {
				change(t, `INSERT INTO river_job (args, kind, max_attempts, queue) VALUES (jsonb(?), ?, 1, ?)`,
					string(storable(body)), waybill.MessageKind, waybill.QueueName(waybill.DefaultLane))
			},
			Refuse: func(t *testing.T, deliveryID int64) (heal func()) {
				change(t, fmt.Sprintf(`CREATE TRIGGER refused BEFORE INSERT ON river_job WHEN json_extract(new.args, '$.delivery_id') = %d
					BEGIN SELECT raise(ABORT, 'refused'); END`, deliveryID))
				return func() { change(t, "DROP TRIGGER refused") }
			},
			Crash: func(t *testing.T, n int) []waybill.Message {
				return backendtest.CrashConsumer(t, "sqlite "+path, n)
			},
		}
	})
}

// storable returns a body that a database keeps as JSON: itself, or a string of it.
func storable(body []byte) []byte {
	if !json.Valid(body) {
		body, _ = json.Marshal(strings.ReplaceAll(string(body), "\x00", ""))
	}
	return body
}

// rawArgs are a job of any kind with any arguments.
type rawArgs struct {
	kind string
	body json.RawMessage
}

func (a rawArgs) Kind() string                 { return a.kind }
func (a rawArgs) MarshalJSON() ([]byte, error) { return a.body, nil }

// exec runs a statement on a connection of its own.
func exec(t testing.TB, databaseURL, statement string) {
	t.Helper()
	ctx := context.Background() // it may be a cleanup
	conn, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

package wire

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
)

// openThrough opens a store on a database through its PgBouncer.
func openThrough(t *testing.T, through, options string) Store {
	t.Helper()
	reg := waybill.NewRegistry()
	waybill.OnAny(reg, "all", func(context.Context, *waybill.Delivery) error { return nil }, waybill.Options{})
	store, err := OpenStore(StoreConfig{URL: through + options, Registry: reg, Name: "waybill test", Connections: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	if err := store.Reach(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store
}

// TestAPoolerIsNoticed: the pool prepares statements where it may, and only there,
// unless the URL says what it is to do.
func TestAPoolerIsNoticed(t *testing.T) {
	t.Parallel()
	direct := services.Postgres(t)
	through, session := services.OwnPgBouncer(t, direct), services.OwnSessionPgBouncer(t, direct)
	for _, c := range []struct {
		url  string
		want pgx.QueryExecMode
	}{
		{direct, pgx.QueryExecModeCacheStatement},
		{through, pgx.QueryExecModeCacheDescribe},
		{session, pgx.QueryExecModeCacheDescribe},
		{through + "&default_query_exec_mode=exec", pgx.QueryExecModeExec},
		{direct + "&default_query_exec_mode=simple_protocol", pgx.QueryExecModeSimpleProtocol},
		{through + "&default_query_exec_mode=cache_statement", pgx.QueryExecModeCacheStatement},
	} {
		server, err := openPostgresServer(c.url, "waybill test", 4)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			conn, err := server.pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if mode := conn.Conn().Config().DefaultQueryExecMode; mode != c.want {
				t.Errorf("mode %s, want %s", mode, c.want)
			}
			conn.Conn().Close(t.Context())
			conn.Release()
		}
		server.pool.Close()
	}
}

// TestURLsThroughPgBouncer: what our URLs say of a pool and of ourselves is passed on
// or kept from a pooler; a setting that it would refuse is refused with what to do.
func TestURLsThroughPgBouncer(t *testing.T) {
	t.Parallel()
	direct := services.Postgres(t)
	through := services.OwnPgBouncer(t, direct)
	watcher, err := pgx.Connect(t.Context(), direct)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close(context.Background())
	for _, options := range []string{
		"", "&application_name=shop", "&pool_max_conns=9&pool_min_conns=1&pool_max_conn_lifetime=1h", "&connect_timeout=7",
		"&statement_cache_capacity=100&description_cache_capacity=100", "&default_query_exec_mode=exec", "&timezone=UTC",
	} {
		store := openThrough(t, through, options)
		if err := store.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "bridge migrate") {
			t.Errorf("%s: Check of an empty database: %v", options, err)
		}
		name := "waybill test"
		if strings.Contains(options, "application_name") {
			name = "shop"
		}
		var known bool
		if err := watcher.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1)", name).Scan(&known); err != nil || !known {
			t.Errorf("%s: the server knows nobody by the name of %s: %v", options, name, err)
		}
	}
	refused, err := OpenStore(StoreConfig{URL: through + "&statement_timeout=5000", Registry: waybill.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	checkUnreached(t, refused.Reach(t.Context()), through, "unsupported startup parameter: statement_timeout", "take it out of the URL")
}

// TestAStoreThroughPgBouncer opens it as every command does, with nothing said of a
// pooler.
func TestAStoreThroughPgBouncer(t *testing.T) {
	t.Parallel()
	through := services.OwnPgBouncer(t, services.Postgres(t))
	stores := []Store{openThrough(t, through, ""), openThrough(t, through, "")}
	var wg sync.WaitGroup
	for _, store := range stores {
		migrator, err := store.Migrator()
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if _, err := migrator.Up(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, store := range stores {
		if err := store.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for range 20 {
				fireOne(t, store)
			}
		})
	}
	wg.Wait()
	if rows := rowsOf(t, stores[0]); rows != 40 {
		t.Errorf("there are %d deliveries, want 40", rows)
	}
	if err := stores[1].CheckListen(t.Context()); !errors.Is(err, waybill.ErrDeaf) {
		t.Errorf("CheckListen: %v, want ErrDeaf", err)
	}
}

func fireOne(t *testing.T, store Store) {
	t.Helper()
	if err := store.FireAll(t.Context(), func(fire Fire) error {
		_, err := fire(t.Context(), []Event{{RawEvent: waybill.RawEvent{Name: "fired", Payload: json.RawMessage(`{"a":"ü"}`), Headers: map[string]string{"a": "b"}}}})
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestRiverBehindPgBouncer hands rows off to River in the transaction of their claim,
// and has them consumed, all of it through a pooler.
func TestRiverBehindPgBouncer(t *testing.T) {
	t.Parallel()
	direct := services.Postgres(t)
	through := services.OwnPgBouncer(t, direct)
	migrateAll(t, direct, "river:")
	for _, options := range []string{"", "&default_query_exec_mode=exec"} {
		const rows = 5
		store := openThrough(t, through, options)
		backend, err := OpenBackend(BackendConfig{URL: "river:?poll_only=true", StoreURL: through + options})
		if err != nil {
			t.Fatal(err)
		}
		defer backend.Close()
		queue, err := backend.Queue("mail")
		if err != nil {
			t.Fatal(err)
		}
		for range rows {
			fireOne(t, store)
		}
		var sent []int64
		err = store.(waybill.TxClaimer).ClaimTx(t.Context(), func(ctx context.Context, tx any, claims waybill.Claimer) error {
			claimed, err := claims.Claim(ctx, waybill.ClaimRequest{By: "relay", Receivers: []string{"all"}, Limit: 100, Lease: time.Minute})
			if err != nil {
				return err
			}
			var messages []waybill.Message
			for _, row := range claimed {
				messages, sent = append(messages, row.Message), append(sent, row.DeliveryID)
			}
			return queue.(waybill.TxBackend).EnqueueTx(ctx, tx, messages)
		})
		if err != nil || len(sent) != rows {
			t.Fatalf("%s: handed off %d rows: %v", options, len(sent), err)
		}
		if got := consume(t, queue, rows); !slices.Equal(got, sent) {
			t.Errorf("%s: consumed %v, want %v", options, got, sent)
		}
	}
}

// consume returns the ids of the next n messages, sorted.
func consume(t *testing.T, queue Queue, n int) []int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var mu sync.Mutex
	var ids []int64
	if err := queue.Consume(ctx, 4, func(_ context.Context, message waybill.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if ids = append(ids, message.DeliveryID); len(ids) == n {
			cancel()
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	slices.Sort(ids)
	return ids
}

// migrateAll brings the schemas of a store and of a queue up to date.
func migrateAll(t *testing.T, storeURL, backendURL string) {
	t.Helper()
	store, err := OpenStore(StoreConfig{URL: storeURL, Registry: waybill.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	backend, err := OpenBackend(BackendConfig{URL: backendURL, StoreURL: storeURL})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	for _, migrator := range []func() (waybill.Migrator, error){store.Migrator, backend.Migrator} {
		m, err := migrator()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAPoolIsAsLargeAsTheProcessNeeds, whatever less its URL allows.
func TestAPoolIsAsLargeAsTheProcessNeeds(t *testing.T) {
	t.Parallel()
	address := &url.URL{Scheme: "postgres", Host: closed(t), Path: "/app"}
	for options, want := range map[string]int{"": 12, "pool_max_conns=3": 12, "pool_max_conns=40": 40} {
		address.RawQuery = options
		store, err := OpenStore(StoreConfig{URL: address.String(), Registry: waybill.NewRegistry(), Connections: 12})
		if err != nil {
			t.Fatal(err)
		}
		if n := store.(waybill.Pooled).Connections(); n != want {
			t.Errorf("%q: %d connections, want %d", options, n, want)
		}
		store.Close()
	}
}

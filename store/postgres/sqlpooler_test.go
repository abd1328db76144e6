package postgres_test

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
)

// TestDriversBehindPgBouncer: in transaction mode, with more clients than the PgBouncer
// has connections, deliveries go their whole way over each driver that keeps nothing on
// a connection, and one that does is refused.
func TestDriversBehindPgBouncer(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, d sqlDriver) {
		direct, through := behindPgBouncer(t)
		pool := newPool(t, direct, 2)
		migrate(t, pool, "")
		exec(t, pool, "CREATE TABLE stock (id bigint)")
		open := func(mode string) *sql.DB {
			t.Helper()
			address, err := url.Parse(through)
			if err != nil {
				t.Fatal(err)
			}
			if mode != "" && !d.deaf { // pgx's own word
				query := address.Query()
				query.Set("default_query_exec_mode", mode)
				address.RawQuery = query.Encode()
			}
			connector, err := d.connector(address.String())
			if err != nil {
				t.Fatal(err)
			}
			db := sql.OpenDB(connector)
			t.Cleanup(func() { db.Close() })
			return db
		}
		if _, err := postgres.OpenDB(t.Context(), open(""), sqlOrders()); !d.deaf &&
			(err == nil || !strings.Contains(err.Error(), "default_query_exec_mode=cache_describe")) {
			t.Errorf("statements that are kept: %v", err)
		}
		db := open("cache_describe")
		store, err := postgres.OpenDB(t.Context(), db, sqlOrders())
		if err != nil {
			t.Fatal(err)
		}
		var clients sync.WaitGroup
		for client := range 8 {
			clients.Go(func() {
				for n := range 5 {
					if err := store.InSQLTx(t.Context(), func(tx *sql.Tx) error {
						_, err := store.FireSQL(t.Context(), tx, orderPlaced{10*client + n})
						return err
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		clients.Wait()
		for _, receiver := range []string{"mail", "stock"} {
			deliveries := take(t, store, claim(t, store, 100, receiver)...)
			for _, delivery := range deliveries {
				clients.Go(func() {
					declared, _ := store.Registry().Receiver(receiver)
					landed := false
					var err error
					if declared.Transactional() {
						landed, err = store.RunTx(t.Context(), succeeded(delivery), func(ctx context.Context, tx any) error { return declared.RunTx(ctx, tx, delivery) })
					} else {
						var ids []int64
						ids, err = store.Ack(t.Context(), []waybill.Ack{succeeded(delivery)})
						landed = len(ids) == 1
					}
					if err != nil || !landed {
						t.Errorf("delivery %d landed: %t (%v)", delivery.ID, landed, err)
					}
				})
			}
			clients.Wait()
			if len(deliveries) != 40 {
				t.Errorf("took %d rows of %s, want 40", len(deliveries), receiver)
			}
		}
		if n := count(t, pool, "SELECT count(*) FROM waybill.delivery WHERE status <> 'succeeded'"); n != 0 {
			t.Errorf("%d deliveries did not succeed", n)
		}
		if n := count(t, pool, "SELECT count(DISTINCT id) FROM stock"); n != 40 {
			t.Errorf("%d orders are in the stock, want 40", n)
		}
	})
}

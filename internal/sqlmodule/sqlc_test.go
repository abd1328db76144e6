package sqlmodule_test

import (
	"context"
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/waybill-go/waybill/internal/sqlmodule/shop"
	"github.com/waybill-go/waybill/store/postgres"
)

// A DBTX of sqlc is what FireSQL takes, whoever hands it around.
var _ postgres.SQLTx = shop.DBTX(nil)

func TestSQLC(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			o := newOutbox(t, func(url string) (*sql.DB, error) { return sql.Open(driver, url) })
			queries := shop.New(o.db)
			o.places(t, func(ctx context.Context, id int64, then error) error {
				return o.InSQLTx(ctx, func(tx *sql.Tx) error {
					if err := queries.WithTx(tx).PlaceOrder(ctx, shop.PlaceOrderParams{ID: id, Item: "lamp"}); err != nil {
						return err
					}
					if _, err := o.FireSQL(ctx, tx, orderPlaced{ID: id}); err != nil {
						return err
					}
					return then
				})
			})
			if got, err := queries.GetOrder(t.Context(), 1); err != nil || got.Item != "lamp" {
				t.Errorf("order 1 is %+v (%v)", got, err)
			}
		})
	}
}

package sqlmodule_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

func TestBun(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pgx", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			o := newOutbox(t, func(url string) (*sql.DB, error) { return sql.Open(driver, url) })
			db := bun.NewDB(o.db, pgdialect.New())
			o.places(t, func(ctx context.Context, id int64, then error) error {
				return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
					if _, err := tx.NewInsert().Model(&order{ID: id, Item: "lamp"}).ModelTableExpr("shop_order").Exec(ctx); err != nil {
						return err
					}
					if _, err := o.FireSQL(ctx, tx, orderPlaced{ID: id}); err != nil {
						return err
					}
					return then
				})
			})
		})
	}
}

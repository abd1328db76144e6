package sqlmodule_test

import (
	"context"
	"database/sql"
	"testing"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// order is the shop's row, as GORM's and bun's users write it.
type order struct {
	ID   int64 `bun:",pk"`
	Item string
}

func (order) TableName() string { return "shop_order" }

func TestGORM(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]bool{"plain": false, "PrepareStmt": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var db *gorm.DB
			o := newOutbox(t, func(url string) (_ *sql.DB, err error) {
				if db, err = gorm.Open(postgres.Open(url), &gorm.Config{PrepareStmt: prepare, Logger: logger.Discard}); err != nil {
					return nil, err
				}
				return db.DB()
			})
			o.places(t, func(ctx context.Context, id int64, then error) error {
				return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
					if err := tx.Create(&order{ID: id, Item: "lamp"}).Error; err != nil {
						return err
					}
					if _, err := o.FireSQL(ctx, tx.Statement.ConnPool, orderPlaced{ID: id}); err != nil {
						return err
					}
					return then
				})
			})
		})
	}
}

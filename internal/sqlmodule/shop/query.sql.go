package shop

import (
	"context"
)

const getOrder = `-- name: GetOrder :one
SELECT id, item FROM shop_order WHERE id = $1
`

func (q *Queries) GetOrder(ctx context.Context, id int64) (ShopOrder, error) {
	row := q.db.QueryRowContext(ctx, getOrder, id)
	var i ShopOrder
	err := row.Scan(&i.ID, &i.Item)
	return i, err
}

const placeOrder = `-- name: PlaceOrder :exec
INSERT INTO shop_order (id, item) VALUES ($1, $2)
`

type PlaceOrderParams struct {
	ID   int64
	Item string
}

func (q *Queries) PlaceOrder(ctx context.Context, arg PlaceOrderParams) error {
	_, err := q.db.ExecContext(ctx, placeOrder, arg.ID, arg.Item)
	return err
}

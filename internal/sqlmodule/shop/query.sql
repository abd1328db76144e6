-- name: PlaceOrder :exec
INSERT INTO shop_order (id, item) VALUES ($1, $2);

-- name: GetOrder :one
SELECT id, item FROM shop_order WHERE id = $1;

CREATE TABLE shop_order (
    id   bigint PRIMARY KEY,
    item text NOT NULL
);

-- +goose Up

-- A lane that stands still, one row for each at most. It counts until its end,
-- and without one until it is deleted: nothing has to clean up behind it.
CREATE TABLE lane_pause (
    lane   text        PRIMARY KEY,
    until  timestamptz,
    by     text        NOT NULL,
    reason text        NOT NULL,
    since  timestamptz NOT NULL
);

-- +goose Down

DROP TABLE lane_pause;

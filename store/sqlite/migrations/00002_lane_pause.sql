-- +goose Up

-- A lane that stands still, one row for each at most. It counts until its end,
-- and without one until it is deleted: nothing has to clean up behind it.
CREATE TABLE lane_pause (
    lane   TEXT    PRIMARY KEY,
    until  INTEGER,
    by     TEXT    NOT NULL,
    reason TEXT    NOT NULL,
    since  INTEGER NOT NULL
) STRICT;

-- +goose Down

DROP TABLE lane_pause;

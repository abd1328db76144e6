-- +goose Up

-- A moment is a whole number of microseconds since 1970 (UTC), here as in every
-- claim: claimed_at is compared for equality and has to come back exactly.

CREATE TABLE event (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    payload     TEXT    NOT NULL, -- JSON, byte for byte as it was fired
    headers     TEXT,             -- a JSON object of strings
    recorded_at INTEGER NOT NULL
) STRICT;

CREATE TABLE delivery (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id         INTEGER NOT NULL REFERENCES event (id) ON DELETE CASCADE,
    receiver         TEXT    NOT NULL,
    target           TEXT    NOT NULL DEFAULT '',
    target_digest    BLOB    NOT NULL CHECK (length(target_digest) = 32),
    status           TEXT    NOT NULL DEFAULT 'pending' CHECK (status IN
        ('pending', 'claimed', 'failed', 'succeeded', 'dead', 'orphaned', 'cancelled')),
    attempts         INTEGER NOT NULL DEFAULT 0, -- runs that recorded an outcome
    starts           INTEGER NOT NULL DEFAULT 0, -- runs that were begun
    max_attempts     INTEGER NOT NULL,
    available_at     INTEGER NOT NULL, -- when a relay may claim the row
    due_at           INTEGER NOT NULL, -- when it became owed; a backoff never moves it
    claimed_by       TEXT    NOT NULL DEFAULT '',
    claimed_at       INTEGER,          -- never repeats on a row, never goes back to NULL
    lease_expires_at INTEGER,
    handed_off_at    INTEGER,
    taken_at         INTEGER,
    last_error       TEXT    NOT NULL DEFAULT '',
    settled_at       INTEGER,
    UNIQUE (event_id, receiver, target_digest)
) STRICT;

-- Due rows, read in order for each receiver. It holds no column that a take, an
-- extension or a give-back writes.
CREATE INDEX delivery_due ON delivery (receiver, available_at, id)
    WHERE status IN ('pending', 'failed');

-- Rows that are out: as few as are claimed, whatever the table holds.
CREATE INDEX delivery_claimed ON delivery (id)
    WHERE status = 'claimed';

-- +goose Down

DROP TABLE delivery;
DROP TABLE event;

-- +goose Up

-- What goes beside an event. All of it may be absent, and mostly is.
ALTER TABLE event ADD COLUMN dedupe_key TEXT;
ALTER TABLE event ADD COLUMN occurred_at INTEGER;       -- null: when it was recorded
ALTER TABLE event ADD COLUMN correlation_id TEXT;       -- null: the event began its chain
ALTER TABLE event ADD COLUMN causation_id INTEGER;      -- no foreign key: the cause may be deleted first
ALTER TABLE event ADD COLUMN suppressed_reason TEXT;
ALTER TABLE event ADD COLUMN retention_seconds INTEGER;
ALTER TABLE event ADD COLUMN delete_when TEXT CHECK (delete_when IN ('succeeded', 'settled'));

CREATE UNIQUE INDEX event_dedupe_key ON event (dedupe_key) WHERE dedupe_key IS NOT NULL;

-- +goose Down

DROP INDEX event_dedupe_key;
ALTER TABLE event DROP COLUMN delete_when;
ALTER TABLE event DROP COLUMN retention_seconds;
ALTER TABLE event DROP COLUMN suppressed_reason;
ALTER TABLE event DROP COLUMN causation_id;
ALTER TABLE event DROP COLUMN correlation_id;
ALTER TABLE event DROP COLUMN occurred_at;
ALTER TABLE event DROP COLUMN dedupe_key;

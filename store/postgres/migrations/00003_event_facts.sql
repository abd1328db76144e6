-- +goose Up

-- What goes beside an event. All of it may be absent, and mostly is: an event's row
-- then grows by nothing, and no row that is there is rewritten.
ALTER TABLE event
    ADD COLUMN dedupe_key        text,
    ADD COLUMN occurred_at       timestamptz, -- null: when it was recorded
    ADD COLUMN correlation_id    text,        -- null: the event began its chain
    ADD COLUMN causation_id      bigint,      -- no foreign key: the cause may be deleted first
    ADD COLUMN suppressed_reason text,
    ADD COLUMN retention_seconds integer,
    ADD COLUMN delete_when       text CHECK (delete_when IN ('succeeded', 'settled'));

CREATE UNIQUE INDEX event_dedupe_key ON event (dedupe_key) WHERE dedupe_key IS NOT NULL;

-- +goose Down

ALTER TABLE event
    DROP COLUMN dedupe_key,
    DROP COLUMN occurred_at,
    DROP COLUMN correlation_id,
    DROP COLUMN causation_id,
    DROP COLUMN suppressed_reason,
    DROP COLUMN retention_seconds,
    DROP COLUMN delete_when;

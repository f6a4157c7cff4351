-- +goose Up
-- Until when a change happened at the latest, in microseconds since 1970, if its time is
-- unknown: moment is the earliest then. 0 = moment is its time.
ALTER TABLE evidence ADD COLUMN until BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE evidence DROP COLUMN until;

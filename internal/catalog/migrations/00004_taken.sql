-- +goose Up
-- Bytes that were here already, and that a change takes from another place, go back
-- there when it is undone.
ALTER TABLE intent ADD COLUMN taken TEXT NOT NULL DEFAULT ''; -- '' = the bytes to come are nobody's but ours

-- +goose Down
ALTER TABLE intent DROP COLUMN taken;

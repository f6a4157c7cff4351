-- +goose Up
-- In a mirror that somebody publishes the change log has what its sets hold: after each
-- commit one row for each set and resource of it, and one deletion of what no set holds any
-- more. NULL at a Source.
ALTER TABLE change ADD COLUMN path TEXT;
ALTER TABLE change ADD COLUMN due TEXT;         -- as of the member
ALTER TABLE change ADD COLUMN changed BIGINT;   -- as of the member
ALTER TABLE change ADD COLUMN verified BOOLEAN; -- as of the resource
ALTER TABLE change ADD COLUMN stat TEXT;        -- as of the resource

-- +goose Up
-- What a set says of a resource beside the other columns: links to other resources and so
-- on, as resourcesync.Remainder writes it (JSON). NULL = nothing.
ALTER TABLE member ADD COLUMN remainder TEXT;
ALTER TABLE version ADD COLUMN remainder TEXT;
ALTER TABLE change ADD COLUMN remainder TEXT;

-- +goose Down
ALTER TABLE change DROP COLUMN remainder;
ALTER TABLE version DROP COLUMN remainder;
ALTER TABLE member DROP COLUMN remainder;

-- +goose Up
-- Files that a mirror is about to change: written before, removed with the rows
-- that tell the outcome. Whatever is here when a run begins is undone first.
CREATE TABLE intent (
  key    BLOB NOT NULL PRIMARY KEY,
  path   TEXT NOT NULL,
  kept   TEXT NOT NULL,               -- where the bytes at path go; '' = nothing of ours is there
  length BIGINT,                      -- of the bytes to come to path
  sha256 BLOB                         -- of the bytes to come to path; NULL = none come
) WITHOUT ROWID;

-- What is due is few of many: found by this index alone, whatever the set.
DROP INDEX member_due;
CREATE INDEX member_due ON member (key, set_id) WHERE due <> '';

-- +goose Down
DROP TABLE intent;
DROP INDEX member_due;
CREATE INDEX member_due ON member (set_id, key) WHERE due <> '';

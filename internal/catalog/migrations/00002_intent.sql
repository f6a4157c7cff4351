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

-- +goose Down
DROP TABLE intent;

-- +goose Up
-- In a mirror of the flat layout: which bytes have which names. A name is a path as it
-- would be in a tree of files.
CREATE TABLE content_name (
  key    BLOB NOT NULL PRIMARY KEY,  -- resourcesync.KeyOf(path)
  path   TEXT NOT NULL,
  day    TEXT NOT NULL,              -- of the trash that the path is in; '' = none
  sha256 BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX content_name_sha256 ON content_name (sha256);
CREATE INDEX content_name_day ON content_name (day, key) WHERE day <> '';

-- Bytes that may have no name: written before they come and before their last name goes.
CREATE TABLE content_loose (
  sha256 BLOB NOT NULL PRIMARY KEY
) WITHOUT ROWID;

-- +goose Down
DROP TABLE content_loose; DROP TABLE content_name;

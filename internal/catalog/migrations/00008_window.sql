-- +goose Up
-- How many members a set of a mirror had at moments at which it was in step. What it has
-- lost counts from one of them on.
CREATE TABLE extent (
  id      INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  set_id  INTEGER NOT NULL REFERENCES sets (id),
  at      BIGINT  NOT NULL,           -- microseconds since 1970
  run     BIGINT  NOT NULL,           -- the last run until then that changed anything
  members BIGINT  NOT NULL
);
CREATE INDEX extent_set ON extent (set_id, id);

-- Memberships that ended without consent. One that has begun again since stays, and does
-- not count.
CREATE TABLE loss (
  set_id INTEGER NOT NULL REFERENCES sets (id),
  key    BLOB    NOT NULL,
  extent BIGINT  NOT NULL,            -- the last one before it ended
  born   BIGINT  NOT NULL,            -- as of the member
  sha256 BLOB,                        -- of the bytes
  PRIMARY KEY (set_id, key)
) WITHOUT ROWID;

-- The run in which a membership began; 0 = unknown.
ALTER TABLE member ADD COLUMN born BIGINT NOT NULL DEFAULT 0;

INSERT INTO extent (set_id, at, run, members)
  SELECT s.id, 0, (SELECT COALESCE(MAX(id), 0) FROM run), s.members FROM sets s JOIN cursor c ON c.set_id = s.id;

-- +goose Down
ALTER TABLE member DROP COLUMN born;
DROP TABLE loss; DROP TABLE extent;

-- +goose Up
-- What one command did to a mirror.
CREATE TABLE run (
  id      INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  begun   BIGINT  NOT NULL,           -- microseconds since 1970
  what    TEXT    NOT NULL,           -- the command
  created BIGINT  NOT NULL,           -- memberships
  updated BIGINT  NOT NULL,
  deleted BIGINT  NOT NULL
);

-- States of memberships that have ended, with all that is needed to bring them back.
-- The one that has not is in member and resource.
CREATE TABLE version (
  id       INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  set_id   INTEGER NOT NULL REFERENCES sets (id),
  key      BLOB    NOT NULL,
  uri      TEXT    NOT NULL,
  path     TEXT    NOT NULL,          -- where the bytes were
  kept     TEXT    NOT NULL,          -- where they are since; '' = they stayed at path
  length   BIGINT,
  sha256   BLOB,
  digests  TEXT    NOT NULL,
  verified BOOLEAN NOT NULL,
  type     TEXT    NOT NULL,
  changed  BIGINT  NOT NULL,
  lastmod  TEXT    NOT NULL,
  since    BIGINT  NOT NULL,          -- when the state began here, in microseconds since 1970; 0 = unknown
  until    BIGINT  NOT NULL,          -- when it ended
  why      TEXT    NOT NULL,          -- it ended: 'updated' or 'deleted'
  began    BIGINT  NOT NULL,          -- the run that began it; 0 = unknown
  ended    BIGINT  NOT NULL           -- the run that ended it
);
CREATE INDEX version_key ON version (key, id);
CREATE INDEX version_until ON version (until);

-- When the present state of a membership began, and by which run; 0 = unknown.
ALTER TABLE member ADD COLUMN since BIGINT NOT NULL DEFAULT 0;
ALTER TABLE member ADD COLUMN run BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE member DROP COLUMN run;
ALTER TABLE member DROP COLUMN since;
DROP TABLE version;
DROP TABLE run;

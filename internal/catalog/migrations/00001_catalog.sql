-- +goose Up
-- One row: what this catalog is and whose.
CREATE TABLE setting (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
);

-- A set of resources. At a Source the name is the set's; in a mirror it is the URI of its Capability List.
CREATE TABLE sets (
  id   INTEGER NOT NULL PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
);

-- One row per URI whose bytes are (or are about to be) at path. id follows the order of recording.
CREATE TABLE resource (
  id       INTEGER NOT NULL PRIMARY KEY,
  key      BLOB    NOT NULL UNIQUE,   -- resourcesync.KeyOf(uri)
  uri      TEXT    NOT NULL,
  path     TEXT    NOT NULL,          -- below the root, slash-separated
  fold     BLOB    NOT NULL UNIQUE,   -- key of the path after Unicode and case folding: one file per row on any file system
  stored   BOOLEAN NOT NULL,          -- false: the path is reserved, bytes are not acknowledged yet
  length   BIGINT,                    -- of the bytes at path
  sha256   BLOB,                      -- of the bytes at path
  digests  TEXT    NOT NULL,          -- all known digests of the bytes at path, as in rs:md/@hash
  verified BOOLEAN NOT NULL,          -- a length or digest given by the Source was checked
  type     TEXT    NOT NULL,
  stat     TEXT    NOT NULL           -- what stat said when the bytes were hashed; '' = hash again
);
CREATE INDEX resource_content ON resource (sha256) WHERE sha256 IS NOT NULL;

-- Directories that hold files of ours, by folded path: a file never takes the name of one.
CREATE TABLE directory (
  fold BLOB NOT NULL PRIMARY KEY,
  path TEXT NOT NULL                  -- as first written; later files reuse this spelling
) WITHOUT ROWID;

-- A resource in a set.
CREATE TABLE member (
  set_id  INTEGER NOT NULL REFERENCES sets (id),
  key     BLOB    NOT NULL,
  changed BIGINT  NOT NULL,           -- last change recorded or applied, in microseconds since 1970
  lastmod TEXT    NOT NULL,
  due     TEXT    NOT NULL,           -- why the bytes have to be fetched again; '' = good
  wanted  TEXT    NOT NULL,           -- while due: what the Source last said of the resource (JSON)
  PRIMARY KEY (set_id, key)
) WITHOUT ROWID;
CREATE INDEX member_due ON member (set_id, key) WHERE due <> '';
CREATE INDEX member_key ON member (key);

-- What changed at a Source, once and for ever.
CREATE TABLE change (
  seq      INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  set_id   INTEGER NOT NULL REFERENCES sets (id),
  datetime BIGINT  NOT NULL,          -- microseconds since 1970, never decreasing
  change   TEXT    NOT NULL,
  uri      TEXT    NOT NULL,
  lastmod  TEXT    NOT NULL,
  length   BIGINT,
  digests  TEXT    NOT NULL,
  type     TEXT    NOT NULL
);
CREATE INDEX change_set ON change (set_id, seq);

-- A publication: staged, committed as this row, written out, done.
CREATE TABLE publication (
  id     INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  set_id INTEGER NOT NULL REFERENCES sets (id),
  made   BIGINT  NOT NULL,            -- microseconds since 1970
  state  TEXT    NOT NULL,            -- 'begun', 'committed' or 'done'
  body   TEXT    NOT NULL             -- what was published, as JSON: see source.Publication; '' while begun
);

-- Every file we have written into a publication's bucket and not yet removed.
CREATE TABLE document (
  key         TEXT   NOT NULL PRIMARY KEY,
  length      BIGINT NOT NULL,
  sha256      BLOB   NOT NULL,
  immutable   BOOLEAN NOT NULL,
  publication BIGINT NOT NULL,        -- that last wrote it
  retired     BIGINT                  -- microseconds since 1970: when nothing linked it any more
) WITHOUT ROWID;

-- How far a mirror has followed a set.
CREATE TABLE cursor (
  set_id INTEGER NOT NULL PRIMARY KEY REFERENCES sets (id),
  body   TEXT    NOT NULL             -- JSON: see destination.Cursor
);

-- Plans that a guard withheld.
CREATE TABLE held_plan (
  hash     TEXT   NOT NULL PRIMARY KEY,
  set_id   INTEGER NOT NULL REFERENCES sets (id),
  made     BIGINT NOT NULL,
  summary  TEXT   NOT NULL,
  approved BIGINT                     -- until when the approval holds
) WITHOUT ROWID;

-- +goose Down
DROP TABLE held_plan; DROP TABLE cursor; DROP TABLE document; DROP TABLE publication; DROP TABLE change;
DROP TABLE member; DROP TABLE directory; DROP TABLE resource; DROP TABLE sets; DROP TABLE setting;

-- +goose Up
-- Documents of a set that stay when later publications add others: Change Lists,
-- generations of Resource Lists and so on.
CREATE TABLE item (
  set_id INTEGER NOT NULL REFERENCES sets (id),
  kind   TEXT    NOT NULL,
  number BIGINT  NOT NULL,
  body   TEXT    NOT NULL,            -- JSON: see source.Item
  PRIMARY KEY (set_id, kind, number)
) WITHOUT ROWID;

-- What the configuration of a Source says of resources.
ALTER TABLE member ADD COLUMN changefreq TEXT NOT NULL DEFAULT '';
ALTER TABLE change ADD COLUMN encoding TEXT NOT NULL DEFAULT '';
ALTER TABLE change ADD COLUMN changefreq TEXT NOT NULL DEFAULT '';

-- A Source has files by their exact names and looks for no content: fold is NULL
-- there, and the indexes of mirrors are empty.
CREATE TABLE resource_new (
  id       INTEGER NOT NULL PRIMARY KEY,
  key      BLOB    NOT NULL UNIQUE,   -- resourcesync.KeyOf(uri)
  uri      TEXT    NOT NULL,
  path     TEXT    NOT NULL,          -- below the root, slash-separated
  fold     BLOB,                      -- in a mirror: key of the path after Unicode and case folding: one file per row on any file system
  stored   BOOLEAN NOT NULL,          -- false: the path is reserved, bytes are not acknowledged yet
  length   BIGINT,                    -- of the bytes at path
  sha256   BLOB,                      -- of the bytes at path
  digests  TEXT    NOT NULL,          -- all known digests of the bytes at path, as in rs:md/@hash; '' if there is none but sha256
  verified BOOLEAN NOT NULL,          -- a length or digest given by the Source was checked
  type     TEXT    NOT NULL,
  encoding TEXT    NOT NULL,          -- content coding of the bytes at path
  stat     TEXT    NOT NULL           -- what stat said when the bytes were hashed; '' = hash again
);
INSERT INTO resource_new SELECT id, key, uri, path, fold, stored, length, sha256, digests, verified, type, '', stat FROM resource;
DROP TABLE resource;
ALTER TABLE resource_new RENAME TO resource;
CREATE UNIQUE INDEX resource_fold ON resource (fold) WHERE fold IS NOT NULL;
CREATE INDEX resource_content ON resource (sha256) WHERE sha256 IS NOT NULL AND fold IS NOT NULL;

-- Counted as they come and go: counting 2,600,000 takes seconds.
ALTER TABLE sets ADD COLUMN members BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sets ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;
UPDATE sets SET members = (SELECT COUNT(*) FROM member m WHERE m.set_id = sets.id),
  bytes = (SELECT COALESCE(SUM(r.length), 0) FROM member m JOIN resource r ON r.key = m.key WHERE m.set_id = sets.id);

-- Parts of directories whose files are all recorded as they were seen: digest says how.
CREATE TABLE piece (
  set_id INTEGER NOT NULL REFERENCES sets (id),
  dir    BLOB    NOT NULL,            -- key of the path of the directory
  part   BIGINT  NOT NULL,
  digest BLOB    NOT NULL,
  PRIMARY KEY (set_id, dir, part)
) WITHOUT ROWID;

CREATE INDEX publication_set ON publication (set_id, id);

-- +goose Down
-- Names that fold alike, which a Source may have, have no place in the schema before.
CREATE TABLE resource_old (
  id INTEGER NOT NULL PRIMARY KEY, key BLOB NOT NULL UNIQUE, uri TEXT NOT NULL, path TEXT NOT NULL, fold BLOB NOT NULL UNIQUE,
  stored BOOLEAN NOT NULL, length BIGINT, sha256 BLOB, digests TEXT NOT NULL, verified BOOLEAN NOT NULL, type TEXT NOT NULL, stat TEXT NOT NULL
);
INSERT INTO resource_old SELECT id, key, uri, path, COALESCE(fold, key), stored, length, sha256,
  CASE WHEN digests = '' AND sha256 IS NOT NULL THEN 'sha-256:' || lower(hex(sha256)) ELSE digests END, verified, type, stat FROM resource;
DROP TABLE resource;
ALTER TABLE resource_old RENAME TO resource;
CREATE INDEX resource_content ON resource (sha256) WHERE sha256 IS NOT NULL;
DROP INDEX publication_set;
DROP TABLE piece;
ALTER TABLE sets DROP COLUMN bytes;
ALTER TABLE sets DROP COLUMN members;
ALTER TABLE change DROP COLUMN changefreq;
ALTER TABLE change DROP COLUMN encoding;
ALTER TABLE member DROP COLUMN changefreq;
DROP TABLE item;

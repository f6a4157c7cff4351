-- +goose Up
-- Keys of 16 random bytes made every row another page of every index. By directory of
-- the URI and of the path, neighbours in a list are neighbours here.

-- Directories of URIs: all up to their last slash, or ''.
CREATE TABLE base (
  id  INTEGER NOT NULL PRIMARY KEY,
  uri TEXT    NOT NULL UNIQUE
);
INSERT INTO base (uri) SELECT DISTINCT instep_dir(uri) FROM resource ORDER BY 1;

-- Directories of paths: with a slash at their end, but for the root, ''. In a mirror fold
-- is the path after Unicode and case folding, and a file never takes the name of a
-- directory; at a Source it is the path.
CREATE TABLE directory_new (
  id   INTEGER NOT NULL PRIMARY KEY,
  fold TEXT    NOT NULL UNIQUE,
  path TEXT    NOT NULL                -- as first written; later files reuse this spelling
);
INSERT INTO directory_new (fold, path) SELECT instep_fold(path) || '/', path || '/' FROM directory ORDER BY 1;
INSERT OR IGNORE INTO directory_new (fold, path)
  SELECT DISTINCT CASE WHEN fold IS NULL THEN instep_dir(path) ELSE instep_fold(instep_dir(path)) END,
    instep_dir(path) FROM resource ORDER BY 1;
DROP TABLE directory;
ALTER TABLE directory_new RENAME TO directory;

-- One row per URI whose bytes are (or are about to be) at a path. id follows the order of recording.
CREATE TABLE resource_new (
  id       INTEGER NOT NULL PRIMARY KEY,
  base     INTEGER NOT NULL REFERENCES base (id),
  rest     TEXT    NOT NULL,          -- of the URI, after base
  crc      BIGINT  NOT NULL,          -- CRC-32C of the URI: a row that was damaged is no other resource
  dir      INTEGER NOT NULL REFERENCES directory (id),
  name     TEXT,                      -- in dir; NULL = rest
  fold     TEXT,                      -- in a mirror: name after folding: one file per row on any file system
  stored   BOOLEAN NOT NULL,          -- false: the path is reserved, bytes are not acknowledged yet
  length   BIGINT,                    -- of the bytes at path
  sha256   BLOB,                      -- of the bytes at path
  digests  TEXT    NOT NULL,          -- all known digests of the bytes at path, as in rs:md/@hash; '' if there is none but sha256
  verified BOOLEAN NOT NULL,          -- a length or digest given by the Source was checked
  type     TEXT    NOT NULL,
  encoding TEXT    NOT NULL,          -- content coding of the bytes at path
  stat     TEXT    NOT NULL           -- what stat said when the bytes were hashed; '' = hash again
);
INSERT INTO resource_new
  SELECT r.id, b.id, substr(r.uri, length(b.uri) + 1), instep_crc(r.uri), d.id,
    nullif(substr(r.path, length(d.path) + 1), substr(r.uri, length(b.uri) + 1)),
    CASE WHEN r.fold IS NOT NULL THEN substr(instep_fold(r.path), length(d.fold) + 1) END,
    r.stored, r.length, r.sha256, r.digests, r.verified, r.type, r.encoding, r.stat
  FROM resource r CROSS JOIN base b ON b.uri = instep_dir(r.uri)
  CROSS JOIN directory d ON d.fold = CASE WHEN r.fold IS NULL THEN instep_dir(r.path)
    ELSE instep_fold(instep_dir(r.path)) END
  ORDER BY r.id;

-- A resource in a set.
CREATE TABLE member_new (
  set_id     INTEGER NOT NULL REFERENCES sets (id),
  resource   INTEGER NOT NULL REFERENCES resource_new (id),
  changed    BIGINT  NOT NULL,        -- last change recorded or applied, in microseconds since 1970
  lastmod    TEXT    NOT NULL,
  due        TEXT    NOT NULL,        -- why the bytes have to be fetched again; '' = good
  wanted     TEXT    NOT NULL,        -- while due: what the Source last said of the resource (JSON)
  changefreq TEXT    NOT NULL DEFAULT '',
  since      BIGINT  NOT NULL DEFAULT 0, -- when the present state began, in microseconds since 1970; 0 = unknown
  run        BIGINT  NOT NULL DEFAULT 0, -- by which it began; 0 = unknown
  born       BIGINT  NOT NULL DEFAULT 0, -- the run in which the membership began; 0 = unknown
  remainder  TEXT,                    -- what else the set says, as resourcesync.Remainder writes it; NULL = nothing
  PRIMARY KEY (set_id, resource)
) WITHOUT ROWID;
INSERT INTO member_new
  SELECT m.set_id, r.id, m.changed, m.lastmod, m.due, m.wanted, m.changefreq, m.since, m.run, m.born, m.remainder
  FROM resource r CROSS JOIN member m ON m.key = r.key; -- by r.id: in each set they ascend

-- Losses by URI: that of a member, of an earlier state, else a name that no member has.
CREATE TABLE loss_new (
  set_id INTEGER NOT NULL REFERENCES sets (id),
  uri    TEXT    NOT NULL,
  extent BIGINT  NOT NULL,            -- the last one before it ended
  born   BIGINT  NOT NULL,            -- as of the member
  sha256 BLOB,                        -- of the bytes
  PRIMARY KEY (set_id, uri)
) WITHOUT ROWID;
INSERT INTO loss_new SELECT l.set_id, COALESCE((SELECT r.uri FROM resource r WHERE r.key = l.key),
    (SELECT v.uri FROM version v WHERE v.key = l.key LIMIT 1), 'lost:' || hex(l.key)), l.extent, l.born, l.sha256 FROM loss l;
DROP TABLE loss;
ALTER TABLE loss_new RENAME TO loss;

-- Files that a mirror is about to change: written before, removed with the rows that tell
-- the outcome. Whatever is here when a run begins is undone first.
CREATE TABLE intent_new (
  uri      TEXT NOT NULL PRIMARY KEY,
  resource INTEGER,                   -- NULL = the URI had no path before
  path     TEXT NOT NULL,
  kept     TEXT NOT NULL,             -- where the bytes at path go; '' = nothing of ours is there
  length   BIGINT,                    -- of the bytes to come to path
  sha256   BLOB,                      -- of the bytes to come to path; NULL = none come
  taken    TEXT NOT NULL              -- where these are, and go back to if this is undone; '' = they are nobody's but ours
) WITHOUT ROWID;
INSERT INTO intent_new SELECT r.uri, r.id, i.path, i.kept, i.length, i.sha256, i.taken FROM intent i JOIN resource r ON r.key = i.key;
INSERT OR IGNORE INTO intent_new SELECT uri, NULL, path, kept, length, sha256, taken FROM arriving;
DROP TABLE arriving;
DROP TABLE intent;
ALTER TABLE intent_new RENAME TO intent;

DROP TABLE member;
DROP TABLE resource;
ALTER TABLE resource_new RENAME TO resource;
ALTER TABLE member_new RENAME TO member;
CREATE UNIQUE INDEX resource_uri ON resource (base, rest);
CREATE UNIQUE INDEX resource_file ON resource (dir, fold) WHERE fold IS NOT NULL;
CREATE INDEX member_resource ON member (resource);
CREATE INDEX member_due ON member (resource, set_id) WHERE due <> '';

DROP INDEX version_key;
ALTER TABLE version DROP COLUMN key;
CREATE INDEX version_uri ON version (uri, id);

ALTER TABLE spelling ADD COLUMN own TEXT; -- the URI that we would give; NULL of those adopted before

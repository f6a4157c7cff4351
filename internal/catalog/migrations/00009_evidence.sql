-- +goose Up
-- What a change was the last to say of a URI, since the last list of its set was read. Of a
-- member it holds while the moments are the same, of a deletion while there is no member.
-- What a list says stands in member; here it has a row only where it takes the moment at
-- which the bytes came to tell whether they are of its lastmod.
CREATE TABLE evidence (
  set_id INTEGER NOT NULL REFERENCES sets (id),
  key    BLOB    NOT NULL,
  told   BOOLEAN NOT NULL,            -- by a change
  gone   BOOLEAN NOT NULL,            -- a deletion
  moment BIGINT  NOT NULL,            -- microseconds since 1970
  came   BIGINT  NOT NULL,            -- when the bytes came, likewise; 0 = unknown
  PRIMARY KEY (set_id, key)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE evidence;

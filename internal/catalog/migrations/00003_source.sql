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
ALTER TABLE resource ADD COLUMN encoding TEXT NOT NULL DEFAULT '';
ALTER TABLE member ADD COLUMN changefreq TEXT NOT NULL DEFAULT '';
ALTER TABLE change ADD COLUMN encoding TEXT NOT NULL DEFAULT '';
ALTER TABLE change ADD COLUMN changefreq TEXT NOT NULL DEFAULT '';

CREATE INDEX publication_set ON publication (set_id, id);

-- +goose Down
DROP INDEX publication_set;
ALTER TABLE change DROP COLUMN changefreq;
ALTER TABLE change DROP COLUMN encoding;
ALTER TABLE member DROP COLUMN changefreq;
ALTER TABLE resource DROP COLUMN encoding;
DROP TABLE item;

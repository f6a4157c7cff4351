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

-- +goose Down
DROP TABLE item;

-- +goose Up
-- URIs by which an adopted publication knows files that we would give another one.
CREATE TABLE spelling (
  key BLOB NOT NULL PRIMARY KEY,      -- resourcesync.KeyOf(the URI that we would give)
  uri TEXT NOT NULL
) WITHOUT ROWID;

-- +goose Down
DROP TABLE spelling;

-- +goose Up
-- As intent, for resources that had no path before: all of one commit in one row, as they
-- are written and removed together and nothing else asks for them. What becomes of them
-- is recorded once, when their bytes are there.
CREATE TABLE arrival (
  id   INTEGER NOT NULL PRIMARY KEY,
  body TEXT    NOT NULL              -- JSON: see arrival in intend.go
);

-- +goose Down
DROP TABLE arrival;

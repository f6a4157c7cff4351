-- +goose Up
-- What a commit of a mirror brings that had no path before, all of it in one row: written
-- before the files are touched, as intent. Where it says everything there is to say of
-- such a commit, the tables may follow later, those of many commits together.
CREATE TABLE arrival (
  id      INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  body    TEXT    NOT NULL,           -- JSON: see arrival in arrival.go
  settled BOOLEAN NOT NULL            -- the files are there; false: they may be
);

-- +goose Down
DROP TABLE arrival;

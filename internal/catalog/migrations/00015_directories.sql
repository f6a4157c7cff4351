-- +goose Up
-- A directory of paths goes with the last file in it or below it: so a resource can have its
-- name. Whether there is one is asked by directory, at a Source, too, where fold is NULL.
DROP INDEX resource_file;
CREATE UNIQUE INDEX resource_file ON resource (dir, fold);
DELETE FROM directory WHERE NOT EXISTS (SELECT 1 FROM resource WHERE dir = directory.id)
  AND (fold = '' OR NOT EXISTS (SELECT 1 FROM directory d CROSS JOIN resource r ON r.dir = d.id
    WHERE d.fold > directory.fold AND d.fold < substr(directory.fold, 1, length(directory.fold) - 1) || '0'));

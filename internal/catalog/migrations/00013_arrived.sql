-- +goose Up
-- Schema 7 to 12 kept what a commit of a mirror brought to new paths as one row of JSON, and
-- entered it in the tables later. This brings such rows to where everything else is; those
-- whose files may not be there become intents.
CREATE TABLE arriving (uri TEXT NOT NULL PRIMARY KEY, path TEXT NOT NULL, kept TEXT NOT NULL, length BIGINT, sha256 BLOB, taken TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE arrived (id INTEGER NOT NULL PRIMARY KEY, key BLOB NOT NULL, length BIGINT, run BIGINT NOT NULL, at BIGINT NOT NULL, body TEXT NOT NULL);

INSERT OR REPLACE INTO arriving
  SELECT n.value->>'uri', n.value->>'path', COALESCE(n.value->>'kept', ''), CASE WHEN n.value->>'length' >= 0 THEN n.value->>'length' END,
    instep_bytes(n.value->>'sha256'), COALESCE(n.value->>'taken', '')
  FROM arrival a CROSS JOIN json_each(a.body, '$.new') n WHERE NOT a.settled ORDER BY a.id;
INSERT INTO arrived (key, length, run, at, body)
  SELECT instep_sum(n.value->>'uri'), CASE WHEN n.value->>'length' >= 0 THEN n.value->>'length' END, COALESCE(a.body->>'run', 0), COALESCE(a.body->>'at', 0), n.value
  FROM arrival a CROSS JOIN json_each(a.body, '$.new') n WHERE a.settled ORDER BY a.id, n.key;

INSERT INTO resource (key, uri, path, fold, stored, length, sha256, digests, verified, type, encoding, stat)
  SELECT key, body->>'uri', body->>'path', instep_bytes(body->>'fold'), TRUE, length, instep_bytes(body->>'sha256'),
    COALESCE(body->>'digests', ''), COALESCE(body->>'verified', FALSE), COALESCE(body->>'type', ''), '', COALESCE(body->>'stat', '')
  FROM arrived ORDER BY id;

CREATE TABLE joined AS
  SELECT m.value->>'set' AS set_id, a.key, a.length, a.run, a.at, COALESCE(m.value->>'changed', 0) AS changed, COALESCE(m.value->>'lastmod', '') AS lastmod,
    NULLIF(m.value->>'remainder', '') AS remainder, COALESCE(m.value->>'told', FALSE) AS told, COALESCE(m.value->>'until', 0) AS until,
    COALESCE(m.value->>'came', 0) AS came
  FROM arrived a CROSS JOIN json_each(a.body, '$.members') m;
INSERT INTO member (set_id, key, changed, lastmod, due, wanted, since, run, born, remainder)
  SELECT set_id, key, changed, lastmod, '', '', at, run, run, remainder FROM joined;
INSERT OR REPLACE INTO evidence (set_id, key, told, gone, moment, until, came)
  SELECT set_id, key, told, FALSE, changed, until, came FROM joined WHERE told OR came <> 0;
-- The sum of lengths stays a number that can be held, whatever they are.
UPDATE sets SET members = members + (SELECT COUNT(*) FROM joined WHERE set_id = sets.id),
  bytes = CAST(MIN(bytes + (SELECT TOTAL(length) FROM joined WHERE set_id = sets.id), 9e18) AS INTEGER)
  WHERE id IN (SELECT set_id FROM joined);
UPDATE run SET created = created + (SELECT COUNT(*) FROM joined WHERE run = run.id);

DROP TABLE joined;
DROP TABLE arrived;
DROP TABLE arrival;

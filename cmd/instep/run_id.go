package main

import (
	"errors"
	"strconv"

	"instep/internal/runs"
	"instep/mirror"
)

// A run of sync or audit has an id by which its record is kept (the moment at which it
// began), and, if it changed the mirror, a number in its history. Commands show both and
// take either.

// maxRunNumber is below every id of a record.
const maxRunNumber = 1e9

// numberOf is the number of a run in the history of a mirror, given by that or by the id
// of its record.
func numberOf(dir, state, id string) (int64, error) {
	if n, err := strconv.ParseInt(id, 10, 64); err == nil && n > 0 && n < maxRunNumber {
		return n, nil
	}
	rec, err := runs.Load(mirror.StateDir(dir, state), id)
	switch {
	case errors.Is(err, runs.ErrNoRun):
		return 0, usagef("%s has no run %q; instep history %s --runs lists them", dir, id, shellWord(dir))
	case err != nil:
		return 0, err
	case rec.End == nil || rec.End.Change == 0:
		return 0, usagef("run %s changed nothing in %s; instep history %s --runs lists those that did", id, dir, shellWord(dir))
	}
	return rec.End.Change, nil
}

// recordOfRun is the id of the record of a run, given by that or by the number of the run
// in the history.
func recordOfRun(all []runs.Record, id string) string {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil || n >= maxRunNumber {
		return id
	}
	for i := range all {
		if end := all[i].End; end != nil && end.Change == n {
			return all[i].ID
		}
	}
	return id
}

// idsOfRuns are the ids of the records of runs by their numbers in the history, as far as
// records are kept.
func idsOfRuns(dir, state string) map[int64]string {
	all, err := listRuns(dir, state)
	if err != nil {
		return nil // the numbers are enough
	}
	ids := map[int64]string{}
	for i := range all {
		if end := all[i].End; end != nil && end.Change != 0 {
			ids[end.Change] = all[i].ID
		}
	}
	return ids
}

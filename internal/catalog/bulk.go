package catalog

import (
	"errors"
	"slices"
	"strings"

	"instep/resourcesync"
)

// bulkRows is the largest number of rows in one statement. Such statements use "?"
// parameters: SQLite looks up each named or numbered parameter separately, which takes
// quadratic time.
const bulkRows = 50

// eachRow executes the statement of head, VALUES with up to bulkRows rows, and tail
// until all args are used. It returns the number of rows affected.
func (r *recorder) eachRow(head, row, tail string, args []any) (n int64, err error) {
	width := strings.Count(row, "?")
	for some := range slices.Chunk(args, bulkRows*width) {
		affected, err := r.exec(head+"VALUES "+repeated(row, len(some)/width)+tail, some...)
		if err != nil {
			return n, err
		}
		n += affected
	}
	return n, nil
}

// creations returns the number of creations at the beginning of the list, at most
// bulkRows.
func creations(changes []Change) (n int) {
	for n < min(len(changes), bulkRows) && changes[n].Change == resourcesync.Created {
		n++
	}
	return n
}

// enterResource records a new resource and returns its ID.
func (r *recorder) enterResource(of *Resource) (id int64, err error) {
	_, err = r.insertResources("INSERT", unfolded, []newResource{{of.URI, of.Path, of, nil}})
	return r.last, err
}

// newResource is a row to insert. bytes is nil if no bytes are stored yet. fold is NULL
// at a Source, which never marks bytes as verified.
type newResource struct {
	uri, path string
	bytes     *Resource
	fold      any
}

// insertResources inserts rows with consecutive IDs, of which the last is r.last, and
// returns how many it inserted.
func (r *recorder) insertResources(insert string, fold func(string) string, all []newResource) (n int64, err error) {
	bases, dirs := make([]string, len(all)), make([]string, len(all))
	for i := range all {
		bases[i], _ = split(all[i].uri)
		dirs[i], _ = split(all[i].path)
	}
	if err := errors.Join(r.enterBases(bases), r.enterDirectories(dirs, fold)); err != nil {
		return 0, err
	}
	args := make([]any, 0, 15*len(all))
	for i := range all {
		row := &all[i]
		id, err := r.nextID()
		if err != nil {
			return 0, err
		}
		of, stored := row.bytes, row.bytes != nil
		if !stored {
			of = &Resource{}
		}
		_, rest := split(row.uri)
		_, name := split(row.path)
		args = append(args, id, r.bases[bases[i]], rest, crcOf(row.uri), r.dirs[fold(dirs[i])], nameBeside(name, rest), row.fold, stored, writeLength(of.Length),
			writeSHA256(of.Digests), writeDigests(of.Digests), row.fold != nil && of.Verified, of.Type, of.Encoding, of.Stat)
	}
	return r.eachRow(insert+" INTO resource (id, base, rest, crc, dir, name, fold, stored, length, sha256, digests, verified, type, encoding, stat) ",
		"(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", "", args)
}

// unfolded is the fold function of a Source, which compares file names exactly.
func unfolded(path string) string { return path }

// recordSome records changes: a single one of any kind, or creations, all in one
// statement if all resources are new.
func (r *recorder) recordSome(changes []Change) error {
	if len(changes) > 1 {
		together, err := r.createMany(changes)
		if err != nil || together {
			return err
		}
	}
	for i := range changes {
		if err := r.record(&changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// createMany records creations in one statement. It returns false and records nothing
// if one of the resources exists already, in this set or in another.
func (r *recorder) createMany(changes []Change) (together bool, err error) {
	rows := make([]newResource, len(changes))
	for i := range changes {
		row := &changes[i].Resource
		if err := errors.Join(changes[i].check(), r.touch(row.Path)); err != nil {
			return false, err
		}
		rows[i] = newResource{row.URI, row.Path, row, nil}
	}
	// With OR IGNORE, SQLite keeps no copies of pages to undo the statement.
	n, err := r.insertResources("INSERT OR IGNORE", unfolded, rows)
	before := r.last - int64(len(changes))
	if err == nil && n != int64(len(changes)) {
		r.last = before
		_, err = r.exec("DELETE FROM resource WHERE id > $1", before)
		return false, err
	}
	if err != nil {
		return false, err
	}
	args := make([]any, 0, 6*len(changes))
	for i := range changes {
		ch := &changes[i]
		args = append(args, r.set, before+1+int64(i), r.at, writeDatetime(ch.LastMod), string(ch.ChangeFreq), writeText(ch.Remainder))
		r.members++
		r.bytes += ch.Length.Int64()
	}
	_, err = r.eachRow("INSERT INTO member (set_id, resource, changed, lastmod, changefreq, due, wanted, remainder) ", "(?,?,?,?,?,'','',?)", "", args)
	return true, err
}

package catalog

import (
	"errors"
	"slices"
	"strings"

	"instep/resourcesync"
)

// bulkRows is the number of creations in one statement. Parameters in it are "?": SQLite
// looks named and numbered ones up one by one, which is quadratic.
const bulkRows = 50

// eachRow executes a statement that takes rows of parameters where head ends, many at
// a time, and returns the number of rows affected.
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

// creations is how many changes at the beginning of the list are creations that one
// statement can record.
func creations(changes []Change) (n int) {
	for n < min(len(changes), bulkRows) && changes[n].Change == resourcesync.Created {
		n++
	}
	return n
}

// enterResource records a resource that is new, and returns its ID.
func (r *recorder) enterResource(of *Resource) (id int64, err error) {
	_, err = r.insertResources("INSERT", unfolded, []newResource{{of.URI, of.Path, of, nil}})
	return r.last, err
}

// newResource is a row to insert, with stored bytes or nil. fold is NULL at a Source, whose
// bytes nobody else can verify.
type newResource struct {
	uri, path string
	bytes     *Resource
	fold      any
}

// insertResources adds rows with IDs in a row, up to r.last, and returns how many were added.
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

// unfolded is the fold of paths at a Source, which compares file names exactly.
func unfolded(path string) string { return path }

// recordSome records one change, or creations, at most bulkRows: together if all are of
// new resources.
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

// createMany records creations. It is false, and nothing was recorded, if one is of a
// member, or of a resource of another set.
func (r *recorder) createMany(changes []Change) (together bool, err error) {
	rows := make([]newResource, len(changes))
	for i := range changes {
		row := &changes[i].Resource
		if err := errors.Join(changes[i].check(), r.touch(row.Path)); err != nil {
			return false, err
		}
		rows[i] = newResource{row.URI, row.Path, row, nil}
	}
	// OR IGNORE, so that SQLite keeps no page copies for an undo of the single statement.
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

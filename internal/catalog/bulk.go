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

// errNotNew: among many creations there is one of a member, or of a resource of another set.
var errNotNew = errors.New("not all are new")

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

// creations is how many changes at the beginning of the list are creations, as far
// as that matters.
func creations(changes []Change) (n int) {
	for n < min(len(changes), bulkRows) && changes[n].Change == resourcesync.Created {
		n++
	}
	return n
}

// enterResources records resources that are new, at most bulkRows, with IDs in a row, and
// returns the last of these. If one is not new it is errNotNew.
func (r *recorder) enterResources(changes []Change) (last int64, err error) {
	rows := make([]newResource, len(changes))
	for i := range changes {
		row := &changes[i].Resource
		rows[i] = newResource{row.URI, row.Path, row, nil}
	}
	// OR IGNORE, so that SQLite keeps no page copies for an undo of the single statement.
	n, err := r.insertResources("INSERT OR IGNORE", unfolded, rows)
	if err == nil && n != int64(len(changes)) {
		err = errNotNew
	}
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

// createMany records bulkRows creations, or returns errNotNew.
func (r *recorder) createMany(changes []Change) error {
	for i := range changes {
		if err := errors.Join(changes[i].check(), r.touch(changes[i].Path)); err != nil {
			return err
		}
	}
	last, err := r.enterResources(changes)
	if err != nil {
		return err
	}
	args := make([]any, 0, 6*len(changes))
	for i := range changes {
		ch := &changes[i]
		args = append(args, r.set, last-int64(len(changes)-1-i), r.at, writeDatetime(ch.LastMod), string(ch.ChangeFreq), writeText(ch.Remainder))
		r.members++
		r.bytes += ch.Length.Int64()
	}
	_, err = r.eachRow("INSERT INTO member (set_id, resource, changed, lastmod, changefreq, due, wanted, remainder) ", "(?,?,?,?,?,'','',?)", "", args)
	return err
}

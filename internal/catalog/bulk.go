package catalog

import (
	"slices"
	"strings"

	"instep/resourcesync"
)

// bulkRows is the largest number of rows in one statement. These statements use "?" as
// parameters, because SQLite searches for each named or numbered parameter, which takes
// quadratic time.
const bulkRows = 50

// eachRow executes statements of up to bulkRows rows: head, VALUES with the rows, and tail.
// It returns the number of affected rows.
func (r *recorder) eachRow(head, row, tail string, args []any) (n int64) {
	width := strings.Count(row, "?")
	for some := range slices.Chunk(args, bulkRows*width) {
		n += r.exec(head+"VALUES "+repeated(row, len(some)/width)+tail, some...)
	}
	return n
}

// creations returns at most bulkRows.
func creations(changes []Change) (n int) {
	for n < min(len(changes), bulkRows) && changes[n].Change == resourcesync.Created {
		n++
	}
	return n
}

// newResource is a row to insert for a new resource. The field bytes describes the
// stored bytes, or is nil if there are none yet. fold is the value of the column of the
// same name; NULL in the catalog of a Source.
type newResource struct {
	uri, path string
	bytes     *Resource
	fold      any
}

// insertResources inserts rows for resources, and returns how many were inserted. Their
// row numbers are consecutive, and the last one is r.last.
func (r *recorder) insertResources(insert string, fold func(string) string, all []newResource) int64 {
	bases, dirs := make([]string, len(all)), make([]string, len(all))
	for i := range all {
		bases[i], _ = split(all[i].uri)
		dirs[i], _ = split(all[i].path)
	}
	r.enterBases(bases)
	r.enterDirectories(dirs, fold)
	if r.last == 0 {
		r.first([]any{&r.last}, greatestID)
	}
	args := make([]any, 0, 15*len(all))
	for i := range all {
		row := &all[i]
		of, stored := row.bytes, row.bytes != nil
		if !stored {
			of = &Resource{}
		}
		_, rest := split(row.uri)
		_, name := split(row.path)
		digests, sha256 := writeDigests(of.Digests)
		r.last++
		args = append(args, r.last, r.bases[bases[i]], rest, crcOf(row.uri), r.dirs[fold(dirs[i])], nameBeside(name, rest), row.fold, stored, writeLength(of.Length),
			sha256, digests, row.fold != nil && of.Verified, of.Type, of.Encoding, of.Stat)
	}
	return r.eachRow(insert+" INTO resource (id, base, rest, crc, dir, name, fold, stored, length, sha256, digests, verified, type, encoding, stat) ",
		"(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", "", args)
}

// unfolded is the fold function of a Source: it returns paths unchanged, since a Source
// compares file names exactly.
func unfolded(path string) string { return path }

func (r *recorder) recordSome(changes []Change) {
	if len(changes) > 1 && r.createMany(changes) {
		return
	}
	for i := range changes {
		r.record(&changes[i])
	}
}

// createMany records creations with one statement. If one of the resources exists
// already, in this set or another, createMany records nothing and returns false.
func (r *recorder) createMany(changes []Change) bool {
	rows := make([]newResource, len(changes))
	for i := range changes {
		row := &changes[i].Resource
		r.stop(changes[i].check())
		r.touch(row.Path)
		rows[i] = newResource{row.URI, row.Path, row, nil}
	}
	// With OR IGNORE the statement cannot fail, so SQLite need not save pages to be
	// able to undo it.
	n := r.insertResources("INSERT OR IGNORE", unfolded, rows)
	before := r.last - int64(len(changes))
	if n != int64(len(changes)) {
		r.last = before
		r.exec("DELETE FROM resource WHERE id > $1", before)
		return false
	}
	args := make([]any, 0, 6*len(changes))
	for i := range changes {
		ch := &changes[i]
		args = append(args, r.set, before+1+int64(i), r.at, ch.LastMod.String(), string(ch.ChangeFreq), writeText(ch.Remainder))
		r.members++
		r.bytes += ch.Length.Int64()
	}
	r.eachRow("INSERT INTO member (set_id, resource, changed, lastmod, changefreq, due, wanted, remainder) ", "(?,?,?,?,?,'','',?)", "", args)
	return true
}

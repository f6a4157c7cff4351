package catalog

import (
	"slices"
	"strings"

	"instep/resourcesync"
)

// bulkRows is the largest number of rows that one statement inserts or updates. The
// parameters of such statements are "?": SQLite would search for each named or numbered
// parameter, which takes quadratic time.
const bulkRows = 50

// execRows executes statements that handle at most bulkRows rows each. Each statement
// consists of the given head, the word VALUES with the rows, and the given tail.
func (r *recorder) execRows(head, row, tail string, args []any) (affected int64) {
	width := strings.Count(row, "?")
	for some := range slices.Chunk(args, bulkRows*width) {
		affected += r.exec(head+"VALUES "+repeated(row, len(some)/width)+tail, some...)
	}
	return affected
}

func leadingCreations(changes []Change) (n int) {
	for n < min(len(changes), bulkRows) && changes[n].Change == resourcesync.Created {
		n++
	}
	return n
}

type newResource struct {
	uri, path string
	bytes     *Resource // description of the stored bytes; nil if there are none yet
	fold      any       // value of the column "fold"; nil in the catalog of a Source
}

// insertResources returns the number of inserted rows. The resources get consecutive
// row numbers, and the field lastID gets the last of them.
func (r *recorder) insertResources(insert string, fold func(string) string, all []newResource) int64 {
	bases, dirs := make([]string, len(all)), make([]string, len(all))
	for i := range all {
		bases[i], _ = split(all[i].uri)
		dirs[i], _ = split(all[i].path)
	}
	r.enterBases(bases)
	r.enterDirectories(dirs, fold)
	if r.lastID == 0 {
		r.scanRow([]any{&r.lastID}, greatestID)
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
		r.lastID++
		args = append(args, r.lastID, r.bases[bases[i]], rest, crcOf(row.uri), r.dirs[fold(dirs[i])], nameColumn(name, rest), row.fold, stored, writeLength(of.Length),
			sha256, digests, row.fold != nil && of.Verified, of.Type, of.Encoding, of.Stat)
	}
	return r.execRows(insert+" INTO resource (id, base, rest, crc, dir, name, fold, stored, length, sha256, digests, verified, type, encoding, stat) ",
		"(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", "", args)
}

// unfolded is the fold function of a Source, which compares file names exactly.
func unfolded(path string) string { return path }

// createMany records creations with one statement. If one of the resources exists
// already, in this set or another, createMany records nothing and returns false.
func (r *recorder) createMany(changes []Change) bool {
	rows := make([]newResource, len(changes))
	for i := range changes {
		row := &changes[i].Resource
		r.stop(changes[i].check())
		r.dropPieces(row.Path)
		rows[i] = newResource{row.URI, row.Path, row, nil}
	}
	// With OR IGNORE the statement cannot fail, so SQLite need not save pages to be
	// able to undo it.
	n := r.insertResources("INSERT OR IGNORE", unfolded, rows)
	before := r.lastID - int64(len(changes))
	if n != int64(len(changes)) {
		r.lastID = before
		r.exec("DELETE FROM resource WHERE id > $1", before)
		return false
	}
	args := make([]any, 0, 6*len(changes))
	for i := range changes {
		ch := &changes[i]
		args = append(args, r.set, before+1+int64(i), r.moment, ch.LastMod.String(), string(ch.ChangeFreq), writeText(ch.Remainder))
		r.members++
		r.bytes += ch.Length.Int64()
	}
	r.execRows("INSERT INTO member (set_id, resource, changed, lastmod, changefreq, due, wanted, remainder) ", "(?,?,?,?,?,'','',?)", "", args)
	return true
}

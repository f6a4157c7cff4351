package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"instep/resourcesync"
)

// bulkRows is how many creations one statement takes. Parameters in it are "?":
// SQLite looks named and numbered ones up one by one, which is quadratic.
const bulkRows = 50

// errNotNew: among many creations there is one of a member, or of a resource of another set.
var errNotNew = errors.New("not all are new")

var bulkChanges = `INSERT INTO change (set_id, datetime, change, uri, lastmod, length, digests, type, encoding, changefreq, remainder)
	SELECT ?, ?, ?, column1, column2, column3, column4, column5, column6, column7, column8 FROM (` + bulkValues("(?,?,?,?,?,?,?,?)") + ")"

func bulkValues(row string) string { return valuesOf(row, bulkRows) }

func valuesOf(row string, n int) string {
	return "VALUES " + strings.TrimSuffix(strings.Repeat(row+",", n), ",")
}

// eachRow executes a statement that takes rows of parameters where head ends, many at
// a time, and returns the number of rows affected.
func (r *recorder) eachRow(head, row, tail string, args []any) (n int64, err error) {
	width := strings.Count(row, "?")
	for some := range slices.Chunk(args, bulkRows*width) {
		affected, err := r.exec(head+valuesOf(row, len(some)/width)+tail, some...)
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
	bases, dirs := make([]string, len(changes)), make([]string, len(changes))
	for i := range changes {
		bases[i], _ = split(changes[i].URI)
		dirs[i], _ = split(changes[i].Path)
	}
	if err := errors.Join(r.enterBases(bases), r.enterDirectories(dirs, unfolded)); err != nil {
		return 0, err
	}
	args := make([]any, 0, 13*len(changes))
	for i := range changes {
		ch := &changes[i]
		if last, err = r.nextID(); err != nil {
			return 0, err
		}
		_, rest := split(ch.URI)
		_, name := split(ch.Path)
		args = append(args, last, r.bases[bases[i]], rest, crcOf(ch.URI), r.dirs[dirs[i]], nameBeside(name, rest), writeLength(ch.Length), writeSHA256(ch.Digests),
			writeDigests(ch.Digests), ch.Type, ch.Encoding, ch.Stat)
	}
	// OR IGNORE: so that SQLite keeps no copies of pages in case it has to undo the
	// statement alone.
	n, err := r.eachRow("INSERT OR IGNORE INTO resource (id, base, rest, crc, dir, name, stored, length, sha256, digests, verified, type, encoding, stat) ",
		"(?,?,?,?,?,?,TRUE,?,?,?,FALSE,?,?,?)", "", args)
	if err == nil && n != int64(len(changes)) {
		err = errNotNew
	}
	return last, err
}

// unfolded is for paths at a Source, which has files by their exact names.
func unfolded(path string) string { return path }

// createMany records bulkRows creations, or returns errNotNew.
func (r *recorder) createMany(changes []Change, seqs []int64) error {
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
	if err != nil || !r.logs {
		return err
	}
	return r.logMany(changes, seqs)
}

// logMany enters creations in the change log, where rows of one statement have
// numbers in a row.
func (r *recorder) logMany(changes []Change, seqs []int64) error {
	args := append(make([]any, 0, 3+8*bulkRows), r.set, r.at, string(resourcesync.Created))
	for i := range changes {
		ch := &changes[i]
		args = append(args, ch.URI, writeDatetime(ch.LastMod), writeLength(ch.Length), ch.Digests.String(), ch.Type,
			ch.Encoding, string(ch.ChangeFreq), writeText(ch.Remainder))
	}
	res, err := r.run(bulkChanges, args...)
	if err != nil {
		return err
	}
	last, err := res.LastInsertId()
	for i := range seqs {
		seqs[i] = last - int64(len(seqs)-1-i)
	}
	if err != nil {
		return fmt.Errorf("number the changes: %w", err)
	}
	return nil
}

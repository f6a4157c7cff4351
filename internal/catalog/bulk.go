package catalog

import (
	"bytes"
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

var (
	bulkMembers = `INSERT INTO member (set_id, key, changed, lastmod, changefreq, due, wanted, remainder)
		SELECT ?, column1, ?, column2, column3, '', '', column4 FROM (` + bulkValues("(?,?,?,?)") + `) WHERE TRUE
		ON CONFLICT (set_id, key) DO NOTHING`
	// OR IGNORE: so that SQLite keeps no copies of pages in case it has to undo the
	// statement alone.
	bulkResources = `INSERT OR IGNORE INTO resource (key, uri, path, stored, length, sha256, digests, verified, type, encoding, stat) ` +
		bulkValues("(?,?,?,TRUE,?,?,?,FALSE,?,?,?)")
	bulkChanges = `INSERT INTO change (set_id, datetime, change, uri, lastmod, length, digests, type, encoding, changefreq, remainder)
		SELECT ?, ?, ?, column1, column2, column3, column4, column5, column6, column7, column8 FROM (` + bulkValues("(?,?,?,?,?,?,?,?)") + ")"
)

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

// many returns the creations that are recorded many at a time.
func many(changes []Change) (created []newMember) {
	for i := 0; i < len(changes); {
		if creations(changes[i:]) < bulkRows {
			i++
			continue
		}
		for range bulkRows {
			created = append(created, newMember{resourcesync.KeyOf(changes[i].URI), &changes[i]})
			i++
		}
	}
	return created
}

// creations is how many changes at the beginning of the list are creations, as far
// as that matters.
func creations(changes []Change) (n int) {
	for n < min(len(changes), bulkRows) && changes[n].Change == resourcesync.Created {
		n++
	}
	return n
}

// newMember is a creation and the key of its resource.
type newMember struct {
	key    resourcesync.Key
	change *Change
}

// enter makes the resources of creations members, a multiple of bulkRows, in the order
// of their keys: so one page of the tables takes many of them in a row.
func (r *recorder) enter(created []newMember) error {
	created = slices.Clone(created)
	slices.SortFunc(created, func(a, b newMember) int { return bytes.Compare(a.key[:], b.key[:]) })
	for some := range slices.Chunk(created, bulkRows) {
		args := append(make([]any, 0, 2+4*bulkRows), r.set, r.at)
		for i := range some {
			m := &some[i]
			args = append(args, m.key[:], writeDatetime(m.change.LastMod), string(m.change.ChangeFreq), writeText(m.change.Remainder))
		}
		if err := r.allNew(bulkMembers, args); err != nil {
			return err
		}
	}
	return nil
}

// createMany records bulkRows creations of members that were entered, or returns errNotNew.
func (r *recorder) createMany(created []newMember, changes []Change, seqs []int64) error {
	resources := make([]any, 0, 9*bulkRows)
	for i := range created {
		key, ch := &created[i].key, created[i].change
		if err := ch.check(); err != nil {
			return err
		}
		if err := r.touch(ch.Path); err != nil {
			return err
		}
		r.sieve.add(*key)
		resources = append(resources, key[:], ch.URI, ch.Path, writeLength(ch.Length), writeSHA256(ch.Digests),
			writeDigests(ch.Digests), ch.Type, ch.Encoding, ch.Stat)
		r.members++
		r.bytes += ch.Length.Int64()
	}
	if err := r.allNew(bulkResources, resources); err != nil || !r.logs {
		return err
	}
	return r.logMany(changes, seqs)
}

func (r *recorder) allNew(query string, args []any) error {
	n, err := r.exec(query, args...)
	if err == nil && n != bulkRows {
		err = errNotNew
	}
	return err
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

package catalog

import (
	"context"
	"fmt"
)

// Refolding says how to compute the folded forms of a mirror's paths again, because its
// file system now treats different names as one, or refuses names that it accepted
// before.
type Refolding struct {
	Fold  func(path string) string // see FoldBy
	Takes func(path string) bool   // reports whether the file system accepts a path
	// Place finds another path for a resource whose path now has the folded form of the
	// path of another resource, the holder. If the holder is zero, the file system
	// refuses the path. The memberships that Place returns replace the recorded ones.
	Place func(r, holder Resource, names Names) (Place, []Membership, error)
	// Settings are stored in the same transaction as the new folded forms.
	Settings map[string]string
}

const refoldPage = 500

// Refold replaces the folded forms of all paths in one transaction, and makes f.Fold
// the fold function of the catalog.
func (c *Mirror) Refold(ctx context.Context, f Refolding) error {
	before := c.folding()
	c.FoldBy(f.Fold)
	err := c.transact(ctx, "fold the paths in the catalog", func(r *recorder) {
		// If several directories have the same folded path now, the first directory gets
		// this folded path. The other directories keep their old ones until their files
		// have moved.
		r.refoldDirectories("UPDATE OR IGNORE directory SET fold = $2 WHERE id = $1", func(id int64, fold string) []any { return []any{id, fold} })
		lost := r.refoldFiles(f)
		n := newNames(r, r.fold)
		for i := range lost {
			c.placeAnew(r, f, &lost[i], n)
		}
		r.refoldDirectories("DELETE FROM directory WHERE id = $1", func(id int64, _ string) []any { return []any{id} })
		if len(lost) > 0 { // the log lacks the new paths, so readers have to compare all resources
			at, _ := r.logState()
			r.breakLog(max(c.instant().UnixMicro(), at+1))
		}
		r.storeSettings(f.Settings)
	})
	if err != nil {
		c.FoldBy(before)
	}
	return err
}

// eachRow calls change for each row of a query. It reads a page of rows before it calls
// change for them, so change may write to these rows. The query returns the rows with
// an ID greater than $1 in ascending order. The function id returns the ID of a row.
func eachRow[T any](r *recorder, query string, dest func(*T) []any, id func(*T) int64, change func(*T)) {
	for after := int64(0); ; {
		page, err := queryAll(r, nil, dest, query, after, refoldPage)
		if err != nil || len(page) == 0 {
			return
		}
		for i := range page {
			change(&page[i])
			after = id(&page[i])
		}
	}
}

// refoldDirectories executes a statement for each directory whose recorded folded path
// is outdated. The function args returns the arguments of the statement for the ID of
// the directory and its new folded path.
func (r *recorder) refoldDirectories(statement string, args func(id int64, fold string) []any) {
	type directory struct {
		id         int64
		fold, path string
	}
	eachRow(r, "SELECT id, fold, path FROM directory WHERE id > $1 ORDER BY id LIMIT $2",
		func(d *directory) []any { return []any{&d.id, &d.fold, &d.path} }, func(d *directory) int64 { return d.id },
		func(d *directory) {
			if fold := r.fold(d.path); fold != d.fold {
				r.exec(statement, args(d.id, fold)...)
			}
		})
}

type resourcePath struct {
	id              int64
	uri, path, fold string
	dir             int64
	holder          string // the URI of the resource that has the same folded path now; "" if there is none
}

// refoldFiles returns the resources that need another path. Until they get one, the
// catalog has folded names for them that no file can have.
func (r *recorder) refoldFiles(f Refolding) (lost []resourcePath) {
	eachRow(r, "SELECT r.id, b.uri || r.rest, d.path || COALESCE(r.name, r.rest), r.fold, r.dir FROM resource r"+placed+
		"WHERE r.id > $1 AND r.fold IS NOT NULL ORDER BY r.id LIMIT $2",
		func(v *resourcePath) []any { return []any{&v.id, &v.uri, &v.path, &v.fold, &v.dir} }, func(v *resourcePath) int64 { return v.id },
		func(v *resourcePath) {
			if !r.refoldFile(f, v) {
				lost = append(lost, *v)
			}
		})
	return lost
}

func (r *recorder) refoldFile(f Refolding, v *resourcePath) (keepsPath bool) {
	folded := f.Fold(v.path)
	dir, name := split(folded)
	if r.dirs[dir] == 0 {
		above, _ := split(v.path)
		r.enterDirectories([]string{above}, r.fold)
	}
	if !r.exists("directory WHERE fold = $1", folded+"/") && f.Takes(v.path) {
		if r.dirs[dir] == v.dir && name == v.fold {
			return true
		}
		r.leave(v.dir)
		if r.exec("UPDATE OR IGNORE resource SET dir = $2, fold = $3 WHERE id = $1", v.id, r.dirs[dir], name) > 0 {
			return true
		}
	}
	r.scanRow([]any{&v.holder}, "SELECT b.uri || r.rest FROM resource r JOIN base b ON b.id = r.base WHERE r.dir = $1 AND r.fold = $2 AND r.id <> $3",
		r.dirs[dir], name, v.id)
	r.exec("UPDATE resource SET fold = $2 WHERE id = $1", v.id, fmt.Sprint("/", v.id)) // no file has this folded name, since it has a slash
	return false
}

func (c *db) placeAnew(r *recorder, f Refolding, l *resourcePath, n names) {
	found, err := (&Facts{c}).Lookup(r.ctx, 0, []string{l.uri, l.holder}) // Lookup uses another connection, so it reads the state before this transaction
	if err != nil || r.err != nil {
		r.stop(err)
		return
	}
	p, members, err := f.Place(found[0], found[1], n)
	if err == nil {
		err = n.reserve(&p)
	}
	if err != nil {
		r.err = err
		return
	}
	dir, name := split(p.Path)
	r.enterDirectories(append(p.Directories, dir), r.fold)
	r.leave(l.dir)
	r.exec("UPDATE resource SET dir = $2, name = $3, fold = $4 WHERE id = $1", l.id, r.dirs[r.fold(dir)], name, r.fold(name))
	s := settling{recorder: r, Outcome: &Outcome{Members: members}}
	s.findRows()
	s.writeMemberships()
}

package catalog

import (
	"context"
	"database/sql"
	"fmt"
)

// Refolding describes how the paths of a mirror are folded again, because its file
// system now treats different names as the same one, or refuses names that it accepted.
type Refolding struct {
	Fold  func(path string) string // see FoldBy
	Takes func(path string) bool   // whether the file system accepts the path
	// Place finds another path for the resource lost, whose path is refused or is now
	// the path of holder, which is zero if there is no such resource. The returned
	// memberships replace the present ones of their resources.
	Place func(lost, holder Resource, names Names) (Place, []Membership, error)
	// Settings are stored in the same transaction.
	Settings map[string]string
}

// refoldPage is the number of rows that are read at a time.
const refoldPage = 500

// Refold folds all paths again in one transaction, and uses f.Fold from then on. It can
// be repeated.
func (c *Mirror) Refold(ctx context.Context, f Refolding) error {
	before := c.folding()
	c.FoldBy(f.Fold)
	err := c.transact(ctx, "fold the paths in the catalog", func(r *recorder) error {
		if err := r.refoldDirectories(f.Fold); err != nil {
			return err
		}
		lost, err := r.refoldFiles(f)
		if err != nil {
			return err
		}
		n := newNames(r, r.fold)
		for i := range lost {
			if err := c.placeAnew(r, f, &lost[i], n); err != nil {
				return err
			}
		}
		if err := r.dropTwins(f.Fold); err != nil {
			return err
		}
		if len(lost) > 0 { // their new paths have to be published
			at, _, err := r.logState()
			if err == nil {
				err = r.breakLog(max(c.instant().UnixMicro(), at+1))
			}
			if err != nil {
				return err
			}
		}
		return r.keepAll(f.Settings)
	})
	if err != nil {
		c.FoldBy(before)
	}
	return err
}

// eachDirectory calls do for all directories, which it reads some at a time, so that do
// may change them.
func (r *recorder) eachDirectory(do func(id int64, fold, path string) error) error {
	type directory struct {
		id         int64
		fold, path string
	}
	return eachPage(r, func(rows *sql.Rows) (d directory, err error) {
		err = rows.Scan(&d.id, &d.fold, &d.path)
		return d, err
	}, "SELECT id, fold, path FROM directory WHERE id > $1 ORDER BY id LIMIT $2", func(d *directory) (int64, error) {
		return d.id, do(d.id, d.fold, d.path)
	})
}

// eachPage calls do for the rows of a query, which it reads some at a time, so that do
// may change them. do returns the number of its row; the query returns rows with a
// number greater than $1, in ascending order.
func eachPage[T any](r *recorder, scan func(*sql.Rows) (T, error), query string, do func(*T) (after int64, err error)) error {
	for after := int64(0); ; {
		page, err := rows(r, scan, query, after, refoldPage)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			if after, err = do(&page[i]); err != nil {
				return err
			}
		}
	}
}

// refoldDirectories folds the paths of directories again. If several have the same fold
// now, the first one gets it; the others keep theirs until their files have moved.
func (r *recorder) refoldDirectories(fold func(string) string) error {
	return r.eachDirectory(func(id int64, was, path string) error {
		now := fold(path)
		if now == was {
			return nil
		}
		_, err := r.exec("UPDATE OR IGNORE directory SET fold = $2 WHERE id = $1", id, now)
		return err
	})
}

// dropTwins removes the directories that have the same fold as another one now.
func (r *recorder) dropTwins(fold func(string) string) error {
	return r.eachDirectory(func(id int64, was, path string) error {
		if fold(path) == was {
			return nil
		}
		_, err := r.exec("DELETE FROM directory WHERE id = $1", id)
		return err
	})
}

// pathOf is a resource and its path.
type pathOf struct {
	id              int64
	uri, path, fold string
	dir             int64
	holder          string // URI of the resource that has the path now
}

// refoldFiles returns the resources that lose their paths. They block no name until
// they get new ones.
func (r *recorder) refoldFiles(f Refolding) (lost []pathOf, err error) {
	err = eachPage(r, func(rows *sql.Rows) (v pathOf, err error) {
		err = rows.Scan(&v.id, &v.uri, &v.path, &v.fold, &v.dir)
		return v, err
	}, "SELECT r.id, b.uri || r.rest, d.path || COALESCE(r.name, r.rest), r.fold, r.dir FROM resource r"+placed+
		"WHERE r.id > $1 AND r.fold IS NOT NULL ORDER BY r.id LIMIT $2", func(v *pathOf) (int64, error) {
		keeps, err := r.refoldFile(f, v)
		if !keeps {
			lost = append(lost, *v)
		}
		return v.id, err
	})
	return lost, err
}

func (r *recorder) refoldFile(f Refolding, v *pathOf) (keeps bool, err error) {
	now := f.Fold(v.path)
	dir, name := split(now)
	if err := r.missingDirectory(v.path, dir); err != nil {
		return false, err
	}
	if _, taken, err := newNames(r, r.fold).Directory(now); err != nil {
		return false, err
	} else if !taken && f.Takes(v.path) {
		if r.dirs[dir] == v.dir && name == v.fold {
			return true, nil
		}
		r.leave(v.dir)
		n, err := r.exec("UPDATE OR IGNORE resource SET dir = $2, fold = $3 WHERE id = $1", v.id, r.dirs[dir], name)
		if err != nil || n > 0 {
			return true, err
		}
	}
	v.holder, _, err = value[string](r, "SELECT b.uri || r.rest FROM resource r JOIN base b ON b.id = r.base WHERE r.dir = $1 AND r.fold = $2 AND r.id <> $3",
		r.dirs[dir], name, v.id)
	if err != nil {
		return false, err
	}
	_, err = r.exec("UPDATE resource SET fold = $2 WHERE id = $1", v.id, fmt.Sprint("/", v.id)) // no file has this path
	return false, err
}

// missingDirectory adds the directory of a path to r.dirs if it is missing there.
func (r *recorder) missingDirectory(path, fold string) error {
	if r.dirs[fold] != 0 {
		return nil
	}
	dir, _ := split(path)
	return r.enterDirectories([]string{dir}, r.fold)
}

func (c *db) placeAnew(r *recorder, f Refolding, l *pathOf, n names) error {
	found, err := (&Facts{c}).Lookup(r.ctx, 0, []string{l.uri, l.holder}) // reads their state before the transaction
	if err != nil {
		return err
	}
	p, members, err := f.Place(found[0], found[1], n)
	if err == nil {
		err = n.take(&p)
	}
	dir, name := split(p.Path)
	if err == nil {
		err = r.enterDirectories(append(p.Directories, dir), r.fold)
	}
	if err != nil {
		return err
	}
	r.leave(l.dir)
	if _, err := r.exec("UPDATE resource SET dir = $2, name = $3, fold = $4 WHERE id = $1", l.id, r.dirs[r.fold(dir)], name, r.fold(name)); err != nil {
		return err
	}
	s := settling{recorder: r, Outcome: &Outcome{Members: members}}
	if err := s.find(); err != nil {
		return err
	}
	return s.begin()
}

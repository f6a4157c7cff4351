package catalog

import (
	"context"
	"database/sql"
	"fmt"
)

// Refolding says how the paths of a mirror get new folds, because its file system now takes
// names for one that were two before, or refuses names that it accepted.
type Refolding struct {
	Fold  func(path string) string // see FoldBy
	Takes func(path string) bool   // whether the file system accepts the path
	// Place finds another path for a resource whose path is refused, or is now that of
	// holder, which is zero if there is no such resource. The returned memberships replace
	// those of their resources.
	Place func(lost, holder Resource, names Names) (Place, []Membership, error)
	// Settings are kept with the paths.
	Settings map[string]string
}

// refoldPage is how many rows are read at a time.
const refoldPage = 500

// Refold makes all changes in one transaction and uses f.Fold from then on. It is
// idempotent.
func (c *Mirror) Refold(ctx context.Context, f Refolding) error {
	before := c.folding()
	c.FoldBy(f.Fold)
	err := c.transact(ctx, "fold the paths of", func(r *recorder) error {
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
		if len(lost) > 0 { // they are published by their paths
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

// eachDirectory hands on all directories, some at a time: the next statement may change them.
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

// eachPage hands on the rows of a query, some at a time, so that do may change them. It
// returns the number of a row, in the order of which they come, after $1.
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

// refoldDirectories folds directories again. If several have become one, the first keeps
// the name; the others stay until their files have left them.
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

// dropTwins removes the directories that are another one by now.
func (r *recorder) dropTwins(fold func(string) string) error {
	return r.eachDirectory(func(id int64, was, path string) error {
		if fold(path) == was {
			return nil
		}
		_, err := r.exec("DELETE FROM directory WHERE id = $1", id)
		return err
	})
}

// pathOf is a resource and where it is.
type pathOf struct {
	id              int64
	uri, path, fold string
	dir             int64
	holder          string // URI of the resource that has the path by now
}

// refoldFiles returns the resources that lose their paths. Until they have new ones they
// block no name.
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
	_, err = r.exec("UPDATE resource SET fold = $2 WHERE id = $1", v.id, fmt.Sprint("/", v.id)) // the path of no file
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
	found, err := (&Facts{c}).Lookup(r.ctx, 0, []string{l.uri, l.holder}) // their state before the transaction
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

package catalog

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Intend records intents (planned changes of files), all or none. It has to be called
// before the files are changed. For each intent without a path, Intend calls place to
// get a path, sets New, and adds the intent to o.Fresh. No other resource can get the
// path before Settle is called. If o.Run has no ID, Intend sets the ID.
func (c *Mirror) Intend(ctx context.Context, intents []Intent, o *Outcome, place func(uri string, names Names) (Place, error)) error {
	begins := o.Run != nil && o.Run.ID == 0
	err := c.transact(ctx, "record intents in the catalog", func(r *recorder) {
		if begins {
			o.Run.ID = r.enterRun(&Run{Begun: o.Run.Begun, What: o.Run.What, Number: o.Run.Number})
		}
		r.assignPaths(intents, o, place)
		r.insertIntents(intents)
	})
	if err != nil && begins {
		o.Run.ID = 0
	}
	return err
}

func (r *recorder) assignPaths(intents []Intent, o *Outcome, place func(string, Names) (Place, error)) {
	n := newNames(r, r.fold)
	r.stop(n.preload(intents))
	var dirs []string
	for i := range intents {
		in := &intents[i]
		if in.Path != "" || r.err != nil {
			continue
		}
		p, err := place(in.URI, n)
		if err == nil {
			err = n.reserve(&p)
		}
		if err != nil {
			r.err = err
			return
		}
		dirs = append(dirs, p.Directories...)
		in.New, in.Path, in.Kept = true, p.Path, p.Kept
		o.Fresh = append(o.Fresh, *in)
	}
	r.enterDirectories(dirs, r.fold)
}

func (r *recorder) insertIntents(intents []Intent) {
	var known []string
	for i := range intents {
		if !intents[i].New {
			known = append(known, intents[i].URI)
		}
	}
	rows := r.rowsOf(known)
	args := make([]any, 0, 7*len(intents))
	for i := range intents {
		in := &intents[i]
		row := sql.NullInt64{Int64: rows[in.URI], Valid: !in.New}
		if row.Valid && row.Int64 == 0 {
			r.stop(fmt.Errorf("%w: expected a path for the intent for %q, found none", ErrState, in.URI))
		}
		args = append(args, in.URI, row, in.Path, in.Kept, writeLength(in.Length), in.SHA256.Sum(), in.Taken)
	}
	r.execRows("INSERT OR FAIL INTO intent (uri, resource, path, kept, length, sha256, taken) ", "(?,?,?,?,?,?,?)", "", args)
}

type names struct {
	querier
	fold  func(path string) string
	files map[string]bool   // by folded path: whether a resource has the path
	dirs  map[string]string // by folded path: the path of the directory, or "" if there is no such directory
}

func newNames(a querier, fold func(string) string) names {
	return names{a, fold, map[string]bool{}, map[string]string{}}
}

// preload looks up in advance the paths that the new resources will probably get, and
// the directories above these paths. So the function place rarely needs a query.
func (n names) preload(intents []Intent) error {
	var uris, guesses []string
	var dirs []any
	directory := func(fold string) {
		if _, known := n.dirs[fold]; !known {
			n.dirs[fold], dirs = "", append(dirs, fold+"/")
		}
	}
	for i := range intents {
		in := &intents[i]
		if in.Guess == "" || in.Path != "" {
			continue
		}
		n.files[in.Guess] = false
		directory(in.Guess)
		for i := range len(in.Guess) {
			if in.Guess[i] == '/' {
				directory(in.Guess[:i])
			}
		}
		uris, guesses = append(uris, in.URI), append(guesses, in.Guess)
	}
	var fold, path string
	err := lookup(n, []any{&fold, &path}, func() { n.dirs[strings.TrimSuffix(fold, "/")] = strings.TrimSuffix(path, "/") },
		"SELECT fold, path FROM directory WHERE fold IN (KEYS)", "?", dirs)
	if err != nil {
		return err
	}
	var i int
	var uri, existing string
	err = lookup(n, []any{&i, &uri}, func() {
		n.files[guesses[i]] = true
		if uri == uris[i] {
			existing = uri
		}
	}, "SELECT v.column1, b.uri || r.rest "+fileAt+" CROSS JOIN base b ON b.id = r.base", "(?,?,?)", splitKeys(guesses))
	if err == nil && existing != "" {
		err = fmt.Errorf("%w: %q has a path already", ErrState, existing)
	}
	return err
}

// fileAt finds resources by their folded paths. It is a part of a query for lookup,
// whose keys splitKeys returns.
const fileAt = `FROM (VALUES KEYS) v CROSS JOIN directory d ON d.fold = v.column2
	CROSS JOIN resource r ON r.dir = d.id AND r.fold = v.column3`

// reserve marks a path and its directories as used. It returns an error if the path is
// already used.
func (n names) reserve(p *Place) error {
	fold := n.fold(p.Path)
	if n.files[fold] {
		return fmt.Errorf("%w: the path %q has a file already", ErrState, p.Path)
	}
	n.files[fold] = true
	for _, d := range p.Directories {
		n.dirs[n.fold(d)] = d
	}
	return nil
}

func (n names) File(fold string) (bool, error) {
	if taken, known := n.files[fold]; known {
		return taken, nil
	}
	dir, name := split(fold)
	return exists(n, "resource r JOIN directory d ON d.id = r.dir WHERE d.fold = $1 AND r.fold = $2", dir, name)
}

func (n names) Directory(fold string) (path string, ok bool, err error) {
	if path, known := n.dirs[fold]; known {
		return path, path != "", nil
	}
	path, ok, err = queryValue[string](n, "SELECT path FROM directory WHERE fold = $1", fold+"/")
	if path = strings.TrimSuffix(path, "/"); ok {
		n.dirs[fold] = path
	}
	return path, ok, err
}

// Files returns which of the given folded paths belong to a resource.
func (c *Mirror) Files(ctx context.Context, folds []string) (map[string]bool, error) {
	taken := make(map[string]bool, len(folds))
	var i int
	err := lookup(c.reading(ctx, "look up paths in the catalog"), []any{&i}, func() { taken[folds[i]] = true },
		"SELECT v.column1 "+fileAt, "(?,?,?)", splitKeys(folds))
	return taken, err
}

// Names returns a Names for this catalog. The Names caches answers: use it only for a
// short time, and only from one goroutine.
func (c *Mirror) Names(ctx context.Context) Names {
	return newNames(c.reading(ctx, "look up a path in the catalog"), c.folding())
}

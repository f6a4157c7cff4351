package catalog

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"

	"instep/resourcesync"
)

// Intend records the intents of o, all or none, before files are touched. An intent
// without a path gets one from place, is New, and one of o.Fresh; nobody else may have
// that path until the intents are settled. A Run without an ID gets it here. Unless o is
// Now, place must not ask the catalog for anything but names.
func (c *Catalog) Intend(ctx context.Context, intents []Intent, o *Outcome, place func(uri string, names Names) (Place, error)) error {
	if o.Now {
		if err := c.follow(ctx); err != nil {
			return err
		}
	}
	_, before := c.ledger.all()
	var run int64
	var n names
	err := c.transact(ctx, "record intents in", func(r *recorder) (err error) {
		if o.Run != nil && o.Run.ID == 0 {
			if run, err = r.enterRun(&Run{Begun: o.Run.Begun, What: o.Run.What}); err != nil {
				return err
			}
			o.Run.ID = run
		}
		n = c.newNames(r.row)
		if err := r.place(intents, o, place, n); err != nil {
			return err
		}
		if err := r.arrive(o, before); err != nil {
			return err
		}
		return r.intend(intents)
	})
	switch {
	case err == nil:
		c.dirs.learn(n.dirs)
	case run != 0:
		o.Run.ID = 0
	}
	return err
}

// place finds paths for the intents that have none.
func (r *recorder) place(intents []Intent, o *Outcome, place func(string, Names) (Place, error), n names) error {
	if err := n.expect(r, intents); err != nil {
		return err
	}
	for i := range intents {
		in := &intents[i]
		if in.Path != "" {
			continue
		}
		p, err := place(in.URI, n)
		if err != nil {
			return err
		}
		if err := n.take(in.Key, &p); err != nil {
			return err
		}
		if err := r.directories(p.Directories); err != nil {
			return err
		}
		in.New, in.Path, in.Fold, in.Kept = true, p.Path, p.Fold, p.Kept
		o.Fresh = append(o.Fresh, *in)
	}
	return nil
}

func (r *recorder) directories(all []Directory) error {
	for _, d := range all {
		r.sieve.add(d.Fold)
		if _, err := r.exec("INSERT INTO directory (fold, path) VALUES ($1, $2)", d.Fold[:], d.Path); err != nil {
			return err
		}
	}
	return nil
}

// intend records the intents of what has a path.
func (r *recorder) intend(intents []Intent) error {
	args := make([]any, 0, 6*len(intents))
	for i := range intents {
		in := &intents[i]
		if in.New {
			continue
		}
		args = append(args, in.Key[:], in.Path, in.Kept, writeLength(in.Length), writeSum(in.SHA256), in.Taken)
	}
	_, err := r.eachRow("INSERT OR FAIL INTO intent (key, path, kept, length, sha256, taken) ", "(?,?,?,?,?,?)", "", args)
	return err
}

func (r *recorder) query(query string, args ...any) (*sql.Rows, error) {
	s, err := r.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(r.ctx, args...)
}

// row asks for at most one row.
func (r *recorder) row(query string, args ...any) (*sql.Row, error) {
	s, err := r.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.QueryRowContext(r.ctx, args...), nil
}

// names implements Names over a way to ask for a row.
type names struct {
	row   func(query string, args ...any) (*sql.Row, error)
	c     *Catalog
	files map[resourcesync.Key]bool   // whether it is the path of a resource, as far as is known
	dirs  map[resourcesync.Key]string // seen already; "": there is none
}

func (c *Catalog) newNames(row func(query string, args ...any) (*sql.Row, error)) names {
	return names{row, c, map[resourcesync.Key]bool{}, map[resourcesync.Key]string{}}
}

// expect looks up together what will be asked of new URIs.
func (n names) expect(r *recorder, intents []Intent) error {
	var guesses []any
	own := map[resourcesync.Key]resourcesync.Key{} // of whom the guess is
	for i := range intents {
		g := intents[i].Guess
		if g == (resourcesync.Key{}) || intents[i].Path != "" {
			continue
		}
		n.files[g], n.dirs[g] = n.c.ledger.names(g), ""
		if !n.c.sieve.lacks(g) {
			guesses, own[g] = append(guesses, intents[i].Guess[:]), intents[i].Key
		}
	}
	for some := range slices.Chunk(guesses, lookupSize) {
		in := " WHERE fold IN (" + placeholders(len(some)) + ")"
		var known error
		err := r.eachFold("SELECT fold, key FROM resource"+in, some, func(fold resourcesync.Key, key string) {
			n.files[fold] = true
			if of := own[fold]; key == string(of[:]) {
				known = fmt.Errorf("%w: the resource with the key %x has a path already", ErrState, of)
			}
		})
		if err = errors.Join(err, known); err == nil {
			err = r.eachFold("SELECT fold, path FROM directory"+in, some, func(fold resourcesync.Key, path string) { n.dirs[fold] = path })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *recorder) eachFold(query string, args []any, take func(fold resourcesync.Key, path string)) error {
	rows, err := r.query(query, args...)
	if err != nil {
		return err
	}
	for err == nil && rows.Next() {
		var fold []byte
		var path string
		if err = rows.Scan(&fold, &path); err == nil {
			take(resourcesync.Key(fold), path)
		}
	}
	return errors.Join(err, rows.Err(), rows.Close())
}

// take keeps a place that is not recorded yet from being given once more.
func (n names) take(key resourcesync.Key, p *Place) error {
	if n.c.ledger.has(key) {
		return fmt.Errorf("%w: the resource for the path %q is here already", ErrState, p.Path)
	}
	if n.files[p.Fold] || n.c.ledger.names(p.Fold) {
		return fmt.Errorf("%w: the path %q has a file already", ErrState, p.Path)
	}
	n.files[p.Fold] = true
	for _, d := range p.Directories {
		n.dirs[d.Fold] = d.Path
	}
	return nil
}

func (n names) File(fold resourcesync.Key) (bool, error) {
	if taken, known := n.files[fold]; known || n.c.ledger.names(fold) {
		return taken || !known, nil
	}
	if n.c.sieve.lacks(fold) {
		return false, nil
	}
	var one int
	return n.find(&one, "SELECT 1 FROM resource WHERE fold = $1", bytes.Clone(fold[:]))
}

func (n names) Directory(fold resourcesync.Key) (path string, ok bool, err error) {
	if path, known := n.dirs[fold]; known {
		return path, path != "", nil
	}
	if path, ok := n.c.dirs.find(fold); ok {
		return path, true, nil
	}
	if n.c.sieve.lacks(fold) {
		return "", false, nil
	}
	if ok, err = n.find(&path, "SELECT path FROM directory WHERE fold = $1", bytes.Clone(fold[:])); ok { // fold itself stays out of the heap
		n.dirs[fold] = path
	}
	return path, ok, err
}

// directories remembers directories that are recorded: they stay so.
type directories struct {
	mu    sync.Mutex
	paths map[resourcesync.Key]string // by folded path
}

// maxDirectories bounds them; what was forgotten is looked up again.
const maxDirectories = 8192

func (d *directories) find(fold resourcesync.Key) (path string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	path, ok = d.paths[fold]
	return path, ok
}

func (d *directories) learn(paths map[resourcesync.Key]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paths == nil || len(d.paths)+len(paths) > maxDirectories {
		d.paths = map[resourcesync.Key]string{}
	}
	for fold, path := range paths {
		if path != "" && len(d.paths) < maxDirectories {
			d.paths[fold] = path
		}
	}
}

func (n names) find(dest any, query string, args ...any) (bool, error) {
	row, err := n.row(query, args...)
	if err == nil {
		err = row.Scan(dest)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Names returns what holds paths at present. It is for one goroutine and one moment.
func (c *Catalog) Names(ctx context.Context) Names {
	return c.newNames(func(query string, args ...any) (*sql.Row, error) {
		return c.read.QueryRowContext(ctx, query, args...), nil
	})
}

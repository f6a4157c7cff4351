package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"instep/resourcesync"
)

// Intend records intents, all or none. An intent without a path gets one from place,
// and is New; nobody else may have that path until the intents are settled.
func (c *Catalog) Intend(ctx context.Context, intents []Intent, place func(uri string, names Names) (Place, error)) error {
	return c.update(ctx, "record intents in", func(tx *sql.Tx) error {
		r := recorder{ctx: ctx, tx: tx, prepared: map[string]*sql.Stmt{}, again: &c.again}
		defer r.close()
		n := newNames(r.row)
		if err := n.expect(&r, intents); err != nil {
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
			if err := n.take(&p); err != nil {
				return err
			}
			if err := r.directories(p.Directories); err != nil {
				return err
			}
			in.New, in.Path, in.Fold, in.Kept = true, p.Path, p.Fold, p.Kept
		}
		return r.intend(intents)
	})
}

func (r *recorder) directories(all []Directory) error {
	for _, d := range all {
		if _, err := r.exec("INSERT INTO directory (fold, path) VALUES ($1, $2)", d.Fold[:], d.Path); err != nil {
			return err
		}
	}
	return nil
}

// arrival is an intent that is New, as it is kept.
type arrival struct {
	Key    []byte `json:"key"`
	Path   string `json:"path"`
	Kept   string `json:"kept,omitempty"`
	Taken  string `json:"taken,omitempty"`
	Length *int64 `json:"length,omitempty"`
	SHA256 []byte `json:"sha256,omitempty"`
}

// intend records intents that have a path.
func (r *recorder) intend(intents []Intent) error {
	args := make([]any, 0, 6*len(intents))
	arrivals := make([]arrival, 0, len(intents))
	for i := range intents {
		in := &intents[i]
		var sum []byte
		if !in.SHA256.IsZero() {
			sum = in.SHA256.Sum()
		}
		if !in.New {
			args = append(args, in.Key[:], in.Path, in.Kept, writeLength(in.Length), sum, in.Taken)
			continue
		}
		a := arrival{Key: in.Key[:], Path: in.Path, Kept: in.Kept, Taken: in.Taken, SHA256: sum}
		if in.Length.Known() {
			n := in.Length.Int64()
			a.Length = &n
		}
		arrivals = append(arrivals, a)
	}
	if len(arrivals) > 0 {
		body, err := json.Marshal(arrivals)
		if err != nil {
			return err
		}
		if _, err := r.exec("INSERT INTO arrival (body) VALUES ($1)", string(body)); err != nil {
			return err
		}
	}
	_, err := r.eachRow("INSERT OR FAIL INTO intent (key, path, kept, length, sha256, taken) ", "(?,?,?,?,?,?)", "", args)
	return err
}

// arrivals returns the intents that are New.
func (c *Catalog) arrivals(ctx context.Context) ([]Intent, error) {
	bodies, err := rows(ctx, c, "read intents of", func(r *sql.Rows) (body string, err error) {
		return body, r.Scan(&body)
	}, "SELECT body FROM arrival ORDER BY id")
	var all []Intent
	for _, body := range bodies {
		var some []arrival
		if err := json.Unmarshal([]byte(body), &some); err != nil {
			return nil, c.fail("read intents of", fmt.Errorf("%w: %w; %s", ErrDamaged, err, hint))
		}
		for i := range some {
			in, err := some[i].intent()
			if err != nil {
				return nil, c.fail("read intents of", err)
			}
			all = append(all, in)
		}
	}
	return all, err
}

func (a *arrival) intent() (in Intent, err error) {
	in = Intent{New: true, Path: a.Path, Kept: a.Kept, Taken: a.Taken}
	if in.Key, err = readKey(a.Key); err != nil {
		return in, err
	}
	if a.Length != nil {
		in.Length = resourcesync.Bytes(*a.Length)
	}
	if a.SHA256 != nil {
		in.SHA256, err = resourcesync.NewDigest(resourcesync.SHA256, a.SHA256)
	}
	return in, err
}

// readKey reads the key of a row.
func readKey(b []byte) (key resourcesync.Key, err error) {
	if len(b) != len(key) {
		return key, fmt.Errorf("%w: expected a key of %d bytes, found %x; %s", ErrDamaged, len(key), b, hint)
	}
	return resourcesync.Key(b), nil
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
	files map[resourcesync.Key]bool   // whether it is the path of a resource, as far as is known
	dirs  map[resourcesync.Key]string // seen already; "": there is none
}

func newNames(row func(query string, args ...any) (*sql.Row, error)) names {
	return names{row, map[resourcesync.Key]bool{}, map[resourcesync.Key]string{}}
}

// expect looks up together what will be asked of new URIs.
func (n names) expect(r *recorder, intents []Intent) error {
	var guesses []any
	for i := range intents {
		if g := intents[i].Guess; g != (resourcesync.Key{}) && intents[i].Path == "" {
			n.files[g], n.dirs[g] = false, ""
			guesses = append(guesses, intents[i].Guess[:])
		}
	}
	for some := range slices.Chunk(guesses, lookupSize) {
		in := " WHERE fold IN (" + placeholders(len(some)) + ")"
		err := r.eachFold("SELECT fold, '' FROM resource"+in, some, func(fold resourcesync.Key, _ string) { n.files[fold] = true })
		if err == nil {
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
func (n names) take(p *Place) error {
	if n.files[p.Fold] {
		return fmt.Errorf("%w: the path %q has a file already", ErrState, p.Path)
	}
	n.files[p.Fold] = true
	for _, d := range p.Directories {
		n.dirs[d.Fold] = d.Path
	}
	return nil
}

func (n names) File(fold resourcesync.Key) (bool, error) {
	if taken, known := n.files[fold]; known {
		return taken, nil
	}
	var one int
	return n.find(&one, "SELECT 1 FROM resource WHERE fold = $1", fold[:])
}

func (n names) Directory(fold resourcesync.Key) (path string, ok bool, err error) {
	if path, known := n.dirs[fold]; known {
		return path, path != "", nil
	}
	if ok, err = n.find(&path, "SELECT path FROM directory WHERE fold = $1", fold[:]); ok {
		n.dirs[fold] = path
	}
	return path, ok, err
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
	return newNames(func(query string, args ...any) (*sql.Row, error) {
		return c.read.QueryRowContext(ctx, query, args...), nil
	})
}

package catalog

import (
	"database/sql"
	"fmt"
	"slices"
)

// numbers returns the row numbers of resources by their URIs. It omits unknown ones.
func (r *recorder) numbers(uris []string) (map[string]int64, error) {
	found := make(map[string]int64, len(uris))
	err := lookup(r, func(rows *sql.Rows) error {
		var i, id int64
		err := rows.Scan(&i, &id)
		found[uris[i]] = id
		return err
	}, `SELECT v.column1, r.id FROM (VALUES KEYS) v
		CROSS JOIN base b ON b.uri = v.column2 CROSS JOIN resource r ON r.base = b.id AND r.rest = v.column3`, "(?,?,?)", splitKeys(uris))
	return found, err
}

// number returns the row number of the resource with this URI, or 0 if it is unknown.
func (r *recorder) number(uri string) (int64, error) {
	rows, err := r.numbers([]string{uri})
	return rows[uri], err
}

// nextID returns the row number for a new resource.
func (r *recorder) nextID() (id int64, err error) {
	if r.last == 0 {
		r.last, _, err = value[int64](r, greatestID)
	}
	r.last++
	return r.last, err
}

// enterBases adds the row numbers of the URIs' directories to r.bases, and inserts
// missing rows.
func (r *recorder) enterBases(uris []string) error {
	missing, err := r.missing(&r.bases, "SELECT id, uri FROM base WHERE uri", uris)
	if err != nil || len(missing) == 0 {
		return err
	}
	return r.enterTexts(r.bases, "INSERT INTO base (uri) ", "(?)", " RETURNING id, uri", anys(missing))
}

// enterDirectories adds the row numbers of directories of paths to r.dirs, by their
// folded paths, and inserts missing rows. It appends a slash to a path that does not
// end in one.
func (r *recorder) enterDirectories(paths []string, fold func(string) string) error {
	written := make(map[string]string, len(paths)) // by folded path
	folds := make([]string, len(paths))
	for i, p := range paths {
		if p != "" && p[len(p)-1] != '/' {
			p += "/"
		}
		folds[i] = fold(p)
		written[folds[i]] = p
	}
	missing, err := r.missing(&r.dirs, "SELECT id, fold FROM directory WHERE fold", folds)
	if err != nil || len(missing) == 0 {
		return err
	}
	args := make([]any, 0, 2*len(missing))
	for _, f := range missing {
		args = append(args, f, written[f])
	}
	return r.enterTexts(r.dirs, "INSERT INTO directory (fold, path) ", "(?,?)", " RETURNING id, fold", args)
}

// leave records that a file left the directory with this row number.
func (r *recorder) leave(dir int64) {
	if r.left == nil {
		r.left = map[int64]bool{}
	}
	r.left[dir] = true
}

// dropDirectories removes the directories that files left, and their parents, if they
// are empty now, since a resource may get the name.
func (r *recorder) dropDirectories() error {
	for id := range r.left {
		fold, found, err := value[string](r, "SELECT fold FROM directory WHERE id = $1", id)
		if err == nil && found {
			err = r.dropDirectory(fold)
		}
		if err != nil {
			return err
		}
	}
	clear(r.left)
	return nil
}

// dropDirectory removes a directory, given as its folded path, if it is empty, and then
// each parent that is empty.
func (r *recorder) dropDirectory(fold string) error {
	for fold != "" {
		above := fold[:len(fold)-1]
		_, err := r.exec(`DELETE FROM directory WHERE fold = $1 AND NOT EXISTS (SELECT 1 FROM resource WHERE dir = directory.id)
			AND NOT EXISTS (SELECT 1 FROM directory d WHERE d.fold > $1 AND d.fold < $2)`, fold, above+"0") // "0" is the character after "/"
		if err != nil {
			return err
		}
		delete(r.dirs, fold)
		fold, _ = split(above)
	}
	return nil
}

// missing adds the row numbers of texts to known, and returns the texts without a row.
func (r *recorder) missing(known *map[string]int64, query string, texts []string) (none []string, err error) {
	if *known == nil || len(*known) > maxTexts {
		*known = map[string]int64{}
	}
	texts = slices.Clone(texts)
	slices.Sort(texts)
	texts = slices.DeleteFunc(slices.Compact(texts), func(t string) bool { return (*known)[t] != 0 })
	if err := lookup(r, textsInto(*known), query+" IN (KEYS)", "?", anys(texts)); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(texts, func(t string) bool { return (*known)[t] != 0 }), nil
}

// maxTexts is the largest number of directories that a recorder keeps in its cache
// between the steps of a transaction.
const maxTexts = 10_000

// enterTexts inserts rows and adds their numbers to known.
func (r *recorder) enterTexts(known map[string]int64, head, row, tail string, args []any) error {
	width := len(row) / 2
	for some := range slices.Chunk(args, bulkRows*width) {
		if err := each(r, textsInto(known), head+"VALUES "+repeated(row, len(some)/width)+tail, some...); err != nil {
			return fmt.Errorf("record a directory: %w", err)
		}
	}
	return nil
}

// textsInto returns a function that scans rows of a number and a text.
func textsInto(known map[string]int64) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		var id int64
		var text string
		err := rows.Scan(&id, &text)
		known[text] = id
		return err
	}
}

// nameBeside returns the file name for a row: NULL if the URI ends with it.
func nameBeside(name, rest string) any {
	if name == rest {
		return nil
	}
	return name
}

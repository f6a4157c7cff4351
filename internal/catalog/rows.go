package catalog

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

// numbers finds the rows of resources by their URIs; those that are unknown are left out.
func (r *recorder) numbers(uris []string) (map[string]int64, error) {
	found := make(map[string]int64, len(uris))
	for some := range slices.Chunk(uris, lookupSize) {
		args := make([]any, 0, 3*len(some))
		for i, uri := range some {
			base, rest := split(uri)
			args = append(args, i, base, rest)
		}
		err := r.eachNumber("SELECT v.column1, r.id FROM ("+valuesOf("(?,?,?)", len(some))+`) v
			CROSS JOIN base b ON b.uri = v.column2 CROSS JOIN resource r ON r.base = b.id AND r.rest = v.column3`, args,
			func(i, id int64) { found[some[i]] = id })
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// number is numbers of one URI: 0 if it is unknown.
func (r *recorder) number(uri string) (int64, error) {
	rows, err := r.numbers([]string{uri})
	return rows[uri], err
}

// eachNumber hands on the rows of a query of two numbers.
func (r *recorder) eachNumber(query string, args []any, take func(a, b int64)) error {
	rows, err := r.query(query, args...)
	if err != nil {
		return err
	}
	for err == nil && rows.Next() {
		var a, b int64
		if err = rows.Scan(&a, &b); err == nil {
			take(a, b)
		}
	}
	return errors.Join(err, rows.Err(), rows.Close())
}

// nextID returns the number of a new resource.
func (r *recorder) nextID() (int64, error) {
	if r.last == 0 {
		row, err := r.row("SELECT COALESCE(MAX(id), 0) FROM resource")
		if err == nil {
			err = row.Scan(&r.last)
		}
		if err != nil {
			return 0, err
		}
	}
	r.last++
	return r.last, nil
}

// enterBases fills r.bases with the rows of directories of URIs, and creates missing rows.
func (r *recorder) enterBases(uris []string) error {
	missing, err := r.missing(&r.bases, "SELECT id, uri FROM base WHERE uri", uris)
	if err != nil || len(missing) == 0 {
		return err
	}
	args := make([]any, len(missing))
	for i, uri := range missing {
		args[i] = uri
	}
	return r.enterTexts(r.bases, "INSERT INTO base (uri) ", "(?)", " RETURNING id, uri", args)
}

// enterDirectories fills r.dirs with the rows of directories of paths, keyed by their
// folds, and creates missing rows. It adds a missing slash at the end.
func (r *recorder) enterDirectories(paths []string, fold func(string) string) error {
	written := make(map[string]string, len(paths)) // keyed by the compared form
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

// leave notes that a file has left a directory of paths.
func (r *recorder) leave(dir int64) {
	if r.left == nil {
		r.left = map[int64]bool{}
	}
	r.left[dir] = true
}

// dropDirectories removes the directories that files have left, and those above them, if
// nothing is there any more: a resource may have the name now.
func (r *recorder) dropDirectories() error {
	for id := range r.left {
		row, err := r.row("SELECT fold FROM directory WHERE id = $1", id)
		var fold string
		if err == nil {
			err = row.Scan(&fold)
		}
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err == nil {
			err = r.dropDirectory(fold)
		}
		if err != nil {
			return err
		}
	}
	clear(r.left)
	return nil
}

// dropDirectory removes a directory, given in its compared form, and each directory above
// it that is then empty.
func (r *recorder) dropDirectory(fold string) error {
	for fold != "" {
		above := fold[:len(fold)-1]
		_, err := r.exec(`DELETE FROM directory WHERE fold = $1 AND NOT EXISTS (SELECT 1 FROM resource WHERE dir = directory.id)
			AND NOT EXISTS (SELECT 1 FROM directory d WHERE d.fold > $1 AND d.fold < $2)`, fold, above+"0") // 0 comes after /
		if err != nil {
			return err
		}
		delete(r.dirs, fold)
		fold, _ = split(above)
	}
	return nil
}

// missing adds to known the rows of texts, and returns those that have none.
func (r *recorder) missing(known *map[string]int64, query string, texts []string) (none []string, err error) {
	if *known == nil || len(*known) > maxTexts {
		*known = map[string]int64{}
	}
	texts = slices.Clone(texts)
	slices.Sort(texts)
	texts = slices.DeleteFunc(slices.Compact(texts), func(t string) bool { return (*known)[t] != 0 })
	for some := range slices.Chunk(texts, lookupSize) {
		args := make([]any, len(some))
		for i, t := range some {
			args[i] = t
		}
		err := r.eachPair(query+" IN ("+placeholders(len(some))+")", args, func(id int64, text string) { (*known)[text] = id })
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(texts, func(t string) bool { return (*known)[t] != 0 }), nil
}

// maxTexts bounds a recorder's cache of directories between the steps of a transaction.
const maxTexts = 10_000

// enterTexts makes rows and adds them to known.
func (r *recorder) enterTexts(known map[string]int64, head, row, tail string, args []any) error {
	width := len(row) / 2
	for some := range slices.Chunk(args, bulkRows*width) {
		err := r.eachPair(head+valuesOf(row, len(some)/width)+tail, some, func(id int64, text string) { known[text] = id })
		if err != nil {
			return fmt.Errorf("record a directory: %w", err)
		}
	}
	return nil
}

// nameBeside returns the name of a file for its row: NULL if the URI ends with it.
func nameBeside(name, rest string) any {
	if name == rest {
		return nil
	}
	return name
}

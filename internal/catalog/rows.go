package catalog

import "slices"

func (r *recorder) rowsOf(uris []string) map[string]int64 {
	found := make(map[string]int64, len(uris))
	var i, id int64
	r.lookup([]any{&i, &id}, func() { found[uris[i]] = id }, "SELECT v.column1, r.id"+byURI, "(?,?,?)", splitKeys(uris))
	return found
}

// rowOf returns 0 if the resource is unknown.
func (r *recorder) rowOf(uri string) int64 { return r.rowsOf([]string{uri})[uri] }

func (r *recorder) enterBases(uris []string) {
	missing := r.withoutRow(&r.bases, "SELECT uri, id FROM base WHERE uri", uris)
	r.enterTexts(r.bases, "INSERT INTO base (uri) ", "(?)", " RETURNING uri, id", anys(missing))
}

// enterDirectories inserts missing rows for directories, and adds the row numbers of
// all given directories to the cache dirs, by folded path. The paths may end with a
// slash.
func (r *recorder) enterDirectories(paths []string, fold func(string) string) {
	written := make(map[string]string, len(paths)) // by folded path
	folds := make([]string, len(paths))
	for i, p := range paths {
		if p != "" && p[len(p)-1] != '/' {
			p += "/"
		}
		folds[i] = fold(p)
		written[folds[i]] = p
	}
	var args []any
	for _, f := range r.withoutRow(&r.dirs, "SELECT fold, id FROM directory WHERE fold", folds) {
		args = append(args, f, written[f])
	}
	r.enterTexts(r.dirs, "INSERT INTO directory (fold, path) ", "(?,?)", " RETURNING fold, id", args)
}

func (r *recorder) leave(dir int64) {
	if r.leftDirs == nil {
		r.leftDirs = map[int64]bool{}
	}
	r.leftDirs[dir] = true
}

// dropDirectories deletes the directories that became empty in the transaction, so that
// a file can get the name of such a directory.
func (r *recorder) dropDirectories() {
	for id := range r.leftDirs {
		var fold string
		if r.scanRow([]any{&fold}, "SELECT fold FROM directory WHERE id = $1", id) {
			r.dropDirectory(fold)
		}
	}
	clear(r.leftDirs)
}

// dropDirectory deletes the directory with the folded path fold if it is empty, and
// then each empty directory above it.
func (r *recorder) dropDirectory(fold string) {
	for fold != "" {
		above := fold[:len(fold)-1]
		r.exec(`DELETE FROM directory WHERE fold = $1 AND NOT EXISTS (SELECT 1 FROM resource WHERE dir = directory.id)
			AND NOT EXISTS (SELECT 1 FROM directory d WHERE d.fold > $1 AND d.fold < $2)`, fold, above+"0") // "0" is the character after "/", so this range has all paths below the directory
		delete(r.dirs, fold)
		fold, _ = split(above)
	}
}

// withoutRow looks up the row numbers of texts and adds them to the map numbers. It
// returns the texts that have no row yet.
func (r *recorder) withoutRow(numbers *map[string]int64, query string, texts []string) []string {
	if *numbers == nil || len(*numbers) > maxTexts {
		*numbers = map[string]int64{}
	}
	texts = slices.Clone(texts)
	slices.Sort(texts)
	isKnown := func(t string) bool { return (*numbers)[t] != 0 }
	texts = slices.DeleteFunc(slices.Compact(texts), isKnown)
	var text string
	var id int64
	r.lookup([]any{&text, &id}, func() { (*numbers)[text] = id }, query+" IN (KEYS)", "?", anys(texts))
	return slices.DeleteFunc(texts, isKnown)
}

// maxTexts is the number of entries at which a recorder empties a cache of row numbers.
const maxTexts = 10_000

func (r *recorder) enterTexts(numbers map[string]int64, head, row, tail string, args []any) {
	width := len(row) / 2
	var text string
	var id int64
	for some := range slices.Chunk(args, bulkRows*width) {
		r.scanRows([]any{&text, &id}, func() { numbers[text] = id }, head+"VALUES "+repeated(row, len(some)/width)+tail, some...)
	}
}

// nameColumn returns NULL if the file name equals the last part of the URI, which saves
// space.
func nameColumn(name, rest string) any {
	if name == rest {
		return nil
	}
	return name
}

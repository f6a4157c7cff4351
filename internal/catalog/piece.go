package catalog

import (
	"context"
	"strings"
)

// Piece is a digest that a scan has computed from the states of some files in a
// directory. It is stored when the catalog describes these files correctly. It is
// deleted when a change of a file in the directory is recorded.
type Piece struct {
	Dir    Sum // the Sum of the path of the directory: see DirOf
	Part   int64
	Digest Sum
}

// DirOf returns the directory of a slash-separated path, or "." for a path without a
// slash.
func DirOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return "."
}

// KeepPieces stores pieces of a set. Each replaces the stored piece with the same Dir and
// Part.
func (c *Publisher) KeepPieces(ctx context.Context, set SetID, pieces []Piece) error {
	return c.transact(ctx, "record the results of a scan in the catalog", func(r *recorder) {
		args := make([]any, 0, 4*len(pieces))
		for i := range pieces {
			args = append(args, set, pieces[i].Dir[:], pieces[i].Part, pieces[i].Digest[:])
		}
		r.execRows("INSERT INTO piece (set_id, dir, part, digest) ", "(?,?,?,?)",
			" ON CONFLICT (set_id, dir, part) DO UPDATE SET digest = excluded.digest", args)
	})
}

// KnownPieces reports, for each piece, whether it is stored with the same Digest.
func (c *Publisher) KnownPieces(ctx context.Context, set SetID, pieces []Piece) ([]bool, error) {
	known := make([]bool, len(pieces))
	keys := make([]any, 0, 4*len(pieces))
	for i := range pieces {
		keys = append(keys, i, pieces[i].Dir[:], pieces[i].Part, pieces[i].Digest[:])
	}
	var i int
	err := lookup(c.reading(ctx, "look up the results of a scan in the catalog"), []any{&i}, func() { known[i] = true },
		`SELECT v.column1 FROM (VALUES KEYS) v CROSS JOIN piece p
		WHERE p.set_id = ? AND p.dir = v.column2 AND p.part = v.column3 AND p.digest = v.column4`, "(?,?,?,?)", keys, set)
	return known, err
}

func (r *recorder) dropPieces(path string) {
	dir := DirOf(path)
	if r.droppedPieces[dir] {
		return
	}
	if r.droppedPieces == nil {
		r.droppedPieces = map[string]bool{}
	}
	r.droppedPieces[dir] = true
	r.exec("DELETE FROM piece WHERE set_id = $1 AND dir = $2", r.set, key(dir))
}

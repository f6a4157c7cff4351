package catalog

import (
	"context"
	"database/sql"
	"slices"
	"strings"
)

// Piece is a part of a directory and its files at a moment when all of them were recorded.
// It is forgotten when a file in that directory is recorded again.
type Piece struct {
	Dir    Sum // digest of the path of the directory; see DirOf
	Part   int64
	Digest Sum
}

// DirOf is the directory of a slash-separated path: "." for a name alone.
func DirOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return "."
}

// KeepPieces stores pieces of a set, and replaces those of the same directory and part.
func (c *Publisher) KeepPieces(ctx context.Context, set SetID, pieces []Piece) error {
	return c.update(ctx, "keep what was seen in", func(tx *sql.Tx) error {
		for batch := range slices.Chunk(pieces, bulkRows) {
			args := []any{set}
			for i := range batch {
				args = append(args, batch[i].Dir[:], batch[i].Part, batch[i].Digest[:])
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO piece (set_id, dir, part, digest) SELECT ?, column1, column2, column3 FROM (VALUES `+
				strings.TrimSuffix(strings.Repeat("(?,?,?),", len(batch)), ",")+`) WHERE TRUE
				ON CONFLICT (set_id, dir, part) DO UPDATE SET digest = excluded.digest`, args...)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// KnownPieces reports which of the pieces are stored unchanged.
func (c *Publisher) KnownPieces(ctx context.Context, set SetID, pieces []Piece) ([]bool, error) {
	known := make([]bool, len(pieces))
	type row struct {
		i      int
		digest []byte
	}
	for from := 0; from < len(pieces); from += lookupSize {
		var args []any
		for i := from; i < min(from+lookupSize, len(pieces)); i++ {
			args = append(args, i, pieces[i].Dir[:], pieces[i].Part)
		}
		found, err := rows(ctx, c.db, "look up what was seen in", func(r *sql.Rows) (v row, err error) { return v, r.Scan(&v.i, &v.digest) },
			`SELECT v.column1, p.digest FROM (VALUES `+strings.TrimSuffix(strings.Repeat("(?,?,?),", len(args)/3), ",")+`) v
			CROSS JOIN piece p WHERE p.set_id = ? AND p.dir = v.column2 AND p.part = v.column3`, append(args, set)...)
		if err != nil {
			return nil, err
		}
		for _, v := range found {
			known[v.i] = string(v.digest) == string(pieces[v.i].Digest[:])
		}
	}
	return known, nil
}

// touch forgets the pieces of the directory of a path.
func (r *recorder) touch(path string) error {
	dir := DirOf(path)
	if r.touched == nil {
		r.touched = map[string]bool{}
	}
	if r.touched[dir] {
		return nil
	}
	r.touched[dir] = true
	key := SumOf(dir)
	_, err := r.exec("DELETE FROM piece WHERE set_id = $1 AND dir = $2", r.set, key[:])
	return err
}

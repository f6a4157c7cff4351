package catalog

import (
	"crypto/sha256"
	"database/sql/driver"
	"fmt"
	"hash/crc32"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
	"modernc.org/sqlite"
)

// Fold returns a path as it is on every file system where names are compared without their
// case and form: its canonical caseless form (Unicode D145).
func Fold(path string) string {
	if isASCII(path) {
		return strings.ToLower(path)
	}
	return norm.NFD.String(strings.Map(capitalCherokee, cases.Fold().String(norm.NFD.String(path))))
}

// capitalCherokee returns the capital of a Cherokee letter: by Unicode these fold to capitals,
// and cases.Fold makes each the other.
func capitalCherokee(r rune) rune {
	switch {
	case 0xAB70 <= r && r <= 0xABBF:
		return r - 0xAB70 + 0x13A0
	case 0x13F8 <= r && r <= 0x13FD:
		return r - 8
	}
	return r
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// The migration to schema 14 calls these.
func init() {
	text := func(name string, of func(string) driver.Value) {
		sqlite.MustRegisterDeterministicScalarFunction(name, 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			s, ok := args[0].(string)
			if !ok {
				return nil, fmt.Errorf("expected a text, found %T", args[0])
			}
			return of(s), nil
		})
	}
	text("instep_fold", func(s string) driver.Value { return Fold(s) })
	text("instep_dir", func(s string) driver.Value { dir, _ := split(s); return dir })
	text("instep_crc", func(s string) driver.Value { return int64(crcOf(s)) })
}

// FoldBy says what is the same for all paths that are one file, and differs otherwise: of a
// path what it makes of the directory and of the name. Without it that is Fold.
func (c *Mirror) FoldBy(fold func(path string) string) { c.fold.Store(&fold) }

func (c *db) folding() func(string) string {
	if f := c.fold.Load(); f != nil {
		return *f
	}
	return Fold
}

// split divides a URI or path after its last slash.
func split(s string) (dir, rest string) {
	i := strings.LastIndexByte(s, '/') + 1
	return s[:i], s[i:]
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func crcOf(uri string) uint32 { return crc32.Checksum([]byte(uri), castagnoli) }

// Sum is a short name of a text: the first 16 bytes of its SHA-256.
type Sum [16]byte

// SumOf returns the sum of a text.
func SumOf(text string) Sum {
	var short [256]byte // room for most, outside of the heap
	sum := sha256.Sum256(append(short[:0], text...))
	return Sum(sum[:16])
}

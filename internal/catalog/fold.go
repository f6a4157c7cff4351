package catalog

import (
	"crypto/sha256"
	"database/sql/driver"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
	"modernc.org/sqlite"
)

// Fold returns the canonical caseless form of a path (Unicode D145). If a file system
// ignores case and Unicode normalization, paths with the same form are the same file.
func Fold(path string) string {
	if isASCII(path) {
		return strings.ToLower(path)
	}
	return norm.NFD.String(strings.Map(capitalCherokee, cases.Fold().String(norm.NFD.String(path))))
}

// capitalCherokee corrects cases.Fold, which makes capital Cherokee letters small and
// small ones capital. Unicode folds both to capitals.
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

// The migrations to the schemas 13 and 14 call these SQL functions.
func init() {
	for name, of := range map[string]func(string) (driver.Value, error){
		"instep_fold":  func(s string) (driver.Value, error) { return Fold(s), nil },
		"instep_dir":   func(s string) (driver.Value, error) { dir, _ := split(s); return dir, nil },
		"instep_crc":   func(s string) (driver.Value, error) { return int64(crcOf(s)), nil },
		"instep_sum":   func(s string) (driver.Value, error) { sum := SumOf(s); return sum[:], nil },
		"instep_bytes": func(s string) (driver.Value, error) { return base64.StdEncoding.DecodeString(s) },
	} {
		sqlite.MustRegisterDeterministicScalarFunction(name, 1, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			switch s := args[0].(type) {
			case nil:
				return nil, nil
			case string:
				return of(s)
			}
			return nil, fmt.Errorf("expected a text, found %T", args[0])
		})
	}
}

// FoldBy sets the function that returns the folded form of a path. It must return the
// same form for two paths that are the same file in the file system. The catalog calls
// it separately for the directory and for the name of a file. The default is Fold.
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

// Sum is a short hash of a text: the first 16 bytes of its SHA-256.
type Sum [16]byte

// SumOf returns the Sum of a text.
func SumOf(text string) Sum {
	var short [256]byte // on the stack; a longer text needs memory on the heap
	sum := sha256.Sum256(append(short[:0], text...))
	return Sum(sum[:16])
}

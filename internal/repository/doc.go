// Package repository stores the records of an OAI-PMH repository. A [Store] has the
// facts about each record in a database in the state directory. The metadata of each
// record is a file in the published directory. [Harvest] brings a Store up to date. It
// can be interrupted at any moment, because each response is durable before the next
// request. [Input] makes the records the resources of a set.
//
// A Store has all records of the repository, as far as they were harvested, so a record
// that the repository deletes is deleted from the set too.
package repository

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Directory is the directory in the published directory that has the files of records.
const Directory = "records"

// maxName is the length of the longest file name, without extension.
const maxName = 150

// PathOf returns the path of the file of a record: records/PREFIX/xx/NAME.xml.
// Different identifiers have different paths, also in file systems that ignore case.
func PathOf(prefix, identifier string) string {
	sum := sha256.Sum256([]byte(identifier))
	digest := hex.EncodeToString(sum[:])
	name, folds := escape(identifier)
	if folds || len(name) > maxName {
		name = name[:min(len(name), maxName)] + "==" + digest[:16]
	}
	dir, folds := escape(prefix)
	if folds {
		sum := sha256.Sum256([]byte(prefix))
		dir += "==" + hex.EncodeToString(sum[:4])
	}
	return Directory + "/" + dir + "/" + digest[:2] + "/" + name + ".xml"
}

// escape returns text in letters, digits, "-", "." and "_", and writes other bytes as
// "=" and two hexadecimal digits. folds reports whether the name has upper-case
// letters.
func escape(text string) (name string, folds bool) {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' && i > 0:
			b.WriteByte(c)
		case c >= 'A' && c <= 'Z':
			folds = true
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02x", c)
		}
	}
	return b.String(), folds
}

// Package repository stores the records of an OAI-PMH repository: a [Store] has the facts
// about each record in a database of the state, and the metadata of each in a file of the
// published directory. [Harvest] brings it up to date and can be interrupted at any moment:
// each answer of the repository is durable before the next request. [Input] makes the
// records the resources of a set.
//
// A Store always lists the whole repository as far as it was harvested, so that a record
// which the repository deletes is no longer listed.
package repository

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Directory is the subdirectory of the published directory with the files of records.
const Directory = "records"

// maxName is the longest file name, without extension.
const maxName = 150

// PathOf returns the path of the file with the metadata of a record:
// records/PREFIX/xx/NAME.xml. Different identifiers have different paths, also on file
// systems that ignore case.
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

// escape returns text in letters, digits, "-", "." and "_": every other byte is written
// as "=" and two hexadecimal digits. folds reports whether it contains upper-case
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

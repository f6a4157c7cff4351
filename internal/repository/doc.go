// Package repository stores the records of an OAI-PMH repository. A [Store] has the facts
// about each record in a database in the state directory. The metadata of each record is
// stored as a file in the published directory.
//
// [Harvest] brings a Store up to date. It can be interrupted at any moment, because each
// response is durable before the next request. [Input] publishes the records as the
// resources of a set. A record that the repository deletes is deleted from the set, too.
package repository

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Directory is the directory for the files of records, in the published directory.
const Directory = "records"

// maxName is the longest file name in bytes, without extension.
const maxName = 150

// PathOf returns the path of the file of a record: records/PREFIX/xx/NAME.xml. Different
// identifiers have different paths, even in file systems that ignore case.
func PathOf(prefix, identifier string) string {
	sum := sha256.Sum256([]byte(identifier))
	digest := hex.EncodeToString(sum[:])
	name, hasUpper := escape(identifier)
	if hasUpper || len(name) > maxName {
		name = name[:min(len(name), maxName)] + "==" + digest[:16]
	}
	dir, hasUpper := escape(prefix)
	if hasUpper {
		sum := sha256.Sum256([]byte(prefix))
		dir += "==" + hex.EncodeToString(sum[:4])
	}
	return Directory + "/" + dir + "/" + digest[:2] + "/" + name + ".xml"
}

// escape keeps letters, digits, "-", "." and "_", and writes other bytes as "=" and two
// hexadecimal digits. If hasUpper is true, the name may clash with another name in a file
// system that ignores case.
func escape(text string) (name string, hasUpper bool) {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' && i > 0:
			b.WriteByte(c)
		case c >= 'A' && c <= 'Z':
			hasUpper = true
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02x", c)
		}
	}
	return b.String(), hasUpper
}

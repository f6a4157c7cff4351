// Package versions keeps earlier states of resources for a publisher (1.1 §14.6): the bytes
// of each state once, in a Bucket by their SHA-256, and in a database which bytes a
// resource had since when.
//
// A state begins when a change is recorded and ends when the next one begins. Keep stores
// states, At and List find them, and Open opens bytes, which are verified while they are
// read. A program that reads opens the store with OpenReadOnly, beside the one that writes.
package versions

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"path"
	"time"

	"instep/resourcesync"
)

// ErrNoVersion: no state of the resource is kept from that moment.
var ErrNoVersion = errors.New("no such version is kept")

// Version is a state of a resource.
type Version struct {
	URI     string
	Since   time.Time // when it began, in whole microseconds
	Deleted bool      // the resource was gone; then all that follows is zero

	SHA256   resourcesync.Digest
	Length   int64
	Type     string // media type; "" if unknown
	Encoding string // content coding, as "gzip"
}

// State is a Version to keep, and its bytes.
type State struct {
	Version
	// Open opens the bytes. It is called only if bytes with this SHA-256 are not kept yet, and
	// never for a deletion.
	Open func(context.Context) (io.ReadCloser, error)
}

// Key is the key of bytes in the Bucket of a Store.
func Key(sha256 resourcesync.Digest) string {
	name := hex.EncodeToString(sha256.Sum())
	return path.Join(name[:2], name)
}

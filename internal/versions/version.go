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
	"strings"
	"time"

	"instep/internal/memento"
	"instep/resourcesync"
)

// ErrNoVersion: no state of the resource is kept from that moment.
var ErrNoVersion = errors.New("no such version is kept")

// Version is a state of a resource.
type Version struct {
	Path    string    // of the resource, below the base URL, not escaped
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

// Where versions are, below the base URL. A version has a URI of its own, that of its place; a
// TimeGate and a TimeMap are those of the resource whose path follows.
const (
	Places   = "resourcesync/versions/"
	TimeGate = "resourcesync/timegate/"
	TimeMap  = "resourcesync/timemap/"
)

// TimeMapType is the media type of a TimeMap.
const TimeMapType = memento.TimeMapType

// placeTime is the layout of the moment in a place: two states may begin in one second.
const placeTime = "20060102150405.000000"

// Place returns the path of the version's file below the base URL: the moment in which the
// state began, and the path of the resource, so that any web server knows its media type.
func (v *Version) Place() string { return Places + v.Since.UTC().Format(placeTime) + "/" + v.Path }

// ParsePlace is the reverse of Place.
func ParsePlace(place string) (since time.Time, name string, ok bool) {
	rest, ok := strings.CutPrefix(place, Places)
	if !ok {
		return since, "", false
	}
	moment, name, _ := strings.Cut(rest, "/")
	since, err := time.Parse(placeTime, moment)
	return since, name, err == nil && len(moment) == len(placeTime) && name != ""
}

// Package versions stores earlier states of resources for a publisher (1.1 §14.6): a Bucket
// has the bytes of each state once, by their SHA-256, and a database has the time at which
// each resource got these bytes.
//
// A state begins when a change is recorded and ends when the next one begins. Keep
// stores states, At and List find them, and Open opens bytes, which are verified while
// they are read. A program that only reads opens the store with OpenReadOnly, even
// while another one writes.
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

// ErrNoVersion means that no state of the resource at that time is stored.
var ErrNoVersion = errors.New("no such version is stored")

// Version is a state of a resource.
type Version struct {
	Path    string    // path of the resource below the base URL, not escaped
	Since   time.Time // time at which the state began, in whole microseconds
	Deleted bool      // the resource did not exist in this state, and the fields below are zero

	SHA256   resourcesync.Digest
	Length   int64
	Type     string // media type; "" if unknown
	Encoding string // content coding, such as "gzip"
}

// State is a Version to be stored, with its bytes.
type State struct {
	Version
	// Open opens the bytes. It is called only if no bytes with this SHA-256 are stored
	// yet, and never for a deletion.
	Open func(context.Context) (io.ReadCloser, error)
}

// Key returns the key for bytes in the Bucket of a Store.
func Key(sha256 resourcesync.Digest) string {
	name := hex.EncodeToString(sha256.Sum())
	return path.Join(name[:2], name)
}

// Directories below the base URL: of the files of versions, of TimeGates and of TimeMaps.
// The path of a TimeGate or TimeMap ends with the path of its resource.
const (
	Places   = "resourcesync/versions/"
	TimeGate = "resourcesync/timegate/"
	TimeMap  = "resourcesync/timemap/"
)

// TimeMapType is the media type of a TimeMap.
const TimeMapType = memento.TimeMapType

// placeTime is the layout of the time in the path that Place returns. It has fractions of a
// second, because two states can begin in the same second.
const placeTime = "20060102150405.000000"

// Place returns the path of the version's file below the base URL: the time at which
// the state began, followed by the path of the resource, so that any web server
// recognises its media type.
func (v *Version) Place() string { return Places + v.Since.UTC().Format(placeTime) + "/" + v.Path }

// ParsePlace returns the time and the resource path in a path that Place returned, and
// false for any other path.
func ParsePlace(place string) (since time.Time, name string, ok bool) {
	rest, ok := strings.CutPrefix(place, Places)
	if !ok {
		return since, "", false
	}
	moment, name, _ := strings.Cut(rest, "/")
	since, err := time.Parse(placeTime, moment)
	return since, name, err == nil && len(moment) == len(placeTime) && name != ""
}

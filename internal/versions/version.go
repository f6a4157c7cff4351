// Package versions stores earlier states of resources for a publisher (1.1 §14.6). A bucket
// contains the bytes of the states; states with the same SHA-256 share their bytes. A
// database records when each resource got which bytes.
//
// A state begins when a change is recorded and ends when the next change is recorded.
// Keep stores states, At and List find them, and Open opens their bytes, which are
// verified while they are read. A program that only reads opens the store with
// OpenReadOnly, even while another program writes.
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

// ErrNoVersion means that no state is stored for the requested resource and time.
var ErrNoVersion = errors.New("no such version is stored")

// Version is a state of a resource.
type Version struct {
	Path    string    // the path of the resource below the base URL, not escaped
	Since   time.Time // the time at which the state began, in whole microseconds
	Deleted bool      // whether the resource did not exist in this state; then the fields below are zero

	SHA256   resourcesync.Digest
	Length   int64
	Type     string // the media type; "" if it is unknown
	Encoding string // the content coding, such as "gzip"
}

// State is a Version that Keep stores, with its bytes.
type State struct {
	Version
	// Open opens the bytes of the state. It is called only if no bytes with the same
	// SHA-256 are stored yet, and never for a deletion.
	Open func(context.Context) (io.ReadCloser, error)
}

// Key returns the key under which the bucket of a Store contains the bytes with the
// given SHA-256.
func Key(sha256 resourcesync.Digest) string {
	name := hex.EncodeToString(sha256.Sum())
	return path.Join(name[:2], name)
}

// Each path below the base URL begins with one of these constants: Places for the file
// of a version, TimeGate for a TimeGate, TimeMap for a TimeMap. The path of a TimeGate
// or TimeMap ends with the path of its resource.
const (
	Places   = "resourcesync/versions/"
	TimeGate = "resourcesync/timegate/"
	TimeMap  = "resourcesync/timemap/"
)

// TimeMapType is the media type of a TimeMap.
const TimeMapType = memento.TimeMapType

// placeTime is the format of the time in a path that Place returns. It has fractions of
// a second, because two states can begin within one second.
const placeTime = "20060102150405.000000"

// Place returns the path of the version's file below the base URL. It contains the time
// at which the state began, and ends with the path of the resource, so that web servers
// recognise the media type.
func (v *Version) Place() string { return Places + v.Since.UTC().Format(placeTime) + "/" + v.Path }

// ParsePlace splits a path that Place returned into the time and the path of the
// resource. It returns false for any other path.
func ParsePlace(place string) (since time.Time, name string, ok bool) {
	rest, ok := strings.CutPrefix(place, Places)
	if !ok {
		return since, "", false
	}
	moment, name, _ := strings.Cut(rest, "/")
	since, err := time.Parse(placeTime, moment)
	return since, name, err == nil && len(moment) == len(placeTime) && name != ""
}

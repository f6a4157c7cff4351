// Package blob stores bytes by key. A Source publishes into it and a mirror stores
// resources in it. It knows nothing of ResourceSync.
package blob

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"time"
)

// Errors that implementations wrap, for errors.Is.
var (
	ErrNotExist = fs.ErrNotExist                           // no object has that key
	ErrExist    = fs.ErrExist                              // Put.IfAbsent was set and the key is in use
	ErrKey      = errors.New("not a valid key")            // see ValidKey
	ErrForeign  = errors.New("neither file nor directory") // there is a symlink, device or the like at the key
	ErrClash    = errors.New("file against directory")     // there is an object where a directory is needed, or the reverse
)

// Info describes an object.
type Info struct {
	Key     string
	Size    int64
	ModTime time.Time
}

// Bucket is a set of objects by key. A key is a slash-separated relative path that ValidKey
// accepts; an implementation never touches anything outside its root, whatever the key, and
// never follows a symbolic link out of it.
//
// All methods are safe for concurrent use. An object becomes visible at its key completely
// or not at all. After Commit has returned nil, its changes survive a power cut.
type Bucket interface {
	// Get opens the n bytes from off of the object at key; n < 0 reads to the end. The
	// range is cut at the end of the object; off < 0 is an error. If there is no object
	// the error is ErrNotExist.
	Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, Info, error)
	// Stat describes the object at key. If there is none the error is ErrNotExist, also
	// if the key is only a prefix of others (a directory).
	Stat(ctx context.Context, key string) (Info, error)
	// List yields the objects whose keys start with prefix, in any order, except the
	// bucket's own temporary objects.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Begin starts a batch.
	Begin(ctx context.Context) (Batch, error)
}

// Batch collects writes that are made durable together. Create, Take and the writers
// that they return may be used concurrently with each other. The other methods must not
// be called concurrently with Commit or Discard.
type Batch interface {
	// Create opens a new object without a key.
	Create(ctx context.Context) (Object, error)
	// Take moves the object at key into the batch, without copying it, for one Put. The
	// object leaves key when the batch commits; Commit fails if the object changed
	// after Take. It stays at key if it is put there again, whatever IfAbsent and Keep
	// are, and if its Put or the batch is discarded. A key can be taken only once at a
	// time. If there is no object the error is ErrNotExist.
	Take(ctx context.Context, key string) (Object, error)
	// Put gives the object its key when the batch commits.
	Put(o Object, p Put)
	// Move renames an object when the batch commits, and replaces the one at to. If
	// there is no object at from that is not an error, since an interrupted run may
	// have moved it.
	Move(from, to string)
	// Delete removes an object when the batch commits. It is not an error if there is
	// none.
	Delete(key string)
	// Commit makes every object durable, then visible under its key, in the order of
	// the Put, Move and Delete calls, then makes the names durable. After an error some
	// of these steps may have taken effect, each completely; repeating all of them does
	// no harm. The batch is used up in either case and leaves no temporary object.
	Commit(ctx context.Context) error
	// Discard drops the batch and its temporary objects. After Commit it does
	// nothing.
	Discard() error
}

// Syncer is implemented by a Batch that takes long to make objects durable. Sync does
// so for the objects closed so far, and saves Commit the work. It may run concurrently
// with anything but Commit and Discard. After an error Commit fails too.
type Syncer interface {
	Sync(ctx context.Context) error
}

// Linker is implemented by a Batch that can share bytes with another Bucket.
type Linker interface {
	// Link returns an object with the bytes at key of another bucket, without copying
	// them. It can be Put once, as if it had been created and closed. Neither object
	// may be written to afterwards. The error is errors.ErrUnsupported if these buckets
	// cannot share bytes; then copy them.
	Link(ctx context.Context, from Bucket, key string) (Object, error)
}

// Put holds the options under which an object gets its key.
type Put struct {
	Key      string
	IfAbsent bool   // fail with ErrExist if there is an object at Key
	Keep     string // if not empty, the replaced object stays available under this key; Key never disappears in between.
	// An object that exists at Keep stays: an interrupted run kept it. So each
	// replacement needs a different Keep.
	ModTime time.Time // time reported by Info; zero is the time of writing or, for a taken object, its old time
	// A bucket that stores equal bytes only once may report another time.
}

// Object is an object being written. Close ends writing and must be called before
// Commit. Discard drops it and frees its space; putting it afterwards makes Commit
// fail. A taken object is already closed.
type Object interface {
	io.WriteCloser
	Discard() error
}

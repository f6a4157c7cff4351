// Package blob keeps bytes by key: the place where a Source publishes and a
// mirror stores. It knows nothing of ResourceSync.
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
	ErrNotExist = fs.ErrNotExist                           // no object of that key
	ErrExist    = fs.ErrExist                              // Put.IfAbsent, and the key is taken
	ErrKey      = errors.New("not a valid key")            // see ValidKey
	ErrForeign  = errors.New("neither file nor directory") // a symlink, device or the like is at the key
	ErrClash    = errors.New("file against directory")     // an object where a directory is needed, or the reverse
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
	// range is cut at the end of the object; off < 0 is an error. Absent: ErrNotExist.
	Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, Info, error)
	// Stat describes the object at key. Absent: ErrNotExist. A key that is only a
	// prefix of others (a directory) is absent.
	Stat(ctx context.Context, key string) (Info, error)
	// List yields the objects whose key starts with prefix, in any order, without
	// the bucket's own temporary objects.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Begin starts a batch.
	Begin(ctx context.Context) (Batch, error)
}

// Batch collects writes that are made durable together. Create, Take and the writers
// they return may be used concurrently with each other; the other methods not
// concurrently with Commit or Discard.
type Batch interface {
	// Create opens a new object that has no key yet.
	Create(ctx context.Context) (Object, error)
	// Take moves the object at key into the batch, without copying it, for one Put. The
	// object leaves key when the batch commits; Commit fails if it changed after Take. A
	// Put under the same key leaves it there, whatever IfAbsent and Keep say. Discard, of
	// the Put or of the batch, also leaves it there. Each key can be taken once at a
	// time. The error is ErrNotExist if there is no object.
	Take(ctx context.Context, key string) (Object, error)
	// Put gives the object its key when the batch commits.
	Put(o Object, p Put)
	// Move renames an object when the batch commits, and replaces the one at to. An absent
	// from is not an error (an earlier, interrupted run moved it).
	Move(from, to string)
	// Delete removes an object when the batch commits; absent is not an error.
	Delete(key string)
	// Commit makes every object durable, then visible under its key, in the order
	// of the Put, Move and Delete calls, then makes the names durable. On error
	// some of them may have taken effect, each wholly; doing all again is harmless.
	// The batch is spent either way and leaves no temporary object.
	Commit(ctx context.Context) error
	// Discard drops the batch and its temporary objects. After Commit it does
	// nothing.
	Discard() error
}

// Syncer is implemented by a Batch for which making objects durable takes time: Sync
// does so with those that were closed, and then Commit need not. It may run beside
// anything but Commit and Discard. After an error Commit fails too.
type Syncer interface {
	Sync(ctx context.Context) error
}

// Linker is implemented by a Batch that can share bytes with another Bucket.
type Linker interface {
	// Link returns an object with the bytes at key of another bucket, without copying them:
	// for one Put, as if it had been created and closed. Neither object may be written to
	// afterwards. errors.ErrUnsupported: these buckets cannot share bytes, so copy them.
	Link(ctx context.Context, from Bucket, key string) (Object, error)
}

// Put says under which key an object appears.
type Put struct {
	Key      string
	IfAbsent bool   // fail with ErrExist if something is at Key
	Keep     string // if not empty, the replaced object stays available under this key; Key never disappears in between.
	// An object that exists at Keep stays: an earlier, interrupted run kept it. So each
	// replacement needs a different Keep.
	ModTime time.Time // time reported by Info; zero: the time of writing or, for a taken object, its old time
	// A bucket that stores equal bytes only once may report another time.
}

// Object is an object being written. Close ends writing and must come before Commit;
// Discard drops it and frees its space. A Put of it is then an error of Commit. A taken
// object is closed already.
type Object interface {
	io.WriteCloser
	Discard() error
}

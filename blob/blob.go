// Package blob stores bytes by key, in a directory (Dir) or in memory (Mem). A Source
// publishes into a Bucket, and a mirror stores its resources in a Bucket. The package is
// independent of ResourceSync.
package blob

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"time"
)

// Errors that implementations of Bucket return wrapped, to be recognised with errors.Is.
var (
	ErrNotExist = fs.ErrNotExist                           // no object has that key
	ErrExist    = fs.ErrExist                              // Put.IfAbsent was set, but an object has that key
	ErrKey      = errors.New("not a valid key")            // see ValidKey
	ErrForeign  = errors.New("neither file nor directory") // there is a symbolic link, a device or another special file at the key
	ErrClash    = errors.New("file against directory")     // the key is that of a directory, or lies below the key of another object
)

// Info describes an object.
type Info struct {
	Key     string
	Size    int64
	ModTime time.Time
}

// Bucket is a set of objects by key. A key is a slash-separated relative path that
// ValidKey accepts. Whatever the key, an implementation touches nothing outside its root,
// and follows no symbolic link out of it. All methods are safe for concurrent use. An
// object becomes visible at its key completely or not at all. After the Commit of a Batch
// has returned nil, the changes of the Batch survive a power cut.
type Bucket interface {
	// Get opens the object at key for reading length bytes from offset. If length is
	// negative or too large, reading ends at the end of the object. A negative offset is
	// an error. If there is no object, the error is ErrNotExist.
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, Info, error)
	// Stat describes the object at key. If there is no object, for example because key is
	// only a prefix of other keys (a directory), the error is ErrNotExist.
	Stat(ctx context.Context, key string) (Info, error)
	// List yields the objects whose keys start with prefix, in any order, except the
	// bucket's own temporary objects.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Begin starts a batch of changes.
	Begin(ctx context.Context) (Batch, error)
}

// Batch collects changes that become durable together. Create, Take and the Objects that
// they return may be used concurrently. The other methods must not be called concurrently
// with Commit or Discard.
type Batch interface {
	// Create opens a new object for writing. The object gets its key by Put.
	Create(ctx context.Context) (Object, error)
	// Take returns the object at key without copying its bytes, so that one call of Put can
	// give it another key. The object leaves its old key when the batch commits. If the
	// object or the batch is discarded, the object keeps its old key. Put may also name the
	// old key; then IfAbsent and Keep have no effect. Commit fails if the object has changed
	// since Take. No two open batches may take the same key. If there is no object at key,
	// the error is ErrNotExist.
	Take(ctx context.Context, key string) (Object, error)
	// Put gives an object its key when the batch commits.
	Put(o Object, p Put)
	// Move renames the object at key to newKey when the batch commits, and replaces an
	// object at newKey. A missing object at key is not an error, since an interrupted run
	// may have moved it.
	Move(key, newKey string)
	// Delete removes the object at key when the batch commits. A missing object is not an
	// error.
	Delete(key string)
	// Commit makes the bytes of all objects durable, then applies the Put, Move and Delete
	// calls in their order, then makes the names durable. If Commit fails, some of these
	// calls may have taken effect, each completely, and all of them can be repeated in
	// another batch. After Commit, failed or not, the batch cannot be used again, and it
	// leaves no temporary object.
	Commit(ctx context.Context) error
	// Discard removes the batch's temporary objects and changes nothing else. After
	// Commit, Discard does nothing.
	Discard() error
}

// Syncer is implemented by a Batch that needs much time to make objects durable. Sync makes
// all closed objects durable, so that Commit has less work. Sync may run concurrently with
// every method but Commit and Discard. After Sync has failed, Commit fails, too.
type Syncer interface {
	Sync(ctx context.Context) error
}

// Linker is implemented by a Batch that can share bytes with another Bucket.
type Linker interface {
	// Link returns an object with the bytes of the object at key in another bucket, without
	// copying them. The caller can Put the returned object once, as if it had been created
	// and closed. Afterwards neither object may be written to. If the buckets cannot share
	// bytes, the error is errors.ErrUnsupported, and the caller copies the bytes.
	Link(ctx context.Context, other Bucket, key string) (Object, error)
}

// Put contains the options with which a batch stores an object.
type Put struct {
	Key      string
	IfAbsent bool // Commit fails with ErrExist if there is already an object at Key
	// Keep is a second key, at which the object that Put replaces remains available; ""
	// means that the object is removed. Readers always find an object at Key. An object that
	// is already at Keep stays there, since an interrupted run has kept it. Therefore each
	// replacement needs a different Keep.
	Keep string
	// ModTime is the modification time of the object. Zero means the time of writing or,
	// for an object from Take, its present time. A bucket that stores equal bytes
	// only once may report another time.
	ModTime time.Time
}

// Object is an object that is being written. Close ends the writing, and must be called
// before the Commit of the batch. Discard removes the object; if Put was called for the
// object, Commit then fails. An object that Take returned is already closed.
type Object interface {
	io.WriteCloser
	Discard() error
}

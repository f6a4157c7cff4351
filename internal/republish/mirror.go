package republish

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"instep/destination"
	"instep/internal/scan"
)

// Mirror is what is read of a mirror, as destination.Mirror has it.
type Mirror interface {
	Sets(ctx context.Context) ([]string, error)
	// Committed returns when the last complete run of a set was committed; false before the
	// first.
	Committed(ctx context.Context, set string) (time.Time, bool, error)
	// MembersOf yields what is a member of any of some sets, in the order of keys, each once: as
	// each of the sets, in their order, sees it at one moment. Of the sets one by one a resource
	// that moves to another one meanwhile could be missed, and would be published as deleted.
	MembersOf(ctx context.Context, sets []string) iter.Seq2[[]destination.Held, error]
	Lookup(ctx context.Context, set string, uris []string) ([]destination.Held, error)
	Untouched(ctx context.Context, h *destination.Held) (bool, error)
	// Catalog returns the identity of the catalog, whose log of changes the next ones read.
	Catalog(ctx context.Context) (string, error)
	// LogEnd returns number and moment of the last change: there is none of what is held now,
	// and one of all that comes later, once the publication has registered.
	LogEnd(ctx context.Context) (seq int64, at time.Time, err error)
	// LogHas reports whether the log has all changes after one that LogEnd or EachLogged gave.
	LogHas(ctx context.Context, seq int64, at time.Time) (bool, error)
	// EachLogged calls take for the changes after one number up to another, in their order:
	// with what MembersOf yields of one resource, as of then. URI and Path are always set.
	EachLogged(ctx context.Context, after, through int64, sets []string, take func(seq int64, at time.Time, held []destination.Held) error) error
	// Kept returns the path, below the directory of the mirror, of bytes that a resource had; ""
	// if they are gone.
	Kept(ctx context.Context, h *destination.Held) (path string, err error)
	// Shares reports whether resources with the same bytes have one file.
	Shares() bool
	// Steady is an error if the mirror was opened in a way that a run disturbs, and there was
	// one since.
	Steady() error
	io.Closer
}

// Doubt is what keeps a resource of a mirror from being listed.
type Doubt = scan.Reason

// Doubts are all of them, in the order in which people are told.
var Doubts = []Doubt{scan.Due, scan.Unverified, scan.Held}

// Options say how a mirror is published. Open is required.
type Options struct {
	Open func(ctx context.Context) (Mirror, error)
	// Register makes the mirror keep a log of its changes after a number for the publication
	// with a name; nil: there is no log.
	Register func(ctx context.Context, name string, read int64) error

	Sets []string // of the mirror, by the URIs of their Capability Lists; nil is all
	Kept string   // name of the set of resources held in an earlier state; "" has none
	// Also lists resources in spite of a doubt.
	Also []Doubt
	// OriginalURIs lists resources under the URI that they have at the first origin, with a
	// link to our copy (1.1 §14.2). Readers have to be told that this origin is allowed.
	OriginalURIs bool
}

// ErrNoBaseline: no set of a mirror was copied completely yet.
var ErrNoBaseline = errors.New("its first synchronization is not complete")

// ErrDisturbed: a run on the mirror began, or completed a set for the first time, while it was
// listed. Nothing was recorded.
var ErrDisturbed = errors.New("a run on the mirror began while it was listed")

// ErrShared: in a mirror whose resources share files none has a URI of its own.
var ErrShared = errors.New("resources with the same bytes share a file in the flat layout, which gives them no URI of their own")

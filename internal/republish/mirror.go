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

// Mirror gives read access to a mirror; destination.Mirror implements it.
type Mirror interface {
	Sets(ctx context.Context) ([]string, error)
	// Committed returns when the last complete run of a set was committed; false before the
	// first.
	Committed(ctx context.Context, set string) (time.Time, bool, error)
	// MembersOf yields the members of any of the sets, sorted by key, each once, with
	// its state in every set. It reads all sets in one snapshot: if the sets were read
	// one by one, a resource that moves between them meanwhile could be missed, and
	// would be published as deleted.
	MembersOf(ctx context.Context, sets []string) iter.Seq2[[]destination.Held, error]
	Lookup(ctx context.Context, set string, uris []string) ([]destination.Held, error)
	Untouched(ctx context.Context, h *destination.Held) (bool, error)
	// Catalog returns the identity of the catalog that has the log of changes.
	Catalog(ctx context.Context) (string, error)
	// LogEnd returns the number and time of the last change in the log. It belongs to
	// the present state; after registration every later change is in the log.
	LogEnd(ctx context.Context) (seq int64, at time.Time, err error)
	// LogHas reports whether the log has all changes after a position that LogEnd or
	// EachLogged returned.
	LogHas(ctx context.Context, seq int64, at time.Time) (bool, error)
	// EachLogged calls take for each change numbered above after and up to through, in
	// order, with the state of the resource in every set after that change, as from
	// MembersOf. URI and Path are always set.
	EachLogged(ctx context.Context, after, through int64, sets []string, take func(seq int64, at time.Time, held []destination.Held) error) error
	// Kept returns the path, below the directory of the mirror, of the earlier bytes of
	// a resource; "" if they no longer exist.
	Kept(ctx context.Context, h *destination.Held) (path string, err error)
	// Shares reports whether resources with the same bytes share a file.
	Shares() bool
	// Steady returns an error if the mirror was opened in a mode in which a concurrent
	// run disturbs reading, and a run has happened since.
	Steady() error
	io.Closer
}

// Doubt is the reason why a resource of a mirror is not listed.
type Doubt = scan.Reason

// Doubts lists all values, in the order for messages.
var Doubts = []Doubt{scan.Due, scan.Unverified, scan.Held}

// Options configure the publication of a mirror. Open is required.
type Options struct {
	Open func(ctx context.Context) (Mirror, error)
	// Register tells the mirror to keep its log of changes after a number for the named
	// publication. If nil, there is no log.
	Register func(ctx context.Context, name string, read int64) error

	Sets []string // sets of the mirror, by the URIs of their Capability Lists; nil is all
	Kept string   // name of the set of resources that the mirror keeps in an earlier state; "" if there are none
	// Also names doubts in spite of which resources are listed.
	Also []Doubt
	// OriginalURIs lists resources under their URI at the first origin, with a link to
	// our copy (1.1 §14.2). Readers must be configured to allow that origin.
	OriginalURIs bool
}

// ErrNoBaseline means that the mirror has not copied any set completely yet.
var ErrNoBaseline = errors.New("its first synchronization is not complete")

// ErrDisturbed means that a run on the mirror began, or completed a set for the first
// time, while the mirror was listed. Nothing was recorded.
var ErrDisturbed = errors.New("a run on the mirror began while it was listed")

// ErrShared means that resources of the mirror share files, so that they have no URIs
// of their own.
var ErrShared = errors.New("resources with the same bytes share a file in the flat layout, which gives them no URI of their own")

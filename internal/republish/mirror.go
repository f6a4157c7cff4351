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
	// Committed returns when the last complete run of a set was committed, or false if
	// there was none.
	Committed(ctx context.Context, set string) (time.Time, bool, error)
	// MembersOf yields each resource that is a member of at least one of the sets,
	// sorted by key, with its state in every set. It reads all sets in one snapshot.
	// Otherwise a resource that moves from one set to another could be missed, and
	// would be published as deleted.
	MembersOf(ctx context.Context, sets []string) iter.Seq2[[]destination.Held, error]
	Lookup(ctx context.Context, set string, uris []string) ([]destination.Held, error)
	Untouched(ctx context.Context, h *destination.Held) (bool, error)
	// Catalog returns the identity of the catalog that has the log of changes.
	Catalog(ctx context.Context) (string, error)
	// LogEnd returns the number and time of the last change in the log, which is up to
	// date with the current state. After the registration of a publication, the log has
	// every later change.
	LogEnd(ctx context.Context) (seq int64, at time.Time, err error)
	// LogHas reports whether the log has all changes after a position, which must come
	// from LogEnd or EachLogged.
	LogHas(ctx context.Context, seq int64, at time.Time) (bool, error)
	// EachLogged calls take for each change with a number greater than after and at
	// most through, in order. held is the state of the resource in every set after this
	// change, as from MembersOf, and always has a URI and a path.
	EachLogged(ctx context.Context, after, through int64, sets []string, take func(seq int64, at time.Time, held []destination.Held) error) error
	// Kept returns the path of the earlier bytes of a resource, below the directory of
	// the mirror, or "" if these bytes no longer exist.
	Kept(ctx context.Context, h *destination.Held) (path string, err error)
	// Shares reports whether resources with the same bytes are stored in one file.
	Shares() bool
	// Steady returns an error if the mirror was opened while no run was active, and a
	// run has begun since, so that what was read may be wrong.
	Steady() error
	io.Closer
}

// Doubt is the reason why a resource of a mirror is not listed.
type Doubt = scan.Reason

// Doubts lists all values of Doubt, in the order in which messages name them.
var Doubts = []Doubt{scan.Due, scan.Unverified, scan.Held}

// Options configure the publication of a mirror. Open is required.
type Options struct {
	Open func(ctx context.Context) (Mirror, error)
	// Register tells the mirror to keep the changes after a number in its log for the
	// named publication. With nil, the mirror has no log.
	Register func(ctx context.Context, name string, read int64) error

	Sets []string // sets of the mirror to publish, by the URIs of their Capability Lists; nil means all sets
	Kept string   // name of the set of resources that the mirror keeps in an earlier state; "" if there are none
	// Also lists doubts despite which a resource is listed.
	Also []Doubt
	// OriginalURIs says that resources are listed under their URI at the first origin,
	// with a link to our copy (1.1 §14.2). Readers have to be configured to allow that
	// origin.
	OriginalURIs bool
}

// ErrNoBaseline means that no set of the mirror has been copied completely yet.
var ErrNoBaseline = errors.New("the first synchronization of the mirror is not complete")

// ErrDisturbed means that the mirror changed while it was listed: a run began, or
// completed a set for the first time. Nothing was recorded.
var ErrDisturbed = errors.New("a run on the mirror began while the mirror was listed")

// ErrShared means that resources of the mirror share files, so that they cannot have
// URIs of their own.
var ErrShared = errors.New("in the flat layout, resources with the same bytes share a file, so they have no URIs of their own")

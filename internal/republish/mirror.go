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
	// Committed returns the time at which the last complete run of a set was committed,
	// or false if there was none.
	Committed(ctx context.Context, set string) (time.Time, bool, error)
	// MembersOf yields each resource that is a member of at least one of the sets, ordered
	// by key, with its state in every set. It reads all sets in one snapshot. Otherwise it
	// could miss a resource that moves from one set to another, and this resource would be
	// published as deleted.
	MembersOf(ctx context.Context, sets []string) iter.Seq2[[]destination.Held, error]
	Lookup(ctx context.Context, set string, uris []string) ([]destination.Held, error)
	Untouched(ctx context.Context, h *destination.Held) (bool, error)
	// Catalog returns the identity of the catalog in which the change log is stored.
	Catalog(ctx context.Context) (string, error)
	// LogEnd returns the number and time of the last change in the log. The log includes
	// every change that was made after a publication had been registered: see
	// Options.Register.
	LogEnd(ctx context.Context) (seq int64, at time.Time, err error)
	// LogHas reports whether the log has all changes after the change with the given
	// number and time, which must come from LogEnd or EachLogged.
	LogHas(ctx context.Context, seq int64, at time.Time) (bool, error)
	// EachLogged calls take for each change in the log with after < seq <= through, in
	// order. It passes the state of the resource in every set after the change, as
	// MembersOf yields it. Each of these states has a URI and a path.
	EachLogged(ctx context.Context, after, through int64, sets []string, take func(seq int64, at time.Time, states []destination.Held) error) error
	// Kept returns the path, below the directory of the mirror, of a file with the earlier
	// bytes of a resource. It returns "" if these bytes no longer exist.
	Kept(ctx context.Context, h *destination.Held) (path string, err error)
	// Shares reports whether resources with the same bytes are stored in one file.
	Shares() bool
	// Steady returns an error if a run on the mirror has begun since the mirror was opened,
	// because the read data may be wrong. If a run was already active when the mirror was
	// opened, it returns nil.
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
	// Register records that the named publication has read the log of the mirror up to the
	// change with the number seq, so that the mirror keeps all later changes. If Register is
	// nil, the mirror has no log.
	Register func(ctx context.Context, name string, seq int64) error

	Sets []string // sets of the mirror to publish, by the URIs of their Capability Lists; nil means all sets
	Kept string   // name of the set with the resources that the mirror keeps in an earlier state; "" if there is no such set
	// The field Also has the doubts that do not matter: resources with them are listed
	// nevertheless.
	Also []Doubt
	// OriginalURIs means that resources are listed under their URI at the first origin,
	// with a link to our copy (1.1 §14.2). Readers have to be configured to allow that
	// origin.
	OriginalURIs bool
}

// ErrNoBaseline means that no set of the mirror has been copied completely yet.
var ErrNoBaseline = errors.New("the first synchronization of the mirror is not complete")

// ErrDisturbed means that the mirror changed while it was listed: a run began, or a run
// completed a set for the first time. Nothing was recorded.
var ErrDisturbed = errors.New("a run on the mirror began while the mirror was listed")

// ErrShared means that resources of the mirror share files, so that they cannot have URIs
// of their own.
var ErrShared = errors.New("in the flat layout, resources with the same bytes share a file, so they have no URIs of their own")

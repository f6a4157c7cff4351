package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"time"

	"instep/resourcesync"
)

// Snapshot is the state of a set for a Resource List (1.1 §10).
type Snapshot struct {
	At, Completed time.Time                            // every change before At is in; Completed is when the last resource was read
	Through       int64                                // the caller's number of the last change included; stored in the Publication, not interpreted
	Resources     iter.Seq2[resourcesync.Entry, error] // entries with loc, lastmod, and hash, length and type of rs:md; it is ranged over more than once and must yield the same each time
}

// Bitstream is an entry with the bytes that it describes.
type Bitstream struct {
	resourcesync.Entry
	// Open opens the bytes; nil for a deletion. The bytes are checked against the length
	// and the digests of the entry. An error that is ErrGone (errors.Is) means that these
	// bytes no longer exist anywhere.
	Open func(context.Context) (io.ReadCloser, error)
	// Patch opens the bytes of the patch that the entry links (1.1 §14.4); nil if it links
	// none. A package holds them beside those of the entry, and the link gets its path there.
	Patch func(context.Context) (io.ReadCloser, error)
}

// Dump is the state of a set for a Resource Dump (1.1 §11).
type Dump struct {
	At, Completed time.Time
	Through       int64
	Bitstreams    iter.Seq2[Bitstream, error] // ranged over once
}

// Window is a Change List of a set (1.1 §12): all changes from From until Until.
type Window struct {
	Number  int64     // number of its first change, or of the next one: names its document for life
	From    time.Time // changes at this moment or later
	Until   time.Time // zero while open; then changes before this moment only
	Through int64     // the caller's number of the last change included; stored in the Publication, not interpreted
	Changes iter.Seq2[resourcesync.Entry, error]
	// Fresh are the Changes that no Change Dump has yet, with their bytes, since FreshFrom:
	// they become a package of the Change Dump beside this list (1.1 §13). The first
	// publication with Fresh switches Change Dumps on, since its FreshFrom. nil in the last
	// window switches them off: Change Dumps, and the Resource Dump if Update has no other,
	// are no longer offered except in archives.
	Fresh     iter.Seq2[Bitstream, error]
	FreshFrom time.Time
}

// Update describes one publication of a set. Fields that are nil keep the state of the
// last publication.
type Update struct {
	Set      string // "" is the default set
	Policy   Policy
	Snapshot *Snapshot
	Dump     *Dump
	// Changes are the Change Lists that continue or begin, oldest first; each begins at the
	// end of the one before. The first is the one that the last publication left open (then
	// it has its Number and From), or begins where the last closed one ends; only the last
	// may be open.
	Changes []Window
	// Patches are new patches that changes of the windows link (1.1 §14.4), by ascending
	// Number. It is ranged over once, before the changes of any window. A patch is removed
	// with the Change List that has its change.
	Patches iter.Seq2[Patch, error]
	Maps    *Maps // Resource Maps
}

// Policy says how a set is published, independent of its resources.
type Policy struct {
	About About
	// Profile10 writes documents that readers of 1.0 expect and readers of 1.1 understand:
	// in Change Lists and Change Dump Manifests lastmod is the time of the change, of
	// deletions too, and replaces datetime, which 1.0 does not have.
	Profile10 bool
	// ProfileBoth writes for readers of both: datetime stays, and there lastmod is the
	// datetime rounded up to a second, of deletions too. So a reader of 1.0 that knows no
	// fraction never takes a change for older than it is. Profile10 goes over it.
	ProfileBoth bool `json:",omitempty"`
	// FixedChanges adds a Change List at FixedChangeListURI, for clients that poll one URI:
	// the changes of the newest current Change Lists, the closed ones and the open one, up
	// to 50,000 and about 45 MB. It reaches back to the at of the Resource List or further,
	// unless more than that has changed since. No Capability List names it. Each
	// publication writes all of it.
	FixedChanges bool `json:",omitempty"`
	// PackageBytes is how many bytes of resources go into one package; 0 is 1 GiB. A
	// larger resource has its own package.
	PackageBytes int64
	// KeepChanges is how long a closed Change List stays in the index of the current
	// ones, if nothing else keeps it there; 0 is 30 days. It never leaves before every
	// Resource List and Resource Dump that a reader may have begun with is later.
	KeepChanges time.Duration
	Archive     *Archive // nil offers no archives
	OnDemand    string   // URI that makes packages on demand, named in the Capability List; "" is none
}

const defaultKeepChanges = 30 * 24 * time.Hour

func (p *Policy) keepChanges() time.Duration {
	if p.KeepChanges == 0 {
		return defaultKeepChanges
	}
	return p.KeepChanges
}

// About describes a set or a Source for people; fields may be empty.
type About struct {
	Title, Description, Contact, Licence string
}

// Archive says how long earlier lists and dumps are offered (Archives §2 to §6). The oldest
// are dropped first. A Change List is dropped only if it ends no later than the oldest
// Resource List and Resource Dump that stay, whose readers need the changes after it.
type Archive struct {
	// Every is the least time between generations of Resource Lists, and of Resource
	// Dumps, that are archived; 0 archives each. Change Lists and Change Dumps all are.
	Every time.Duration
	Age   time.Duration // older ones are dropped; 0 keeps them
	Count int           // most items of each kind; 0 is no bound
	Bytes int64         // bytes of all items of a set together, packages included; 0 is no bound
}

// ItemKind is the kind of an Item.
type ItemKind string

// The kinds of items.
const (
	ItemResourceList ItemKind = "resourcelist"
	ItemResourceDump ItemKind = "resourcedump"
	ItemChangeList   ItemKind = "changelist"
	ItemChangeDump   ItemKind = "changedump"
	ItemPackage      ItemKind = "package"     // package of a Change Dump
	ItemMap          ItemKind = "resourcemap" // Key is its name, Keys are its files, At is when it changed
	ItemPatch        ItemKind = "patch"       // Number is that of the change, Key is its file
)

// Item is a document of a set that stays when later publications add others of its
// kind: a Change List, a generation of a Resource List.
type Item struct {
	Kind   ItemKind
	Number int64 // Window.Number, the id of the publication of a generation, or PackageNumber; ascending
	Key    string
	Keys   []string // keys of all its files: Key, parts, packages and manifests

	At, Completed time.Time // of a generation
	From, Until   time.Time // of changes
	Through       int64     // Snapshot.Through or Window.Through
	Entries       int64
	Bytes         int64  // bytes of the documents and packages
	Of            int64  // of a package: the Number of its Change Dump; of a Change Dump: the Number of its first package
	Length        int64  // of a package or a patch
	SHA256        Sum    // of a package or a patch; of a map Map.Sum
	Type          string `json:",omitempty"` // media type of a patch

	Current bool      // the Capability List names it, or an index that the Capability List names
	Archive int64     // its place in the archive, from 1; 0 is none, -1: it has left it
	Since   time.Time // time at which it got its present state: closed, superseded, out of the archive
}

// maxPackages bounds the packages of one publication of a set.
const maxPackages = 100_000

// PackageNumber is the Item.Number of the nth package, from 1, of a publication.
func PackageNumber(publication int64, n int) int64 { return publication*maxPackages + int64(n) }

// ItemID names an item of a set.
type ItemID struct {
	Kind   ItemKind
	Number int64
}

// Sum is a SHA-256, written as hex.
type Sum [sha256.Size]byte

// MarshalText writes the sum as hex.
func (s Sum) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// digests are the sum as documents write it.
func (s Sum) digests() resourcesync.Digests {
	d, err := resourcesync.NewDigest(resourcesync.SHA256, s[:])
	if err != nil {
		panic("source: a sum is no SHA-256: " + err.Error())
	}
	return resourcesync.Digests{d}
}

// UnmarshalText parses the form that MarshalText writes.
func (s *Sum) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(s) {
		return fmt.Errorf("expected %d hex digits of a SHA-256, found %q", hex.EncodedLen(len(s)), text)
	}
	_, err := hex.Decode(s[:], text)
	return err
}

// Document is one file of a publication.
type Document struct {
	Key       string // in the bucket
	Length    int64
	SHA256    Sum
	Immutable bool   // its bytes never change at this key
	Rank      int    // documents of one rank do not depend on each other, only on those of lower ranks
	Of        string // the key of the document that this is a byte copy of; "" = of none
	Placed    bool   // the document was written to its key before the commit, rather than staged: a package
}

// Publication is one committed publication: everything needed to write it out again.
type Publication struct {
	ID        int64
	Set       string
	Made      time.Time
	Documents []Document // documents by rank, the order in which they appear: nothing is linked before it exists
	Retired   []string   // keys nothing links any more since this publication
	Items     []Item     // items that are new or changed
	Dropped   []ItemID   // items that are offered no more; their keys are in Retired
	Notes     []string   // remarks for people on where things went
	Written   []string   `json:"-"` // keys whose bytes were not there yet, in order

	// The state of the set that a publication hands to the next one: the contents of the
	// Capability List, and what the documents and pages about the set say.
	Offers         []Offer
	ListAt         time.Time
	ListThrough    int64          // Snapshot.Through
	ListKeys       []string       // keys of the Resource List: its parts, then the list or the index
	SitemapKeys    []string       // keys of the plain sitemap: its parts, then the sitemap or its index
	Generations    []int64        // the publications of the last Resource Lists, oldest first
	Resources      int64          // entries of the Resource List
	Bytes          int64          // bytes of the resources of the Resource List, as far as known
	ChangedAt      time.Time      // time of the latest change listed; zero if there was none
	Latest         []LatestChange // the last changes, the newest first: at most 10
	About          About          // texts for the pages about the set
	DumpNumber     int64          // Item.Number of the current Resource Dump; 0 is none
	DumpAt         time.Time
	DumpThrough    int64 // Dump.Through
	ChangesNumber  int64 // Window.Number of the last Change List
	ChangesFrom    time.Time
	ChangesUntil   time.Time  // zero while it is open
	ChangesThrough int64      // Window.Through
	Changes        int64      // entries of the last Change List
	DumpsSince     time.Time  // since when Change Dumps hold every change; zero if there are none
	FixedChanges   int64      // Window.Number of the first Change List in the one at a fixed name; 0: there is none
	ArchiveEntries int        // most entries of a part of an archive; 0 is not known
	SourceSum      Sum        // digest of the inputs of the Source Description
	MapListKeys    []string   `json:",omitempty"` // keys of the documents that list Resource Maps
	MapsChanged    time.Time  `json:",omitzero"`  // when a Resource Map changed, came or went last
	PageLinks      []PageLink `json:",omitempty"` // links from the pages for people to Resource Maps
}

// Offer is the entry of one capability in a Capability List.
type Offer struct {
	Capability resourcesync.Capability
	URI        string
}

// Offer returns the URI of the document of a capability; "" if there is none.
func (p *Publication) Offer(c resourcesync.Capability) string {
	for _, o := range p.Offers {
		if o.Capability == c {
			return o.URI
		}
	}
	return ""
}

// Journal remembers publications (one committed row each) and the files we wrote.
// All methods are durable when they return.
type Journal interface {
	// Begin returns the id of the next publication, greater than any before.
	Begin(ctx context.Context, set string) (int64, error)
	// Commit records p as the publication to finish, whatever happens next.
	Commit(ctx context.Context, p Publication) error
	// Done records that every document of p is in its place: the documents are ours from
	// now on, those of p.Retired are to be removed, p.Items are stored or replaced and
	// p.Dropped forgotten.
	Done(ctx context.Context, p Publication) error
	// Last returns the last committed publication of a set and whether Done has recorded
	// it: false if Done was interrupted. Without one it returns a zero Publication.
	Last(ctx context.Context, set string) (p Publication, done bool, err error)
	// Document returns the document that we wrote last at key; false if the key was never
	// ours, or was forgotten.
	Document(ctx context.Context, key string) (Document, bool, error)
	// Items yields the items of one kind with a Number of at least from, ascending.
	Items(ctx context.Context, set string, kind ItemKind, from int64) iter.Seq2[Item, error]
	// Sets returns the names of the sets with a publication that is done, ascending.
	Sets(ctx context.Context) ([]string, error)
	// Expired yields the retired keys that may be removed now: older than before, by publications before p.
	Expired(ctx context.Context, before time.Time, p int64) iter.Seq2[string, error]
	// Forget records that the file at key is gone.
	Forget(ctx context.Context, key string) error
}

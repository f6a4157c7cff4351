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

// Snapshot is the state of a set at one time, for a Resource List (1.1 §10).
type Snapshot struct {
	At, Completed time.Time                            // every change before At is included; Completed is when the last resource was read
	Through       int64                                // number of the last change included, chosen by the caller; stored in the Publication, not interpreted
	Resources     iter.Seq2[resourcesync.Entry, error] // entries with loc, lastmod, and hash, length and type of rs:md; ranged over more than once and must yield the same each time
}

// Bitstream is an entry and the bytes that it describes.
type Bitstream struct {
	resourcesync.Entry
	// Open opens the bytes; nil for a deletion. The bytes are checked against the
	// length and the digests of the entry. Open returns ErrGone (errors.Is) if these
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

// Window is the period of a Change List of a set (1.1 §12): all changes from From
// until Until.
type Window struct {
	Number  int64     // number of its first change, or of the next one if it has none; part of the document's name
	From    time.Time // includes changes at this time
	Until   time.Time // excludes changes at this time; zero while the list is open
	Through int64     // number of the last change included, chosen by the caller; stored in the Publication, not interpreted
	Changes iter.Seq2[resourcesync.Entry, error]
	// Fresh are the changes since FreshFrom that no Change Dump contains yet, with
	// their bytes. They become a package of the Change Dump for this list (1.1 §13).
	// The first publication with Fresh switches Change Dumps on, from its FreshFrom. If
	// the last window has nil, Change Dumps are switched off: they, and the Resource
	// Dump if Update has no new one, are then offered only in archives.
	Fresh     iter.Seq2[Bitstream, error]
	FreshFrom time.Time
}

// Update describes one publication of a set. Fields that are nil keep the state of the
// previous publication.
type Update struct {
	Set      string // "" is the default set
	Policy   Policy
	Snapshot *Snapshot
	Dump     *Dump
	// Changes are the Change Lists to continue or begin, oldest first; each begins at
	// the end of the one before. The first continues the list that the last publication
	// left open (with its Number and From), or begins where the last closed one ends.
	// Only the last may be open.
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
	// Profile10 writes documents for readers of ResourceSync 1.0 that readers of 1.1
	// also understand. In Change Lists and Change Dump Manifests lastmod is the time of
	// the change, also for deletions, and replaces datetime, which 1.0 does not have.
	Profile10 bool
	// ProfileBoth writes documents for readers of both versions: datetime stays, and
	// lastmod is the same time rounded up to a second, also for deletions. A reader of
	// 1.0 that ignores fractions then never takes a change for older than it is.
	// Profile10 takes precedence.
	ProfileBoth bool `json:",omitempty"`
	// FixedChanges adds a Change List at FixedChangeListURI, for clients that poll one
	// URI. It contains the changes of the newest current Change Lists, up to 50,000 and
	// about 45 MB, and reaches back to the at of the Resource List or further, unless
	// more than that has changed since. No Capability List names it. Each publication
	// rewrites it completely.
	FixedChanges bool `json:",omitempty"`
	// PackageBytes is the largest total size in bytes of the resources in one package;
	// 0 is 1 GiB. A larger resource has its own package.
	PackageBytes int64
	// KeepChanges is how long a closed Change List stays in the index of current ones;
	// 0 is 30 days. It stays longer while a Resource List or Resource Dump with which
	// readers may have begun is older than the list's end.
	KeepChanges time.Duration
	Archive     *Archive // nil: no archives are offered
	OnDemand    string   // URI that makes packages on demand, named in the Capability List; "" if there is none
}

// DefaultKeepChanges is the default of Policy.KeepChanges.
const DefaultKeepChanges = 30 * 24 * time.Hour

// About is text about a set or a Source, for people; fields may be empty.
type About struct {
	Title, Description, Contact, Licence string
}

// Archive sets how long earlier lists and dumps are offered (Archives §2 to §6). The
// oldest are dropped first. A Change List is dropped only if it ends no later than the
// oldest remaining Resource List and Resource Dump, whose readers need the changes
// after it.
type Archive struct {
	// Every is the minimum time between archived generations of Resource Lists, and of
	// Resource Dumps; 0 archives all. Change Lists and Change Dumps are always
	// archived.
	Every time.Duration
	Age   time.Duration // items older than this are dropped; 0 keeps all
	Count int           // largest number of items of each kind; 0 is no limit
	Bytes int64         // largest total size of all items of a set, packages included; 0 is no limit
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
	ItemMap          ItemKind = "resourcemap" // of a Resource Map: Key is its name, Keys are its files, At is its last change
	ItemPatch        ItemKind = "patch"       // of a patch: Number is that of the change, Key is the file of the patch
)

// Item is a document of a set that stays published when later publications add others
// of its kind: for example a Change List, or one generation of the Resource List.
type Item struct {
	Kind   ItemKind
	Number int64 // Window.Number, the publication id of a generation, or PackageNumber; ascending
	Key    string
	Keys   []string // keys of all its files: Key, parts, packages and manifests

	At, Completed time.Time // set for generations only
	From, Until   time.Time // of changes
	Through       int64     // Snapshot.Through or Window.Through
	Entries       int64
	Bytes         int64  // size of the documents and packages
	Of            int64  // for a package: the Number of its Change Dump; for a Change Dump: the Number of its first package
	Length        int64  // of a package or a patch
	SHA256        Sum    // of a package or a patch; of a map Map.Sum
	Type          string `json:",omitempty"` // media type of a patch

	Current bool      // linked from the Capability List, directly or through an index
	Archive int64     // place in the archive, from 1; 0: not archived, -1: removed from the archive
	Since   time.Time // when it reached its present state: closed, superseded, or out of the archive
}

// maxPackages bounds the number of packages in one publication of a set.
const maxPackages = 100_000

// PackageNumber returns the Item.Number of the nth package, counted from 1, of a
// publication.
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

// digests returns the sum in the form that documents use.
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
	Key       string // key in the bucket
	Length    int64
	SHA256    Sum
	Immutable bool   // the bytes at this key never change
	Rank      int    // publication order: a document links only to documents of lower ranks
	Of        string // key of the document of which this is a byte copy; "" if it is none
	Placed    bool   // the document is a package: it was written to its key before the commit instead of being staged
}

// Publication is one committed publication, with everything needed to write it out
// again.
type Publication struct {
	ID        int64
	Set       string
	Made      time.Time
	Documents []Document // sorted by rank, the order of writing: a document is written before anything links to it
	Retired   []string   // keys to which no document links since this publication
	Items     []Item     // items that are new or changed
	Dropped   []ItemID   // items no longer offered; their keys are in Retired
	Notes     []string   // notes for people, about documents written to other places than usual
	Written   []string   `json:"-"` // keys whose bytes were new, in order

	// The state of the set that the next publication starts from: the contents of the
	// Capability List, and the values that documents and pages about the set show.
	Offers         []Offer
	ListAt         time.Time
	ListThrough    int64          // Snapshot.Through
	ListKeys       []string       // keys of the Resource List: first its parts, then the list or its index
	SitemapKeys    []string       // keys of the plain sitemap: first its parts, then the sitemap or its index
	Generations    []int64        // ids of the publications of the last Resource Lists, oldest first
	Resources      int64          // number of entries in the Resource List
	Bytes          int64          // total length of the resources in the Resource List, as far as known
	ChangedAt      time.Time      // time of the latest change listed; zero if there was none
	Latest         []LatestChange // the last changes, newest first, at most 10
	About          About          // texts for the HTML pages about the set
	DumpNumber     int64          // Item.Number of the current Resource Dump; 0 if there is none
	DumpAt         time.Time
	DumpThrough    int64 // Dump.Through
	ChangesNumber  int64 // Window.Number of the last Change List
	ChangesFrom    time.Time
	ChangesUntil   time.Time  // zero while the last Change List is open
	ChangesThrough int64      // Window.Through
	Changes        int64      // number of entries in the last Change List
	DumpsSince     time.Time  // time since which Change Dumps contain every change; zero if there are none
	FixedChanges   int64      // Window.Number of the first Change List included in the one at a fixed name; 0 if there is none
	ArchiveEntries int        // largest number of entries in a part of an archive; 0 if unknown
	SourceSum      Sum        // digest of the inputs of the Source Description
	MapListKeys    []string   `json:",omitempty"` // keys of the documents that list Resource Maps
	MapsChanged    time.Time  `json:",omitzero"`  // when a Resource Map was last added, changed or removed
	PageLinks      []PageLink `json:",omitempty"` // links from the HTML pages to Resource Maps
}

// Offer is the entry of one capability in a Capability List.
type Offer struct {
	Capability resourcesync.Capability
	URI        string
}

// Offer returns the URI of the document for a capability; "" if there is none.
func (p *Publication) Offer(c resourcesync.Capability) string {
	for _, o := range p.Offers {
		if o.Capability == c {
			return o.URI
		}
	}
	return ""
}

// Journal records publications (one committed record each) and the files we wrote. All
// methods are durable when they return.
type Journal interface {
	// Begin returns the id of the next publication, greater than all earlier ids.
	Begin(ctx context.Context, set string) (int64, error)
	// Commit records p. From then on p must be finished, even after a crash.
	Commit(ctx context.Context, p Publication) error
	// Done records that every document of p is in its place. The documents are ours
	// from now on; the keys of p.Retired are to be removed, p.Items are stored or
	// replaced, and p.Dropped are deleted.
	Done(ctx context.Context, p Publication) error
	// Last returns the last committed publication of a set and whether Done has
	// recorded it; it returns false if Done was interrupted. If there is none, it
	// returns a zero Publication.
	Last(ctx context.Context, set string) (p Publication, done bool, err error)
	// Document returns the document that we last wrote at key. It returns false if we
	// never wrote one there, or if Forget removed its record.
	Document(ctx context.Context, key string) (Document, bool, error)
	// Items yields the items of one kind with a Number of at least from, ascending.
	Items(ctx context.Context, set string, kind ItemKind, from int64) iter.Seq2[Item, error]
	// Sets returns the sorted names of the sets that have a finished publication.
	Sets(ctx context.Context) ([]string, error)
	// Expired yields the retired keys that may be removed now: retired before the given
	// time, by publications before p.
	Expired(ctx context.Context, before time.Time, p int64) iter.Seq2[string, error]
	// Forget records that the file at key no longer exists.
	Forget(ctx context.Context, key string) error
}

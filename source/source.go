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
	At, Completed time.Time                            // the snapshot includes every change before At; the last resource was read at Completed
	Through       int64                                // number of the last change included, chosen by the caller; stored in the Publication, not interpreted
	Resources     iter.Seq2[resourcesync.Entry, error] // entries with loc, lastmod, and the hash, length and type of rs:md; ranged over more than once, and must yield the same entries each time
}

// Bitstream is an entry and the bytes that it describes.
type Bitstream struct {
	resourcesync.Entry
	// Open opens the bytes; it is nil for a deletion. The caller of Open verifies the
	// length and the digests of the entry. Open returns ErrGone (errors.Is) if these bytes
	// no longer exist anywhere.
	Open func(context.Context) (io.ReadCloser, error)
	// Patch opens the patch that the entry links (1.1 §14.4); it is nil if the entry links
	// none. The patch becomes a member of the same package, and the link gets the path of
	// that member.
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
	Number  int64     // number of its first change, or of the next change if it is empty; part of the document's name
	From    time.Time // start of the period; changes at this time are included
	Until   time.Time // end of the period; changes at this time are excluded; zero while the list is open
	Through int64     // number of the last change included, chosen by the caller; stored in the Publication, not interpreted
	Changes iter.Seq2[resourcesync.Entry, error]
	// Fresh are the changes since FreshFrom that no Change Dump contains yet, with their
	// bytes. They become a package of the Change Dump for this list (1.1 §13). The first
	// publication with Fresh switches Change Dumps on, from its FreshFrom. If Fresh of the
	// last window is nil, Change Dumps are switched off. Then Change Dumps, and the
	// Resource Dump if Update has no new one, are offered only in archives.
	Fresh     iter.Seq2[Bitstream, error]
	FreshFrom time.Time
}

// Update describes one publication of a set. If a field is nil, the documents of that kind
// stay as the previous publication left them.
type Update struct {
	Set      string // "" is the default set
	Policy   Policy
	Snapshot *Snapshot
	Dump     *Dump
	// Changes are the Change Lists to continue or begin, oldest first. Each begins where
	// the one before ends. The first one continues the list that the last publication left
	// open, with its Number and From, or begins where the last closed list ends. Only the
	// last one may be open.
	Changes []Window
	// Patches are new patches that changes of the windows link (1.1 §14.4), by ascending
	// Number. Patches is ranged over once, before the changes of any window. A patch is
	// removed with the Change List that has its change.
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
	// lastmod is the same time rounded up to a second, also for deletions. So a reader of
	// 1.0 that ignores fractions of a second never takes a change for an older one.
	// Profile10 takes precedence.
	ProfileBoth bool `json:",omitempty"`
	// FixedChanges adds a Change List at FixedChangeListURI, for clients that poll one URI.
	// It contains the changes of the newest current Change Lists, up to 50,000 changes and
	// about 45 MB. It has all changes since the Resource List, unless there are more than
	// that. No Capability List names it, and each publication rewrites it.
	FixedChanges bool `json:",omitempty"`
	// PackageBytes is the largest total size in bytes of the resources in one package;
	// 0 is 1 GiB. A larger resource has its own package.
	PackageBytes int64
	// KeepChanges is how long a closed Change List stays in the index of current ones; 0 is
	// 30 days. It stays longer if readers of an older Resource List or Resource Dump may
	// still need it.
	KeepChanges time.Duration
	Archive     *Archive // if nil, no archives are offered
	OnDemand    string   // URI of a handler that makes packages on demand, which the Capability List links; "" if there is none
}

// DefaultKeepChanges is the default of Policy.KeepChanges.
const DefaultKeepChanges = 30 * 24 * time.Hour

// About has texts about a set or a Source for people. Fields may be empty.
type About struct {
	Title, Description, Contact, Licence string
}

// Archive sets how long earlier lists and dumps are offered (Archives §2 to §6). The oldest
// items are dropped first. A Change List is dropped only if it ends no later than the
// oldest remaining Resource List and Resource Dump, whose readers need the changes after
// it.
type Archive struct {
	// Every is the minimum time between two archived Resource Lists, and between two
	// archived Resource Dumps; 0 archives all of them. Change Lists and Change Dumps are
	// always archived.
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
	ItemMap          ItemKind = "resourcemap" // Resource Map: Key is its name, Keys are the keys of its files, At is the time of its last change
	ItemPatch        ItemKind = "patch"       // patch: Number is the number of the change, Key is the key of the patch
)

// Item is a document of a set of which several are published at the same time: for example
// a Change List, or one generation of the Resource List.
type Item struct {
	Kind   ItemKind
	Number int64 // Window.Number of a Change List or Change Dump, the publication id of a Resource List or Resource Dump, or a PackageNumber; ascending
	Key    string
	Keys   []string // keys of all its files: Key, parts, packages and manifests

	At, Completed time.Time // of a Resource List or Resource Dump
	From, Until   time.Time // period of a Change List, Change Dump or package
	Through       int64     // Snapshot.Through, Dump.Through or Window.Through
	Entries       int64
	Bytes         int64  // total size of its documents and packages
	Of            int64  // for a package: the Number of its Change Dump; for a Change Dump: the Number of its first package
	Length        int64  // length of a package or a patch
	SHA256        Sum    // digest of a package or a patch; for a map, Map.Sum
	Type          string `json:",omitempty"` // media type of a patch

	Current bool      // linked from the Capability List, directly or through an index
	Archive int64     // place in the archive, counted from 1; 0 if not archived, -1 if removed from the archive
	Since   time.Time // time at which the item was closed, superseded or removed from the archive, whichever was last
}

// maxPackages is the largest number of packages in one publication of a set.
const maxPackages = 100_000

// PackageNumber returns the Item.Number of package n of a publication, counted from 1.
func PackageNumber(publication int64, n int) int64 { return publication*maxPackages + int64(n) }

// ItemID identifies an item of a set.
type ItemID struct {
	Kind   ItemKind
	Number int64
}

// Sum is a SHA-256, written as hex.
type Sum [sha256.Size]byte

// MarshalText writes the sum as hex.
func (s Sum) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// digests returns the sum as a digest of an entry.
func (s Sum) digests() resourcesync.Digests {
	d, err := resourcesync.NewDigest(resourcesync.SHA256, s[:])
	if err != nil {
		panic("source: making a digest of a Sum: " + err.Error())
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
	Rank      int    // position in the order of publication; a document links only to documents of lower ranks
	Of        string // if the document is a byte copy, the key of the original; otherwise ""
	Placed    bool   // the document is a package, which is not staged but written to its key before the commit
}

// Publication is one committed publication, with everything that Recover needs to write its
// documents.
type Publication struct {
	ID        int64
	Set       string
	Made      time.Time
	Documents []Document // sorted by rank, so that a document is written before another one links to it
	Retired   []string   // keys to which no document links any more
	Items     []Item     // items that are new or changed
	Dropped   []ItemID   // items that are no longer offered, whose keys are in Retired
	Notes     []string   // notes for people about documents that are not at their usual keys
	Written   []string   `json:"-"` // keys whose bytes were written or, in a preview, would be written, in order

	// The state of the set with which the next publication begins: the contents of the
	// Capability List, and the values that documents and pages about the set show.
	Offers         []Offer
	ListAt         time.Time
	ListThrough    int64          // Snapshot.Through
	ListKeys       []string       // keys of the Resource List: first its parts, then the list or its index
	SitemapKeys    []string       // keys of the plain sitemap: first its parts, then the sitemap or its index
	Generations    []int64        // ids of the publications of the last Resource Lists, oldest first
	Resources      int64          // number of entries in the Resource List
	Bytes          int64          // total length of the resources in the Resource List, as far as known
	ChangedAt      time.Time      // time of the latest listed change; zero if no change was listed
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
	FixedChanges   int64      // Window.Number of the first Change List whose changes the list at a fixed name has; 0 if there is no such list
	ArchiveEntries int        // number of entries in a full part of an archive; 0 if unknown
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

// Journal records publications, one committed record each, and the documents that we wrote.
// What a method records is durable when it returns.
type Journal interface {
	// Begin returns the id of the next publication, greater than all earlier ids.
	Begin(ctx context.Context, set string) (int64, error)
	// Commit records p. From then on p must be completed, by Recover after a crash.
	Commit(ctx context.Context, p Publication) error
	// Done records that every document of p has been written to its key, and that the keys
	// in p.Retired can be removed later. It stores or replaces p.Items, and deletes the
	// items p.Dropped.
	Done(ctx context.Context, p Publication) error
	// Last returns the last committed publication of a set, and whether Done has recorded
	// it completely. If there is none it returns a zero Publication.
	Last(ctx context.Context, set string) (p Publication, done bool, err error)
	// Document returns the document that we last wrote at key. It returns false if we
	// never wrote one there, or if Forget removed its record.
	Document(ctx context.Context, key string) (Document, bool, error)
	// Items yields the items of one kind with a Number of at least from, ascending.
	Items(ctx context.Context, set string, kind ItemKind, from int64) iter.Seq2[Item, error]
	// Sets returns the sorted names of the sets that have a finished publication.
	Sets(ctx context.Context) ([]string, error)
	// Expired yields the keys that were retired before the given time and were last written
	// by a publication before p.
	Expired(ctx context.Context, before time.Time, p int64) iter.Seq2[string, error]
	// Forget records that the file at key no longer exists.
	Forget(ctx context.Context, key string) error
}

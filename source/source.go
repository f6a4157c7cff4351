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

// Snapshot is the state of a set at one time. A Resource List is made from it (1.1 §10).
type Snapshot struct {
	// The snapshot includes every change before the time At. The last resource was read
	// at the time Completed.
	At, Completed time.Time
	// Through is the number of the last change that the snapshot includes. The caller
	// chooses it; a Publisher only stores it in the Publication.
	Through int64
	// Resources has entries with "loc", "lastmod", and the "hash", "length" and "type" of
	// "rs:md". The sequence is read more than once, and must yield the same entries each
	// time.
	Resources iter.Seq2[resourcesync.Entry, error]
}

// Bitstream is an entry, together with the bytes that it describes.
type Bitstream struct {
	resourcesync.Entry
	// Open opens the bytes. It is nil for a deletion. Its caller verifies the length and
	// the digests of the entry. The error is ErrGone (by errors.Is) if these bytes no
	// longer exist anywhere.
	Open func(context.Context) (io.ReadCloser, error)
	// Patch opens the patch to which the entry links (1.1 §14.4). It is nil if there is
	// none. The patch becomes a member of the same package as the entry's bytes, and the
	// link gets the path of that member.
	Patch func(context.Context) (io.ReadCloser, error)
}

// Dump is the state of a set at one time. A Resource Dump is made from it (1.1 §11).
type Dump struct {
	At, Completed time.Time
	Through       int64
	Bitstreams    iter.Seq2[Bitstream, error] // read only once
}

// Window is the period of a Change List (1.1 §12), and all changes of the set in that
// period.
type Window struct {
	// Number is the number of the first change in the period, or of the next change if
	// there is none yet. The name of the document contains this number.
	Number int64
	From   time.Time // the start of the period; changes at this time are included
	Until  time.Time // the end of the period; changes at this time are excluded; zero while changes may be added
	// Through is the number of the last change in the period. The caller chooses it; a
	// Publisher only stores it in the Publication.
	Through int64
	Changes iter.Seq2[resourcesync.Entry, error]
	// Fresh are the changes since the time FreshFrom that no Change Dump contains yet, with
	// their bytes. They become a package of the Change Dump for this period (1.1 §13). The
	// first Update with Fresh switches Change Dumps on. An Update whose last Window has no
	// Fresh switches them off. Change Dumps are then offered only in archives. The same holds
	// for the Resource Dump, unless the Update has a new one.
	Fresh     iter.Seq2[Bitstream, error]
	FreshFrom time.Time
}

// Update describes one publication of a set. If Snapshot, Dump, Changes or another field
// is nil, the documents that are made from it stay as they are.
type Update struct {
	Set      string // the name of the set; "" for the default set
	Policy   Policy
	Snapshot *Snapshot
	Dump     *Dump
	// Changes are the Change Lists that are continued or begun, oldest first. Each
	// begins where the previous one ends. If the last publication did not close its last
	// Change List, the first one here continues that list, with the same Number and
	// From. Otherwise it begins where that list ends. Only the last one here may be
	// without an end.
	Changes []Window
	// Patches are the new patches to which the Changes link (1.1 §14.4), by ascending
	// Number. The sequence is read once, before any of the Changes. A patch is removed
	// together with the Change List that links to it.
	Patches iter.Seq2[Patch, error]
	Maps    *Maps // Resource Maps
}

// Policy has the settings for the publication of a set, independent of its resources.
type Policy struct {
	About About
	// Profile10 writes documents for readers of ResourceSync 1.0, which readers of 1.1
	// understand as well. In Change Lists and Change Dump Manifests, "lastmod" is the time
	// of the change, also for deletions. There is no "datetime", since 1.0 does not have
	// it.
	Profile10 bool
	// ProfileBoth writes documents for readers of both versions: an entry keeps its
	// "datetime", and "lastmod" is the same time, rounded up to a second. This also applies
	// to deletions. Because the time is rounded up, a reader of 1.0 that ignores fractions
	// of a second never regards a change as older than it is. Profile10 overrides
	// ProfileBoth.
	ProfileBoth bool `json:",omitempty"`
	// FixedChanges adds a Change List that always has the same URI, FixedChangeListURI, for
	// clients that poll one URI. It has the changes of the newest current Change Lists, at
	// most 50,000 changes or about 45 MB. No Capability List links to it, and each
	// publication writes it again.
	FixedChanges bool `json:",omitempty"`
	// PackageBytes is the largest total size in bytes of the resources in one package; 0
	// means 1 GiB. A resource that is larger gets a package of its own.
	PackageBytes int64
	// KeepChanges is the time for which a closed Change List stays in the index of
	// current ones; 0 means 30 days. It stays longer if readers of an older Resource
	// List or Resource Dump may still need it.
	KeepChanges time.Duration
	Archive     *Archive // the settings of the archives; if nil, no archives are offered
	OnDemand    string   // the URI of a handler that makes packages on demand, to which the Capability List links; "" if there is none
}

// DefaultKeepChanges is the default of Policy.KeepChanges.
const DefaultKeepChanges = 30 * 24 * time.Hour

// About has texts for people about a set or a Source. All fields may be empty.
type About struct {
	Title, Description, Contact, Licence string
}

// Archive says for how long earlier lists and dumps are offered in archives (Archives §2
// to §6). The oldest ones are removed first. But a Change List is removed only if it
// ends no later than the time of the oldest remaining Resource List and Resource Dump,
// since their readers need all changes after that time.
type Archive struct {
	// Every is the minimum time between two archived Resource Lists, and between two
	// archived Resource Dumps; 0 means that all of them are archived. Change Lists and
	// Change Dumps are always archived.
	Every time.Duration
	Age   time.Duration // the age at which lists and dumps are removed; 0 means never
	Count int           // the largest number of lists or dumps in each archive; 0 means no limit
	Bytes int64         // the largest total size of the archived lists and dumps of a set, with packages; 0 means no limit
}

// ItemKind is the kind of an Item.
type ItemKind string

// The kinds of items.
const (
	ItemResourceList ItemKind = "resourcelist"
	ItemResourceDump ItemKind = "resourcedump"
	ItemChangeList   ItemKind = "changelist"
	ItemChangeDump   ItemKind = "changedump"
	ItemPackage      ItemKind = "package"     // a package of a Change Dump
	ItemMap          ItemKind = "resourcemap" // a Resource Map: Key is its name, Keys are the keys of its files, and At is the time of its last change
	ItemPatch        ItemKind = "patch"       // a patch: Number is the number of the change, and Key is the key of the patch
)

// Item is one of several documents of a set that exist at the same time: for example one
// of its Change Lists, or the current or an earlier Resource List.
type Item struct {
	Kind ItemKind
	// Number orders the items of one kind. It is the Window.Number of a Change List or
	// Change Dump, and the id of the publication that wrote a Resource List or Resource
	// Dump. For a package it is its PackageNumber.
	Number int64
	Key    string
	Keys   []string // the keys of all files of the item: Key, and those of parts, packages and manifests

	At, Completed time.Time // the times of a Resource List or Resource Dump
	From, Until   time.Time // the period of a Change List, Change Dump or package
	Through       int64     // the number of the last change that the item includes
	Entries       int64
	Bytes         int64  // the total size of the documents and packages of the item
	Of            int64  // for a package, the Number of its Change Dump; for a Change Dump, the Number of its first package
	Length        int64  // the length of a package or a patch
	SHA256        Sum    // the digest of a package or a patch; for a map, Map.Sum
	Type          string `json:",omitempty"` // the media type of a patch

	Current bool      // whether the Capability List links to the item, directly or through an index
	Archive int64     // the number of the item within its archive, counted from 1; 0 if it is not archived, -1 if it was removed from the archive
	Since   time.Time // the time at which the item was last closed, replaced by a newer one, or removed from the archive
}

// maxPackages is the largest number of packages in one publication of a set.
const maxPackages = 100_000

// PackageNumber returns the Item.Number of the nth package of a publication, counted
// from 1.
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

// digests returns the sum in the form that an entry needs.
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
	Key       string // the key in the bucket
	Length    int64
	SHA256    Sum
	Immutable bool   // whether the bytes at this key never change
	Rank      int    // the position in the order of writing: a document links only to documents with lower ranks
	Of        string // the key of the original, if the document is a copy of another one; otherwise ""
	Placed    bool   // whether the document is a package, which is written to its key before the commit and not to the staging area
}

// Publication is one committed publication. It has everything that Recover needs to
// finish writing its documents.
type Publication struct {
	ID        int64
	Set       string
	Made      time.Time
	Documents []Document // the documents that were written, sorted by rank
	Retired   []string   // the keys of documents to which no document links any more
	Items     []Item     // the items that are new or changed
	Dropped   []ItemID   // the items that are no longer offered; their keys are in Retired
	Notes     []string   // texts for people about documents that are not at their usual keys
	Written   []string   `json:"-"` // the keys at which bytes were written or, in a preview, would be written, in this order

	// The other fields are the state of the set with which the next publication begins:
	// the entries of the Capability List, and the values that documents and pages about
	// the set show.
	Offers         []Offer
	ListAt         time.Time
	ListThrough    int64          // Snapshot.Through
	ListKeys       []string       // the keys of the Resource List: first its parts, then the list or its index
	SitemapKeys    []string       // the keys of the plain sitemap: first its parts, then the sitemap or its index
	Generations    []int64        // the ids of the publications that wrote the last Resource Lists, oldest first
	Resources      int64          // the number of entries in the Resource List
	Bytes          int64          // the total length of the resources in the Resource List, as far as it is known
	ChangedAt      time.Time      // the time of the latest change in a Change List; zero if there was none
	Latest         []LatestChange // the last changes, newest first, at most 10
	About          About          // the texts for the HTML pages about the set
	DumpNumber     int64          // the Item.Number of the current Resource Dump; 0 if there is none
	DumpAt         time.Time
	DumpThrough    int64 // Dump.Through
	ChangesNumber  int64 // the Window.Number of the last Change List
	ChangesFrom    time.Time
	ChangesUntil   time.Time  // zero while changes may be added to the last Change List
	ChangesThrough int64      // Window.Through
	Changes        int64      // the number of entries in the last Change List
	DumpsSince     time.Time  // the time since which Change Dumps contain every change; zero if there are none
	FixedChanges   int64      // the Window.Number of the oldest Change List whose changes are in the Change List at a fixed name; 0 if the set has no such list
	ArchiveEntries int        // the number of entries in a full part of an archive; 0 if unknown
	SourceSum      Sum        // the digest of the settings that the Source Description depends on
	MapListKeys    []string   `json:",omitempty"` // the keys of the documents that list Resource Maps
	MapsChanged    time.Time  `json:",omitzero"`  // the time at which a Resource Map was last added, changed or removed
	PageLinks      []PageLink `json:",omitempty"` // the links from the HTML pages to Resource Maps
}

// Offer is an entry of a Capability List: the document for one capability.
type Offer struct {
	Capability resourcesync.Capability
	URI        string
}

// Offer returns the URI of the document for the capability c, or "" if there is none.
func (p *Publication) Offer(c resourcesync.Capability) string {
	for _, o := range p.Offers {
		if o.Capability == c {
			return o.URI
		}
	}
	return ""
}

// Journal records the publications, each as one committed record, and the documents that
// they wrote. When a method returns, what it has recorded is durable.
type Journal interface {
	// Begin returns the id of a new publication, which is greater than all earlier ids.
	Begin(ctx context.Context, set string) (int64, error)
	// Commit records the publication p. From then on p must be completed. After a crash,
	// Recover does that.
	Commit(ctx context.Context, p Publication) error
	// Done records that all documents of the publication p were written to their keys, and
	// that the documents at the keys in p.Retired can be removed later. It stores p.Items,
	// which replace earlier versions of the same items, and deletes the items in p.Dropped.
	Done(ctx context.Context, p Publication) error
	// Last returns the last committed publication of a set, and whether Done was called
	// for it. If the set has none, Last returns a zero Publication.
	Last(ctx context.Context, set string) (p Publication, done bool, err error)
	// Document returns the document that we last wrote at key. It returns false if we
	// never wrote one there, or have called Forget since.
	Document(ctx context.Context, key string) (Document, bool, error)
	// Items yields the items of one kind whose Number is at least start, in ascending
	// order.
	Items(ctx context.Context, set string, kind ItemKind, start int64) iter.Seq2[Item, error]
	// Sets returns the sorted names of the sets that have a publication for which Done
	// was called.
	Sets(ctx context.Context) ([]string, error)
	// Expired yields the keys of documents that were retired before the given time, and last
	// written by a publication that began before the publication p.
	Expired(ctx context.Context, before time.Time, p int64) iter.Seq2[string, error]
	// Forget records that the document at key was removed.
	Forget(ctx context.Context, key string) error
}

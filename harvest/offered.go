package harvest

import (
	"slices"

	"instep/resourcesync"
)

// Track is a kind of document in which a Source lists changes.
type Track int

// These are the values of Track.
const (
	ChangeLists       Track = iota // Change Lists and their index (1.1 §12)
	ChangeListArchive              // current and archived Change Lists (Archives §5)
	ChangeDumps                    // the manifests of the packages of Change Dumps (1.1 §13)
	ChangeDumpArchive              // current and archived Change Dumps (Archives §6)
	Tracks                         // number of kinds
)

// SnapshotKind is a kind of document that lists the whole set at one moment.
type SnapshotKind int

// These are the values of SnapshotKind.
const (
	ResourceList        SnapshotKind = iota // Resource Lists and their index (1.1 §10)
	ResourceDump                            // the manifests of the packages of Resource Dumps (1.1 §11)
	resourceListArchive                     // the newest archived Resource List (Archives §3)
	ResourceDumpArchive                     // the newest archived Resource Dump (Archives §4)
	SnapshotKinds                           // number of kinds
)

var trackDocuments = [Tracks]resourcesync.Capability{
	resourcesync.CapabilityChangeList, resourcesync.CapabilityChangeListArchive,
	resourcesync.CapabilityChangeDump, resourcesync.CapabilityChangeDumpArchive,
}

var snapshotDocuments = [SnapshotKinds]resourcesync.Capability{
	resourcesync.CapabilityResourceList, resourcesync.CapabilityResourceDump,
	resourcesync.CapabilityResourceListArchive, resourcesync.CapabilityResourceDumpArchive,
}

// Offered records which documents a Source offers for a set.
type Offered struct {
	Tells [Tracks]bool
	Shows [SnapshotKinds]bool
	Lost  [SnapshotKinds]bool // kinds of snapshots that turned out to be unusable
}

// Usable reports whether a kind of snapshot is offered and did not turn out to be
// unusable.
func (f *Offered) Usable(s SnapshotKind) bool { return f.Shows[s] && !f.Lost[s] }

// Archived has the kinds of snapshots in archives, which are used if no other kind is
// usable.
var Archived = []SnapshotKind{resourceListArchive, ResourceDumpArchive}

// First returns the first of the given kinds of snapshot that is usable. It returns
// false if none is.
func (f *Offered) First(some ...SnapshotKind) (SnapshotKind, bool) {
	i := slices.IndexFunc(some, f.Usable)
	if i < 0 {
		return 0, false
	}
	return some[i], true
}

// Order returns the offered values of Track, in the order in which their documents are
// tried.
func (f *Offered) Order(dumpsFirst bool) []Track {
	order := []Track{ChangeLists, ChangeListArchive, ChangeDumps, ChangeDumpArchive}
	if dumpsFirst {
		order = []Track{ChangeDumps, ChangeDumpArchive, ChangeLists, ChangeListArchive}
	}
	return slices.DeleteFunc(order, func(tr Track) bool { return !f.Tells[tr] })
}

func (s SnapshotKind) String() string {
	return [SnapshotKinds]string{"the Resource List", "the Resource Dump", "the newest archived Resource List", "the newest archived Resource Dump"}[s]
}

// Outcome is the result of Offer.Follow.
type Outcome struct {
	Reaches bool   // the documents contain all changes after the Position
	Why     string // the reason for the value of Reaches, in one sentence
}

package harvest

import (
	"slices"

	"instep/resourcesync"
)

// Track is a kind of document that contains changes.
type Track int

// These are the tracks.
const (
	ChangeLists       Track = iota // Change Lists and their index (1.1 §12)
	ChangeListArchive              // current and archived Change Lists (Archives §5)
	ChangeDumps                    // the manifests of the packages of Change Dumps (1.1 §13)
	ChangeDumpArchive              // current and archived Change Dumps (Archives §6)
	Tracks                         // the number of tracks
)

// SnapshotKind is a kind of document that lists the whole set at one moment.
type SnapshotKind int

// These are the kinds of snapshots.
const (
	ResourceList        SnapshotKind = iota // Resource Lists and their index (1.1 §10)
	ResourceDump                            // the manifests of the packages of Resource Dumps (1.1 §11)
	resourceListArchive                     // the newest archived Resource List (Archives §3)
	ResourceDumpArchive                     // the newest archived Resource Dump (Archives §4)
	SnapshotKinds                           // the number of kinds
)

// trackDocuments maps each track to the capability of its documents.
var trackDocuments = [Tracks]resourcesync.Capability{
	resourcesync.CapabilityChangeList, resourcesync.CapabilityChangeListArchive,
	resourcesync.CapabilityChangeDump, resourcesync.CapabilityChangeDumpArchive,
}

// snapshotDocuments maps each kind of snapshot to the capability of its documents.
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

// Usable reports whether a snapshot is offered and did not turn out to be unusable.
func (f *Offered) Usable(s SnapshotKind) bool { return f.Shows[s] && !f.Lost[s] }

// Archived are the kinds of snapshots that are used if no present one is usable.
var Archived = []SnapshotKind{resourceListArchive, ResourceDumpArchive}

// First returns the first usable kind of snapshot. It returns false if there is none.
func (f *Offered) First(some ...SnapshotKind) (SnapshotKind, bool) {
	i := slices.IndexFunc(some, f.Usable)
	if i < 0 {
		return 0, false
	}
	return some[i], true
}

// Order returns the offered tracks in the order in which they are tried.
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

// Outcome is the result of following a track from a position.
type Outcome struct {
	Reaches bool   // the track contains all changes after the position
	Why     string // the reason in one sentence
}

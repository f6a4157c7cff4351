package harvest

import (
	"slices"

	"instep/resourcesync"
)

// Track is a kind of document that lists changes.
type Track int

// The tracks.
const (
	ChangeLists       Track = iota // Change Lists and their index (1.1 §12)
	ChangeListArchive              // these and the ones before them (Archives §5)
	ChangeDumps                    // the manifests of the packages of Change Dumps (1.1 §13)
	ChangeDumpArchive              // these and the ones before them (Archives §6)
	Tracks                         // number of tracks
)

// SnapshotKind is one kind of documents that list the whole set at one moment.
type SnapshotKind int

// The snapshots.
const (
	ResourceList        SnapshotKind = iota // Resource Lists and their index (1.1 §10)
	ResourceDump                            // the manifests of the packages of Resource Dumps (1.1 §11)
	resourceListArchive                     // the newest archived one (Archives §3)
	ResourceDumpArchive                     // the newest archived one (Archives §4)
	SnapshotKinds                           // number of kinds
)

// trackDocuments are the documents that lead to a track.
var trackDocuments = [Tracks]resourcesync.Capability{
	resourcesync.CapabilityChangeList, resourcesync.CapabilityChangeListArchive,
	resourcesync.CapabilityChangeDump, resourcesync.CapabilityChangeDumpArchive,
}

// snapshotDocuments are the documents that lead to a snapshot.
var snapshotDocuments = [SnapshotKinds]resourcesync.Capability{
	resourcesync.CapabilityResourceList, resourcesync.CapabilityResourceDump,
	resourcesync.CapabilityResourceListArchive, resourcesync.CapabilityResourceDumpArchive,
}

// Offered lists the documents that a Source offers for a set.
type Offered struct {
	Tells [Tracks]bool
	Shows [SnapshotKinds]bool
	Lost  [SnapshotKinds]bool // kinds of snapshots that cannot be used
}

// Usable reports whether a kind of snapshot is offered and was not found unusable.
func (f *Offered) Usable(s SnapshotKind) bool { return f.Shows[s] && !f.Lost[s] }

// Archived are the snapshots that are taken where no present one can be used.
var Archived = []SnapshotKind{resourceListArchive, ResourceDumpArchive}

// First is the first of some snapshots that can be used; false if none can.
func (f *Offered) First(some ...SnapshotKind) (SnapshotKind, bool) {
	i := slices.IndexFunc(some, f.Usable)
	if i < 0 {
		return 0, false
	}
	return some[i], true
}

// TrackOrder is in which order the tracks are followed.
func TrackOrder(dumpsFirst bool) []Track {
	if dumpsFirst {
		return []Track{ChangeDumps, ChangeDumpArchive, ChangeLists, ChangeListArchive}
	}
	return []Track{ChangeLists, ChangeListArchive, ChangeDumps, ChangeDumpArchive}
}

func (s SnapshotKind) String() string {
	return [SnapshotKinds]string{"the Resource List", "the Resource Dump", "the newest archived Resource List", "the newest archived Resource Dump"}[s]
}

// Outcome is the result of following a track from a position.
type Outcome struct {
	Reaches bool   // it covers everything after the position
	Why     string // one sentence
}

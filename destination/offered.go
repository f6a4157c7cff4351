package destination

import (
	"slices"

	"instep/resourcesync"
)

// track is a way in which a Source tells what changed.
type track int

// The tracks.
const (
	changeLists       track = iota // Change Lists and their index (1.1 §12)
	changeListArchive              // these and the ones before them (Archives §5)
	changeDumps                    // the manifests of the packages of Change Dumps (1.1 §13)
	changeDumpArchive              // these and the ones before them (Archives §6)
	tracks                         // how many there are
)

// snapshot is a way in which a Source tells the whole state of a set at one moment.
type snapshot int

// The snapshots.
const (
	resourceList        snapshot = iota // Resource Lists and their index (1.1 §10)
	resourceDump                        // the manifests of the packages of Resource Dumps (1.1 §11)
	resourceListArchive                 // the newest that is archived (Archives §3)
	resourceDumpArchive                 // the newest that is archived (Archives §4)
	snapshots                           // how many there are
)

// trackDocuments are the documents that lead to a track.
var trackDocuments = [tracks]resourcesync.Capability{
	resourcesync.CapabilityChangeList, resourcesync.CapabilityChangeListArchive,
	resourcesync.CapabilityChangeDump, resourcesync.CapabilityChangeDumpArchive,
}

// snapshotDocuments are the documents that lead to a snapshot.
var snapshotDocuments = [snapshots]resourcesync.Capability{
	resourcesync.CapabilityResourceList, resourcesync.CapabilityResourceDump,
	resourcesync.CapabilityResourceListArchive, resourcesync.CapabilityResourceDumpArchive,
}

// offered is by what a Source tells of a set.
type offered struct {
	tells [tracks]bool
	shows [snapshots]bool
	lost  [snapshots]bool // those that cannot be used
}

func (f *offered) usable(s snapshot) bool { return f.shows[s] && !f.lost[s] }

// archived are the snapshots that are taken where no present one can be used.
var archived = []snapshot{resourceListArchive, resourceDumpArchive}

// first is the first of some snapshots that can be used; false if none can.
func (f *offered) first(some ...snapshot) (snapshot, bool) {
	i := slices.IndexFunc(some, f.usable)
	if i < 0 {
		return 0, false
	}
	return some[i], true
}

// order is in which order the tracks are followed.
func order(dumpsFirst bool) []track {
	if dumpsFirst {
		return []track{changeDumps, changeDumpArchive, changeLists, changeListArchive}
	}
	return []track{changeLists, changeListArchive, changeDumps, changeDumpArchive}
}

func (s snapshot) String() string {
	return [snapshots]string{"the Resource List", "the Resource Dump", "the newest archived Resource List", "the newest archived Resource Dump"}[s]
}

// outcome is what came of following a track from a cursor.
type outcome struct {
	known   bool
	reaches bool   // it tells everything that happened after the cursor
	why     string // one sentence
}

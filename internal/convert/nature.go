package convert

import "instep/resourcesync"

// times says which of the attributes "at", "completed", "from" and "until" the root of a
// document may have (1.1 Appendix A).
type times uint8

const (
	anyTimes times = iota // the standard does not define the capability, so all attributes are allowed
	noTimes
	snapshotTimes // at, completed
	changeTimes   // from, until
)

type nature struct {
	name      string // name of a kind of document, such as "changelist"; the ids of the rules for this kind begin with the name
	times     times
	required  bool // the root must have the attribute "at" or "from"
	up        bool // the root must have a link with rel="up"
	entryAt   bool // entries may have the attributes "at" and "completed"
	entryFrom bool // entries may have the attributes "from" and "until"
	manifest  bool // entries must have the attribute "path"
	changes   bool // entries are changes, sorted by their attribute "datetime"
	windows   bool // entries are sorted by their attribute "from"
}

func natureOf(h *resourcesync.Header) nature {
	index := h.Root == resourcesync.SitemapIndex
	n := nature{name: h.Kind(), up: true}
	switch h.Capability {
	case resourcesync.CapabilityDescription:
		n.times, n.up = noTimes, false
	case resourcesync.CapabilityCapabilityList:
		n.times = noTimes
	case resourcesync.CapabilityResourceList:
		n.times, n.required, n.entryAt = snapshotTimes, true, index
	case resourcesync.CapabilityResourceDump:
		n.times, n.required, n.entryAt = snapshotTimes, true, true
	case resourcesync.CapabilityResourceDumpManifest:
		n.times, n.required, n.manifest = snapshotTimes, true, true
	case resourcesync.CapabilityChangeList:
		n.times, n.required, n.entryFrom, n.changes, n.windows = changeTimes, true, index, !index, index
	case resourcesync.CapabilityChangeDump:
		n.times, n.required, n.entryFrom, n.windows = changeTimes, true, true, true
	case resourcesync.CapabilityChangeDumpManifest:
		n.times, n.required, n.manifest, n.changes = changeTimes, true, true, true
	case resourcesync.CapabilityResourceListArchive, resourcesync.CapabilityResourceDumpArchive:
		n.times, n.entryAt = snapshotTimes, true
	case resourcesync.CapabilityChangeListArchive, resourcesync.CapabilityChangeDumpArchive:
		n.times, n.entryFrom, n.windows = changeTimes, true, !index
	default:
		n.up, n.entryAt, n.entryFrom = false, true, true
	}
	return n
}

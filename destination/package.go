package destination

import (
	"instep/resourcesync"
)

// packageRef is a package as a dump names it (1.1 §11.1, §13.1).
type packageRef struct {
	uri         string
	mediaType   string
	length      resourcesync.Length
	digests     resourcesync.Digests
	contents    string                // URI of a copy of its manifest (rel="contents"); "" if there is none
	at          resourcesync.Datetime // of a Resource Dump
	from, until resourcesync.Datetime // of a Change Dump; until is zero while it is open
}

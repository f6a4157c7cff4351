package resourcesync

// Seen is what a Header or an Entry does not tell of the element that it was read
// from.
type Seen struct {
	Line     int  // of the start tag, from 1
	Column   int  // of the start tag, from 1, in bytes of UTF-8
	Metadata bool // it had an rs:md, if only an empty one
}

// SeenEntry tells about the entry that was yielded last, also if it was bad.
func (d *Decoder) SeenEntry() Seen { return d.seenEntry }

// SeenRoot tells about the root element, as far as it was read.
func (d *Decoder) SeenRoot() Seen {
	return Seen{Line: d.rootLine, Column: d.rootColumn, Metadata: d.hasMD}
}

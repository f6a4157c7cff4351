package resourcesync

// Seen has facts about the element of a Header or an Entry that these do not have.
type Seen struct {
	Line     int  // of the start tag, from 1
	Column   int  // of the start tag, from 1, in bytes of UTF-8
	Metadata bool // the element had an rs:md, if only an empty one
}

// SeenEntry returns the facts about the entry that was yielded last, also if it was bad.
func (d *Decoder) SeenEntry() Seen { return d.seenEntry }

// SeenRoot returns the facts about the root element, as far as it was read.
func (d *Decoder) SeenRoot() Seen {
	return Seen{Line: d.rootLine, Column: d.rootColumn, Metadata: d.hasMD}
}

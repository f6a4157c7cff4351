package resourcesync

// Seen has facts about the XML element from which a Header or an Entry was read.
type Seen struct {
	Line     int  // line of the start tag, from 1
	Column   int  // column of the start tag, from 1, in bytes of UTF-8
	Metadata bool // the element had an rs:md, even an empty one
}

// SeenEntry returns facts about the entry that was yielded last, even if that entry was
// bad.
func (d *Decoder) SeenEntry() Seen { return d.seenEntry }

// SeenRoot returns facts about the part of the root element that was read so far.
func (d *Decoder) SeenRoot() Seen {
	return Seen{Line: d.rootLine, Column: d.rootColumn, Metadata: d.hasMD}
}

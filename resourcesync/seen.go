package resourcesync

// Seen has facts about the XML element from which a Decoder read a Header or an Entry.
type Seen struct {
	Line     int  // line of the start tag, counted from 1
	Column   int  // the column of the start tag, counted from 1, in bytes of UTF-8
	Metadata bool // whether the element has an rs:md, even one without attributes
}

// SeenEntry returns facts about the latest entry that was yielded, even if it was yielded
// with an error.
func (d *Decoder) SeenEntry() Seen { return d.seenEntry }

// SeenRoot returns facts about the part of the root element that was read so far.
func (d *Decoder) SeenRoot() Seen {
	return Seen{Line: d.rootLine, Column: d.rootColumn, Metadata: d.hasMD}
}

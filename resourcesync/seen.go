package resourcesync

// Seen has facts about the element of a Header or Entry that these types lack.
type Seen struct {
	Line     int  // line of the start tag, from 1
	Column   int  // column of the start tag, from 1, in bytes of UTF-8
	Metadata bool // the element had an rs:md, even an empty one
}

// SeenEntry returns the facts about the last yielded entry, even if it was bad.
func (d *Decoder) SeenEntry() Seen { return d.seenEntry }

// SeenRoot returns the facts about the root element, as far as it was read.
func (d *Decoder) SeenRoot() Seen {
	return Seen{Line: d.rootLine, Column: d.rootColumn, Metadata: d.hasMD}
}

package resourcesync

import (
	"bytes"
	"fmt"
	"slices"
)

// Dialect is a version of the format of documents: 1.1 or an older one. A Decoder
// converts documents of every dialect to the form of 1.1.
type Dialect uint8

// The dialects.
const (
	Dialect11      Dialect = iota // ANSI/NISO Z39.99-2017 (1.1)
	Dialect10                     // ANSI/NISO Z39.99-2014 (1.0), where "lastmod" is the time of a change; used only with AsDialect
	DialectMid2013                // drafts of mid-2013, where rs:md has the attribute "modified" and rel="resourcesync" means rel="up"
	DialectDLib                   // D-Lib Magazine 19(1/2), 2013, with another namespace, the attributes "modified" and "etag", and rel="top"
	DialectAtom                   // the two Atom forms in the appendix of the D-Lib article
	DialectResync                 // the <resync> XML format in the appendix of the D-Lib article
)

// String returns the name of the dialect as used in commands, such as "dlib-2013".
func (d Dialect) String() string {
	switch d {
	case Dialect11:
		return "1.1"
	case Dialect10:
		return "1.0"
	case DialectMid2013:
		return "mid-2013"
	case DialectDLib:
		return "dlib-2013"
	case DialectAtom:
		return "dlib-2013-atom"
	case DialectResync:
		return "dlib-2013-resync"
	}
	return fmt.Sprintf("resourcesync.Dialect(%d)", uint8(d))
}

func (d Dialect) isDLib() bool {
	return d == DialectDLib || d == DialectAtom || d == DialectResync
}

type form uint8

const (
	formSitemap form = iota // urlset or sitemapindex
	formAtom                // feed
	formResync              // resync
)

// setDialect stores the dialect of the document, and sends a note about the feature
// that shows the dialect. Only the first call has an effect.
func (d *Decoder) setDialect(dialect Dialect, n Note) {
	if d.dialectKnown {
		return
	}
	d.dialectKnown = true
	d.header.Dialect = dialect
	d.remarkDialect(n)
}

// remarkDialect sends a note about a feature of an older dialect that 1.1 does not
// have. The note is legal if the caller asked for that dialect with AsDialect.
func (d *Decoder) remarkDialect(n Note) {
	n.Quirk, n.Legal = QuirkDialect, d.as == d.header.Dialect
	if d.header.Dialect == DialectMid2013 {
		n.Quirk = QuirkMid2013
	}
	d.tolerate(n)
}

// convertEntry converts the current entry, with the given start tag, to the form of 1.1.
func (d *Decoder) convertEntry(start *element) {
	e := &d.current
	if d.header.Dialect == DialectDLib {
		d.patchBitstream(start)
	}
	// Before 1.1 the time of a change, even of a deletion, was in "lastmod".
	if e.Metadata.Datetime.IsZero() && d.isChange(e) {
		e.Metadata.Datetime = e.LastMod
		if e.Change == Deleted {
			e.LastMod = Datetime{}
		}
	}
}

// isChange reports whether an entry is a change. It uses only the part of the header
// that was read so far, because elements of the header may come after the entries.
func (d *Decoder) isChange(e *Entry) bool {
	return d.header.listsChanges() || d.header.Root == URLSet && d.header.Capability == "" && e.Change != ""
}

func (h *Header) listsChanges() bool {
	return h.Root == URLSet && (h.Capability == CapabilityChangeList || h.Capability == CapabilityChangeDumpManifest)
}

// setModified stores the time of modification of an Atom or resync document as the
// "modified" attribute of the header. Only the first call with a value has an effect.
func (d *Decoder) setModified(value []byte) {
	if value = trimSpace(value); len(value) > 0 && !d.modified {
		d.modified = true
		d.header.Attrs = append(d.header.Attrs, Attr{Name: "modified", Value: string(value)})
		d.modifiedAsAt()
	}
}

// modifiedAsAt replaces the attribute "modified" of the header by the attribute "at", if
// the document is a snapshot that has no "at" (1.1 §7).
func (d *Decoder) modifiedAsAt() {
	h := &d.header
	i := slices.IndexFunc(h.Attrs, func(a Attr) bool { return a.Space == "" && a.Name == "modified" })
	if i < 0 || !h.At.IsZero() {
		return
	}
	switch h.Capability {
	case CapabilityResourceList, CapabilityResourceDump, CapabilityResourceDumpManifest:
		value := h.Attrs[i].Value
		h.At = d.datetime(trimSpace([]byte(value)), "modified")
		if !h.At.IsZero() {
			h.Attrs = slices.Delete(h.Attrs, i, i+1)
			n := Note{Msg: fmt.Sprintf("modified %q; read as the attribute \"at\"", clip(value))}
			if book := ruleBookOf(h); book.need&isSnapshot != 0 {
				n.Rule = book.kind + "-at-required"
			}
			d.remarkDialect(n)
		}
	}
}

// capabilityOf returns the capability that is the last segment of a URI. The Atom and
// resync forms of D-Lib Magazine use such a URI as the type of a document.
func (d *Decoder) capabilityOf(uri []byte) Capability {
	uri = trimSpace(uri)
	name := uri[bytes.LastIndexByte(uri, '/')+1:]
	if len(name) == 0 {
		return ""
	}
	return d.capability(name)
}

// takeAttr removes an attribute without prefix from the start tag, and returns its
// value.
func (d *Decoder) takeAttr(name string) (value []byte, ok bool) {
	for i := range d.s.attrs {
		if a := &d.s.attrs[i]; a.colon == 0 && string(a.name) == name {
			value = trimSpace(a.value)
			d.s.attrs = append(d.s.attrs[:i], d.s.attrs[i+1:]...)
			return value, true
		}
	}
	return nil, false
}

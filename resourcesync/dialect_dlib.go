package resourcesync

import "fmt"

// This file reads the drafts of 2013 that have the form of a sitemap: the draft in D-Lib
// Magazine, and the drafts of mid-2013.

// draftUp says where a document of D-Lib Magazine has a link with rel="up" in its root.
// This relation means rel="index" in these documents, except in a Capability List. The
// Decoder assumes rel="index" until the capability of the document is known.
type draftUp struct{ index, line, column int }

const relTop = "top" // relation of the link to the Capability List in D-Lib Magazine

// draftAttr reads an attribute of rs:md that the standard does not define: a draft may
// define it.
func (d *Decoder) draftAttr(a *attr) Attr {
	switch string(a.name) {
	case "modified":
		if !d.inside {
			d.setDialect(DialectMid2013, Note{Rule: "table3-root-md", Msg: `the attribute "modified" on the rs:md of the root, as in drafts of 2013`})
			return keptAttr(a)
		}
	case "etag":
		if d.header.Dialect == DialectDLib {
			return keptAttr(a)
		}
	}
	return d.foreignAttr(a)
}

func (d *Decoder) rootLink() error {
	known := len(d.header.Links)
	if err := d.linkTag(&d.header.Links); err != nil {
		return err
	}
	if len(d.header.Links) > known {
		d.draftLink(known)
	}
	return d.skip()
}

// draftLink converts the relation of a link of the root from the dialect of the
// document to 1.1. The link has the index i in the header. Except in Capability
// Lists, D-Lib Magazine writes rel="up" where 1.0 and 1.1 have rel="index".
func (d *Decoder) draftLink(i int) {
	l := &d.header.Links[i]
	dlib := d.header.Dialect == DialectDLib
	switch {
	case l.Rel == RelSource && !dlib:
		d.setDialect(DialectMid2013, Note{Msg: `a link of the root with rel "resourcesync", as in drafts of 2013`})
		l.Rel = RelUp
		d.remarkDialect(Note{Rule: "ln-rel-registered-or-uri", Msg: `rel "resourcesync"; read as "up"`})
	case l.Rel == relTop && dlib:
		l.Rel, d.hasTop = RelUp, true
		d.remarkDialect(Note{Msg: `rel "top"; read as "up"`})
	case l.Rel == RelUp && dlib:
		l.Rel = RelIndex
		d.s.locate()
		d.ups = append(d.ups, draftUp{i, d.s.elem.line, d.s.elem.column})
		if d.hasMD {
			d.resolveUps()
		}
	case l.Rel == RelNext || l.Rel == RelPrev:
		d.remark(Note{Quirk: QuirkPages, Msg: fmt.Sprintf("a link with rel %q: the document is one of several pages", l.Rel)})
	}
}

// resolveUps decides the relation of the links of the root with rel="up": "up" in a
// Capability List, and otherwise "index". It is called when the capability of the
// document is known, or when the document ends without one.
func (d *Decoder) resolveUps() {
	for _, up := range d.ups {
		if d.header.Capability == CapabilityCapabilityList {
			d.header.Links[up.index].Rel = RelUp
			continue
		}
		d.remarkDialect(Note{Rule: "dlib-up-link-to-index", Line: up.line, Column: up.column, Msg: `rel "up"; read as "index"`})
	}
	d.ups = nil
}

// patchBitstream turns the attributes of an entry that describe a patch into a link to
// the patch. Otherwise a reader would store the bytes of the patch as the resource.
func (d *Decoder) patchBitstream(start *element) {
	e := &d.current
	if e.Change != Updated || e.Path == "" || !IsPatchType(e.Type) {
		return
	}
	e.Links = append(e.Links, Link{
		Rel: RelPatch, Href: e.Loc,
		Path: e.Path, Type: e.Type, Digests: e.Digests, Length: e.Length, Encoding: e.Encoding,
	})
	d.remarkDialect(Note{
		Rule: "changedump-manifest-path-required", Line: start.line, Column: start.column,
		Msg: fmt.Sprintf("the bitstream %q is a patch (%s); read as a link to it", clip(e.Path), clip(e.Type)),
	})
	e.Path, e.Type, e.Encoding, e.Digests, e.Length = "", "", "", nil, Length{}
}

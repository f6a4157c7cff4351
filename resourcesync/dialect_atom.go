package resourcesync

import (
	"bytes"
	"slices"
)

// This file reads two forms of documents in Atom, from the appendix of an article in D-Lib
// Magazine 2013. An entry states the URI of its resource in a link (first form), or in its
// "content" element (second form). Attributes of ResourceSync may have a namespace prefix
// or none; the Decoder accepts both in both forms. Elements that Atom requires ("title",
// "id", "author", "summary") are stored as foreign elements.

func (d *Decoder) atomRoot() error {
	i := slices.IndexFunc(d.s.attrs, func(a attr) bool { return a.isRS() && string(a.local()) == "type" })
	if i < 0 {
		return d.reject(ruleRoot, "this is an Atom feed")
	}
	d.form, d.hasMD = formAtom, true
	d.setDialect(DialectAtom, Note{Rule: ruleRoot, Msg: "an Atom feed, as in the draft in D-Lib Magazine 2013"})
	d.header.Capability = d.capabilityOf(d.s.attrs[i].value)
	d.s.attrs = slices.Delete(d.s.attrs, i, i+1)
	d.keepRootAttrs()
	return nil
}

func (a *attr) isRS() bool {
	return a.space == spaceDLib || a.space == spaceRS || a.space == spaceRSAlias
}

// atomRootChild reads a child of the feed whose start tag was read. If the child is an
// entry, it does not read the content.
func (d *Decoder) atomRootChild() (isEntry bool, err error) {
	if d.s.elem.uri == nsAtom {
		switch string(d.s.elem.local) {
		case "entry":
			return true, d.countEntry(URLSet)
		case "link":
			d.unprefixAttrs()
			return false, d.atomOrResyncLink()
		case "updated":
			text, ok, err := d.text()
			if err == nil && ok {
				d.setModified(text)
			}
			return false, err
		}
	}
	return false, d.foreignRootChild()
}

func (d *Decoder) atomOrResyncLink() error {
	known := len(d.header.Links)
	if err := d.linkTag(&d.header.Links); err != nil {
		return err
	}
	if len(d.header.Links) > known && d.header.Links[known].Rel == nsDLib+string(CapabilityCapabilityList) {
		d.header.Links[known].Rel = RelUp
	}
	return d.skip()
}

func (in *entryReader) atomChild() error {
	d := in.d
	if d.s.elem.uri == nsAtom {
		switch string(d.s.elem.local) {
		case "updated":
			return in.text(&in.hasLastMod, func(b []byte) { in.e.LastMod = d.datetime(b, "lastmod") })
		case "link":
			d.unprefixAttrs()
			if d.namesResource() {
				return in.resource("href")
			}
			return d.link(&in.e.Links)
		case "content":
			if slices.ContainsFunc(d.s.attrs, func(a attr) bool { return string(a.name) == "src" }) {
				d.unprefixAttrs()
				return in.resource("src")
			}
		}
	}
	return d.foreignChild()
}

// resource reads an element that states the URI of the resource in the given attribute.
func (in *entryReader) resource(attribute string) error {
	d := in.d
	uri, _ := d.takeAttr(attribute)
	in.setLoc(uri)
	d.takeAttr("rel")
	in.metadata()
	return d.skip()
}

func (d *Decoder) unprefixAttrs() {
	for i := range d.s.attrs {
		if a := &d.s.attrs[i]; a.isRS() {
			a.name, a.colon, a.space, a.uri = a.local(), 0, spaceNone, ""
		}
	}
}

// namesResource reports whether the link has both the relations "canonical" and
// "alternate". Such a link has the URI of the resource.
func (d *Decoder) namesResource() bool {
	canonical, alternate := false, false
	for i := range d.s.attrs {
		if a := &d.s.attrs[i]; string(a.name) == "rel" {
			for _, rel := range bytes.Fields(a.value) {
				canonical = canonical || string(rel) == RelCanonical
				alternate = alternate || string(rel) == RelAlternate
			}
		}
	}
	return canonical && alternate
}

package resourcesync

import (
	"fmt"
	"slices"
)

// This file contains the checks at the end of an entry and at the end of the document.

// maxSize is the limit of 50 MB in the standard (1.1 §7), read as 50 MiB. A Decoder
// sends a note about a larger document. An Encoder writes at most 50,000,000 bytes.
const maxSize = 50 << 20

func (d *Decoder) finish() error {
	d.state = ended
	d.resolveUps()
	if size := d.s.base + int64(d.s.pos); size > maxSize {
		d.tolerateRoot(Note{Rule: "limit-50mb", Msg: fmt.Sprintf("the document has %d bytes; expected at most %d", size, maxSize)})
	}
	if d.as == DialectDLib && d.header.Dialect != DialectDLib {
		d.tolerateRoot(Note{Rule: "dlib-namespace", Msg: "the document has no element in the ResourceSync namespace of the draft in D-Lib Magazine 2013"})
	}
	switch {
	case !d.hasMD:
		if d.related {
			d.tolerateRoot(Note{Rule: d.ruleHere("root-md-required", "dlib-root-md-capability"), Msg: "the root has no rs:md, so the purpose of the document is unknown"})
		}
	case d.header.Capability != "":
		d.checkTimes()
	case !d.cannot("capability"):
		d.tolerateRoot(Note{Rule: d.ruleHere("root-capability-required", "dlib-root-md-capability"), Msg: "the root has no capability, so the purpose of the document is unknown"})
	}
	if d.header.Dialect == DialectDLib && !d.hasTop && d.header.Capability != CapabilityCapabilityList {
		d.tolerateRoot(Note{Rule: "dlib-top-link", Legal: true, Msg: `the root has no link with rel="top" to the Capability List`})
	}
	return d.refusal()
}

// tolerateRoot is like tolerate, but gives the note the position of the root element.
func (d *Decoder) tolerateRoot(n Note) {
	n.Line, n.Column = d.rootLine, d.rootColumn
	d.tolerate(n)
}

// ruleHere returns one of two ids of rules: dlib if the document is in a dialect of D-Lib
// Magazine, and otherwise rule.
func (d *Decoder) ruleHere(rule, dlib string) string {
	if d.header.Dialect.isDLib() {
		return dlib
	}
	return rule
}

// cantRead records that an attribute is present but could not be read, so that no later
// check reports that the attribute is missing.
func (d *Decoder) cantRead(name string) {
	switch {
	case d.inside:
		d.badChange = d.badChange || name == "change"
	case !d.cannot(name):
		d.unread = append(d.unread, name)
	}
}

func (d *Decoder) cannot(name string) bool { return slices.Contains(d.unread, name) }

// checkTimes compares the times in the rs:md of the root with those that a document of
// this kind must or must not have (1.1 Appendix A), and sends notes. It ignores drafts,
// because their documents have other times.
func (d *Decoder) checkTimes() {
	h := &d.header
	if h.Dialect > Dialect10 {
		return
	}
	book := ruleBookOf(h)
	for _, a := range []struct {
		name     string
		value    Datetime
		of       demand
		required bool
	}{
		{"at", h.At, isSnapshot, true},
		{"completed", h.Completed, isSnapshot, false},
		{"from", h.From, isOfChanges, true},
		{"until", h.Until, isOfChanges, false},
	} {
		n := Note{Quirk: QuirkMoment}
		switch {
		case book.need&a.of != 0:
			if a.value.IsZero() && a.required && !d.cannot(a.name) {
				n.Rule, n.Msg = book.kind+"-"+a.name+"-required", fmt.Sprintf("the root has no %s", a.name)
				d.tolerateRoot(n)
			}
		case a.value.IsZero():
		case book.need&(isSnapshot|isOfChanges) != 0:
			n.Rule, n.Msg = "root-"+a.name+"-scope", fmt.Sprintf("documents of this kind must not have the attribute %s", a.name)
			d.tolerateRoot(n)
		case book.need&knownKind != 0:
			n.Rule, n.Msg, n.Legal = "root-time-attrs-undefined", fmt.Sprintf("the attribute %s is not defined for documents of this kind", a.name), true
			d.tolerateRoot(n)
		}
	}
}

func (in *entryReader) checkEntry(start *element) {
	d, e := in.d, in.e
	n := Note{Line: start.line, Column: start.column}
	if d.header.listsChanges() && e.Change == "" && !d.badChange {
		n.Quirk, n.Rule, n.Msg = QuirkNoChange, in.ruleOfChange(), "the entry has no change, so it is unknown what happened to the resource"
		d.tolerate(n)
	}
	if e.Capability != "" && e.Capability == d.header.Capability && d.header.Root == URLSet {
		n.Quirk, n.Rule, n.Msg = QuirkNested, "", fmt.Sprintf("the entry has the capability of the document, %q", clip(string(e.Capability)))
		d.remark(n)
	}
	if d.header.Dialect.isDLib() {
		in.checkDLib(n)
	}
}

// ruleOfChange returns the id of the rule that requires the "change" attribute of an entry.
func (in *entryReader) ruleOfChange() string {
	kind := string(in.d.header.Capability)
	switch {
	case in.d.header.Dialect.isDLib() && in.d.header.Capability == CapabilityChangeList:
		return "dlib-changelist-change-required"
	case in.d.form == formSitemap && !in.hasMD:
		return kind + "-entry-md-required"
	}
	return kind + "-change-required"
}

// checkDLib checks an entry by the rules of D-Lib Magazine 2013 that later editions of the
// standard do not have.
func (in *entryReader) checkDLib(n Note) {
	d, e := in.d, in.e
	n.Quirk = QuirkDialect
	switch d.header.Capability {
	case CapabilityChangeList:
		if d.header.listsChanges() && e.LastMod.IsZero() && e.Metadata.Datetime.IsZero() {
			n.Rule, n.Msg = "dlib-changelist-lastmod-required", "the entry has no lastmod, so it is unknown when the change happened"
			d.tolerate(n)
		}
	case CapabilityResourceDumpManifest, CapabilityChangeDumpManifest:
		if d.header.Root == URLSet && e.Path == "" && e.Change != Deleted && e.Link(RelPatch) == "" {
			n.Rule, n.Msg = "dlib-manifest-path-required", "the entry has no path, so it is unknown where the bytes are"
			d.tolerate(n)
		}
	}
}

package resourcesync

import (
	"fmt"
	"slices"
)

// This file contains the checks that need the end of an entry or of the document.

// largest is the maximum size of a document (1.1 §7), in the larger of the two
// meanings of 50 MB. An Encoder uses the smaller.
const largest = 50 << 20

// finish handles the end of the document.
func (d *Decoder) finish() error {
	d.state = ended
	d.settleUps()
	if size := d.s.base + int64(d.s.pos); size > largest {
		d.tolerateRoot(Note{Rule: "limit-50mb", Msg: fmt.Sprintf("the document has %d bytes; expected %d at most", size, largest)})
	}
	if d.as == DialectDLib && d.header.Dialect != DialectDLib {
		d.tolerateRoot(Note{Rule: "dlib-namespace", Msg: "no element in the ResourceSync namespace of D-Lib Magazine 2013"})
	}
	switch {
	case !d.hasMD:
		if d.related {
			d.tolerateRoot(Note{Rule: d.ruleHere("root-md-required", "dlib-root-md-capability"), Msg: "no rs:md in the root: what the document is for is not known"})
		}
	case d.header.Capability != "":
		d.checkTimes()
	case !d.cannot("capability"):
		d.tolerateRoot(Note{Rule: d.ruleHere("root-capability-required", "dlib-root-md-capability"), Msg: "no capability: what the document is for is not known"})
	}
	if d.header.Dialect == DialectDLib && !d.hasTop && d.header.Capability != CapabilityCapabilityList {
		d.tolerateRoot(Note{Rule: "dlib-top-link", Legal: true, Msg: "no link top to the Capability List"})
	}
	return d.verdict()
}

// tolerateRoot is like tolerate, for the root element.
func (d *Decoder) tolerateRoot(n Note) {
	n.Line, n.Column = d.rootLine, d.rootColumn
	d.tolerate(n)
}

// ruleHere returns the id of a rule for the edition of the document.
func (d *Decoder) ruleHere(rule, dlib string) string {
	if d.header.Dialect.isDLib() {
		return dlib
	}
	return rule
}

// cantRead records that an attribute is present although it counts as absent.
func (d *Decoder) cantRead(name string) {
	switch {
	case d.inside:
		d.badChange = d.badChange || name == "change"
	case !d.cannot(name):
		d.unread = append(d.unread, name)
	}
}

func (d *Decoder) cannot(name string) bool { return slices.Contains(d.unread, name) }

// checkTimes notes the times that the rs:md of the root lacks, and those that a
// document of its kind must not have (1.1 Appendix A). Drafts had other times.
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
				n.Rule, n.Msg = book.kind+"-"+a.name+"-required", "no "+a.name
				d.tolerateRoot(n)
			}
		case a.value.IsZero():
		case book.need&(isSnapshot|isOfChanges) != 0:
			n.Rule, n.Msg = "root-"+a.name+"-scope", a.name+" has no place in this kind of document"
			d.tolerateRoot(n)
		case book.need&knownKind != 0:
			n.Rule, n.Msg, n.Legal = "root-time-attrs-undefined", a.name+" is not defined for this kind of document", true
			d.tolerateRoot(n)
		}
	}
}

// checkEntry notes missing and misplaced parts of the entry with the given start tag.
func (in *entryReader) checkEntry(start *element) {
	d, e := in.d, in.e
	n := Note{Line: start.line, Column: start.column}
	if d.header.listsChanges() && e.Change == "" && !d.badChange {
		n.Quirk, n.Rule, n.Msg = QuirkNoChange, in.ruleOfChange(), "no change: what happened to the resource is not known"
		d.tolerate(n)
	}
	if e.Capability != "" && e.Capability == d.header.Capability && d.header.Root == URLSet {
		n.Quirk, n.Rule, n.Msg = QuirkNested, "", fmt.Sprintf("an entry of capability %q, as the document itself", clip(string(e.Capability)))
		d.remark(n)
	}
	if d.header.Dialect.isDLib() {
		in.checkDLib(n)
	}
}

// ruleOfChange returns the id of the rule that an entry without change breaks.
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

// checkDLib checks what only D-Lib Magazine 2013 requires.
func (in *entryReader) checkDLib(n Note) {
	d, e := in.d, in.e
	n.Quirk = QuirkDialect
	switch d.header.Capability {
	case CapabilityChangeList:
		if d.header.listsChanges() && e.LastMod.IsZero() && e.Metadata.Datetime.IsZero() {
			n.Rule, n.Msg = "dlib-changelist-lastmod-required", "no lastmod: when the change happened is not known"
			d.tolerate(n)
		}
	case CapabilityResourceDumpManifest, CapabilityChangeDumpManifest:
		if d.header.Root == URLSet && e.Path == "" && e.Change != Deleted && e.Link(RelPatch) == "" {
			n.Rule, n.Msg = "dlib-manifest-path-required", "no path: where the bytes are is not known"
			d.tolerate(n)
		}
	}
}

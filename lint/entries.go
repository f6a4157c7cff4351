package lint

import (
	"fmt"
	"strings"

	"instep/resourcesync"
)

func entryMetadata(r *run, rule *Rule, e *entry) {
	if !e.hasMD {
		r.atEntry(rule, e, "the entry has no rs:md")
	}
}

func entryCapability(r *run, rule *Rule, e *entry) {
	if e.hasMD && e.Capability == "" {
		r.atEntry(rule, e, "the rs:md of the entry has no capability")
	}
}

// notACapability checks that a Capability List has no entries for Source Descriptions,
// Capability Lists or manifests, which are not capabilities of a set (1.1 §9).
func notACapability(r *run, rule *Rule, e *entry) {
	switch e.Capability {
	case resourcesync.CapabilityDescription, resourcesync.CapabilityCapabilityList,
		resourcesync.CapabilityResourceDumpManifest, resourcesync.CapabilityChangeDumpManifest:
		r.atEntry(rule, e, "%q is no capability of a set of resources", e.Capability)
	}
}

func oneEntryPerCapability(r *run, rule *Rule) steps {
	archives := rule.ID == "archives-one-entry-per-capability"
	return findRepeated(func(e *entry) string {
		if archives && !strings.HasSuffix(string(e.Capability), "-archive") {
			return ""
		}
		return string(e.Capability)
	}, func(e *entry, first int) {
		r.atEntry(rule, e, "a second entry with capability=%q; the first is in line %d", e.Capability, first)
	})
}

// findRepeated calls the function report for each entry with the same text as an earlier
// entry, and passes the line of the earliest one. Entries whose text is "" are skipped.
func findRepeated(text func(*entry) string, report func(e *entry, first int)) steps {
	k, lines := newKeys(), make(map[key]int)
	return steps{entry: func(e *entry) {
		s := text(e)
		if s == "" {
			return
		}
		hash := k.hash(s)
		if line, ok := lines[hash]; ok {
			report(e, line)
			return
		}
		lines[hash] = e.Line
	}}
}

func entryDescribedBy(r *run, rule *Rule, e *entry) {
	if e.Link(resourcesync.RelDescribedBy) == "" {
		r.atEntry(rule, e, "the entry has no rs:ln rel=\"describedby\"")
	}
}

// entryAttribute checks that entries of dumps and indexes have the recommended attributes
// (1.1 §11.1, §12.2, §13.1, App. A). An entry without rs:md gets only one finding.
func entryAttribute(r *run, rule *Rule) steps {
	name := strings.TrimSuffix(rule.ID[strings.LastIndex(rule.ID, "entry-")+len("entry-"):], "-recommended")
	return steps{entry: func(e *entry) {
		switch {
		case name == "md":
			if !e.hasMD {
				r.atEntry(rule, e, "the entry has no rs:md")
			}
		case e.hasMD && lacks(e, name):
			r.atEntry(rule, e, "the rs:md of the entry has no %s", name)
		}
	}}
}

// lacks reports whether the rs:md of the entry lacks an attribute. An attribute with an
// invalid value is not missing.
func lacks(e *entry, name string) bool {
	switch name {
	case "type":
		return e.Type == "" && !e.hasNote("type-media-type-syntax")
	case "length":
		return !e.Length.Known() && !e.hasNote("length-integer")
	case "from":
		return e.From.IsZero() && !e.hasNote("from-w3cdtf")
	case "path":
		return e.Path == "" && !e.hasNote("path-leading-slash", "path-no-traversal")
	case "change":
		return e.Change == "" && !e.hasNote("change-values")
	}
	return false
}

// typeRecommended checks that bitstreams (1.1 §11.2, §13.2) and links to alternate
// representations (1.1 §14.3) have a media type.
func typeRecommended(r *run, rule *Rule) steps {
	if rule.ID == "ln-alternate-type-recommended" {
		return eachLink(func(e *entry, l *resourcesync.Link) {
			if l.Rel == resourcesync.RelAlternate && l.Type == "" && !e.hasNote("type-media-type-syntax") {
				r.atEntry(rule, e, "the link to the alternate %q has no type", l.Href)
			}
		})
	}
	return steps{entry: func(e *entry) {
		if e.hasMD && e.Change != resourcesync.Deleted && lacks(e, "type") {
			r.atEntry(rule, e, "the rs:md of the entry has no type")
		}
	}}
}

// pathRequired checks that an entry of a manifest has the path of its bitstream in the
// package, unless the resource was deleted. It accepts an entry for a patch in a document
// of the proposal of 2013, since the Decoder reads the patch as a link.
func pathRequired(r *run, rule *Rule, e *entry) {
	if e.hasMD && e.Change != resourcesync.Deleted && lacks(e, "path") && !hasPatch(e) {
		r.atEntry(rule, e, "the rs:md of the entry has no path")
	}
}

func hasPatch(e *entry) bool {
	for i := range e.Links {
		if e.Links[i].Rel == resourcesync.RelPatch && e.Links[i].Path != "" && e.Links[i].Href == e.Loc {
			return true
		}
	}
	return false
}

// changeRequired checks that an entry in a document of changes has the attribute "change"
// (1.1 §12.1, §13.2). In a document of the proposal of 2013, an entry without rs:md is
// reported too, since no other rule of the proposal concerns it.
func changeRequired(r *run, rule *Rule, e *entry) {
	if (e.hasMD || rule.Version == string(ProfileDLib)) && lacks(e, "change") {
		r.atEntry(rule, e, "the rs:md of the entry has no change")
	}
}

// lastmodRequired checks that an entry has lastmod where editions before 1.1 require
// it: as the time of a change (1.0 §12.1), and if it links to versions (1.0 §14.6). In
// documents of the proposal of 2013 it accepts a datetime instead, because the Decoder
// reads their lastmod as the datetime.
func lastmodRequired(r *run, rule *Rule, e *entry) {
	if !e.LastMod.IsZero() || e.hasNote("lastmod-w3cdtf") {
		return
	}
	switch rule.ID {
	case "memento-lastmod-required":
		if e.Link(resourcesync.RelMemento) == "" && e.Link(resourcesync.RelTimeGate) == "" && e.Link(resourcesync.RelTimeMap) == "" {
			return
		}
	case "dlib-changelist-lastmod-required":
		if !e.Datetime.IsZero() {
			return
		}
	}
	r.atEntry(rule, e, "the entry has no lastmod")
}

// lastmodOmit checks that an entry for another document has no lastmod (1.1 §8, §9,
// Archives §3.1).
func lastmodOmit(r *run, rule *Rule, e *entry) {
	if !e.LastMod.IsZero() {
		r.atEntry(rule, e, "the entry has lastmod %s, which is right only if this document is updated at every change of the listed document", e.LastMod)
	}
}

// auditable checks that each entry has a time, length or hash, because an audit compares
// these (1.1 §5.2). It makes a single finding for the whole document.
func auditable(r *run, rule *Rule) steps {
	return countEntries(r, rule, " without lastmod, length and hash: an audit can only see that the resource is there", func(e *entry) bool {
		return e.LastMod.IsZero() && !e.Length.Known() && len(e.Digests) == 0 && e.Change != resourcesync.Deleted
	})
}

// countEntries makes a single finding about all entries that break the rule, with the line
// of the first such entry.
func countEntries(r *run, rule *Rule, message string, fails func(*entry) bool) steps {
	var n, first int
	return steps{
		entry: func(e *entry) {
			if fails(e) {
				if n++; n == 1 {
					first = e.Line
				}
			}
		},
		end: func() {
			switch {
			case n == 1:
				r.report(rule, Finding{Line: first, Message: "1 entry" + message})
			case n > 1:
				r.report(rule, Finding{Line: first, Message: fmt.Sprintf("%d entries%s", n, message)})
			}
		},
	}
}

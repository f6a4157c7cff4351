package lint

import (
	"slices"

	"instep/resourcesync"
)

func eachLink(f func(*entry, *resourcesync.Link)) steps {
	return steps{entry: func(e *entry) {
		for i := range e.Links {
			f(e, &e.Links[i])
		}
	}}
}

// relation checks that rel is a single registered relation type or an absolute URI (1.1
// §7).
func relation(r *run, rule *Rule) steps {
	const message = "rel %q is neither a registered relation type nor an absolute URI"
	s := eachLink(func(e *entry, l *resourcesync.Link) {
		if !resourcesync.IsRelation(l.Rel) {
			r.atEntry(rule, e, message, l.Rel)
		}
	})
	s.end = func() {
		for i := range r.header.Links {
			if rel := r.header.Links[i].Rel; !resourcesync.IsRelation(rel) {
				r.atRoot(rule, message, rel)
			}
		}
	}
	return s
}

// duplicateAttributes checks that links to mirrors (rel="duplicate") do not repeat
// attributes of rs:md, since those describe the mirrored copy as well (1.1 §14.2).
func duplicateAttributes(r *run, rule *Rule, e *entry, l *resourcesync.Link) {
	if l.Rel == resourcesync.RelDuplicate && (len(l.Digests) > 0 || l.Length.Known() || l.Type != "" || l.Encoding != "") {
		r.atEntry(rule, e, "the duplicate %q repeats hash, length, type or encoding", l.Href)
	}
}

func patchType(r *run, rule *Rule, e *entry, l *resourcesync.Link) {
	if l.Rel == resourcesync.RelPatch && l.Type == "" && !e.hasNote("type-media-type-syntax") {
		r.atEntry(rule, e, "the patch %q has no type", l.Href)
	}
}

func patchScope(r *run, rule *Rule) steps {
	if r.readKind == "" || listsChanges(r.readKind) {
		return steps{}
	}
	const message = "the patch %q is linked in a document that lists no changes of resources"
	s := eachLink(func(e *entry, l *resourcesync.Link) {
		if l.Rel == resourcesync.RelPatch {
			r.atEntry(rule, e, message, l.Href)
		}
	})
	s.end = func() {
		if href := r.header.Link(resourcesync.RelPatch); href != "" {
			r.atRoot(rule, message, href)
		}
	}
	return s
}

func patchPath(r *run, rule *Rule, e *entry, l *resourcesync.Link) {
	if l.Rel == resourcesync.RelPatch && l.Path == "" && !e.hasNote("path-leading-slash", "path-no-traversal") {
		r.atEntry(rule, e, "the patch %q has no path in the package", l.Href)
	}
}

// singleLink checks that an entry has at most one link to the version that its last
// modification produced (1.1 §14.6), and at most one link to its origin (1.1 §14.8).
func singleLink(r *run, rule *Rule, e *entry) {
	rel := resourcesync.RelMemento
	if rule.ID == "ln-via-keep-only-existing" {
		rel = resourcesync.RelVia
	}
	if n := countLinks(e.Links, rel); n > 1 {
		r.atEntry(rule, e, "the entry has %d links with rel=%q; expected one", n, rel)
	}
}

// mementoOfLastmod checks that a linked version (rel="memento") has the time that
// lastmod of the entry gives (1.1 §14.6).
func mementoOfLastmod(r *run, rule *Rule, e *entry, l *resourcesync.Link) {
	if l.Rel == resourcesync.RelMemento && (l.Modified.Before(e.LastMod) || l.Modified.After(e.LastMod)) {
		r.atEntry(rule, e, "the memento is of %s and lastmod is %s", l.Modified, e.LastMod)
	}
}

// timegateAttributes checks that links to TimeGates have no attributes that describe
// bytes, since a TimeGate has no bytes of its own (1.1 §14.6).
func timegateAttributes(r *run, rule *Rule, e *entry, l *resourcesync.Link) {
	if l.Rel == resourcesync.RelTimeGate && (hasRepresentation(l) || !l.Modified.IsZero() || l.Pri != 0 || hasMetadata(l)) {
		r.atEntry(rule, e, "the timegate link has attributes besides rel and href")
	}
}

// hasMetadata reports whether the link has attributes that only an rs:md may have.
func hasMetadata(l *resourcesync.Link) bool {
	return slices.ContainsFunc(l.Attrs, func(a resourcesync.Attr) bool {
		return a.Space == "" && slices.Contains([]string{"at", "capability", "change", "completed", "datetime", "from", "until"}, a.Name)
	})
}

// hasRepresentation reports whether the link has attributes that describe the bytes of
// its target.
func hasRepresentation(l *resourcesync.Link) bool {
	return len(l.Digests) > 0 || l.Length.Known() || l.Type != "" || l.Encoding != "" || l.Path != ""
}

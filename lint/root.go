package lint

import (
	"fmt"
	"strings"

	"instep/resourcesync"
)

func rootMetadata(r *run, rule *Rule) {
	if !r.seen.Metadata && !r.isSitemap() {
		r.atRoot(rule, "the root has no rs:md, so that nothing says what the document is for")
	}
}

func rootCapability(r *run, rule *Rule) {
	if r.seen.Metadata && r.header.Capability == "" {
		r.atRoot(rule, "the rs:md of the root has no capability")
	}
}

// capabilityValue checks that the capability is the right one for the kind of the document.
// The kind is known from another document, or from a capability in which only upper and
// lower case are wrong.
func capabilityValue(r *run, rule *Rule) steps {
	if rule.ID == "description-entry-capability-value" {
		return steps{entry: func(e *entry) { descriptionEntry(r, rule, e) }}
	}
	want := resourcesync.Capability(strings.TrimSuffix(r.readKind, "-index"))
	return steps{end: func() {
		switch got := r.header.Capability; {
		case got == want && !r.noted["root-capability-case"]:
		case got == want:
			r.atRoot(rule, "expected capability=%q in exactly this spelling", want)
		case got != "":
			r.atRoot(rule, "expected capability=%q here, it is %q", want, got)
		}
	}}
}

// descriptionEntry checks that a Source Description lists Capability Lists (1.1 §8).
func descriptionEntry(r *run, rule *Rule, e *entry) {
	const want = resourcesync.CapabilityCapabilityList
	switch {
	case !e.hasMD:
	case e.Capability == "":
		r.atEntry(rule, e, "expected capability=%q on the rs:md of the entry, it has none", want)
	case e.Capability != want:
		r.atEntry(rule, e, "expected capability=%q on the rs:md of the entry, it is %q", want, e.Capability)
	case e.hasNote("entry-capability-case"):
		r.atEntry(rule, e, "expected capability=%q in exactly this spelling", want)
	}
}

// archiveCapability checks that the capabilities of archives are written as in Archives
// §2.1.
func archiveCapability(r *run, rule *Rule) steps {
	return steps{
		entry: func(e *entry) {
			if want := misspelledArchive(e.Capability); want != "" && r.readKind == "capabilitylist" {
				r.atEntry(rule, e, "capability %q: expected %q", e.Capability, want)
			}
		},
		end: func() {
			if want := misspelledArchive(r.header.Capability); want != "" {
				r.atRoot(rule, "capability %q: expected %q", r.header.Capability, want)
			}
		},
	}
}

func misspelledArchive(c resourcesync.Capability) resourcesync.Capability {
	if c == "" || c.Known() {
		return ""
	}
	squeeze := func(c resourcesync.Capability) string {
		return strings.NewReplacer("-", "", "_", "", " ", "", ".", "").Replace(strings.ToLower(string(c)))
	}
	got := strings.TrimSuffix(strings.Replace(squeeze(c), "archives", "archive", 1), "index")
	for _, want := range []resourcesync.Capability{
		resourcesync.CapabilityResourceListArchive, resourcesync.CapabilityResourceDumpArchive,
		resourcesync.CapabilityChangeListArchive, resourcesync.CapabilityChangeDumpArchive,
	} {
		if got == squeeze(want) {
			return want
		}
	}
	return ""
}

// rootTimeRequired checks that the root of a snapshot has the attribute "at", and that the
// root of a document of changes has "from" (1.1 App. A).
func rootTimeRequired(r *run, rule *Rule) {
	name, value := "at", r.header.At
	if rule.Family == "from-required" {
		name, value = "from", r.header.From
	}
	if value.IsZero() && r.seen.Metadata && !r.noted[name+"-w3cdtf"] {
		r.atRoot(rule, "the rs:md of the root has no %s", name)
	}
}

// rootHas reports whether the root has an attribute, even if its value is invalid.
func (r *run) rootHas(t namedTime) bool { return !t.value.IsZero() || r.noted[t.name+"-w3cdtf"] }

type namedTime struct {
	name  string
	value resourcesync.Datetime
}

func (t namedTime) String() string {
	if t.value.IsZero() {
		return t.name
	}
	return fmt.Sprintf("%s=%q", t.name, t.value)
}

func timesOf(m *resourcesync.Metadata) [4]namedTime {
	return [4]namedTime{{"at", m.At}, {"completed", m.Completed}, {"from", m.From}, {"until", m.Until}}
}

// rootTimeScope checks that only snapshots have the attributes "at" and "completed", and
// that only documents of changes have "from" and "until" (1.1 §7, App. A Table 4).
func rootTimeScope(r *run, rule *Rule) {
	for _, t := range timesOf(&r.header.Metadata) {
		if rule.ID == "root-"+t.name+"-scope" && r.rootHas(t) {
			r.atRoot(rule, "the root has %s, which documents of this kind do not have", t)
		}
	}
}

// rootTimeUndefined checks that the root has no attribute that states a time, if the
// standard defines no such attribute for this kind of document.
func rootTimeUndefined(r *run, rule *Rule) {
	for _, t := range timesOf(&r.header.Metadata) {
		if r.rootHas(t) {
			r.atRoot(rule, "the root has %s, which means nothing in documents of this kind", t)
		}
	}
}

// noSuchIndex makes a finding for every document that it checks. Its rules are only about
// kinds of documents that should not exist: indexes of manifests (1.1 §11.2, §13.2) and of
// Capability Lists (1.1 §9).
func noSuchIndex(r *run, rule *Rule) {
	r.atRoot(rule, "the root is sitemapindex; expected urlset for capability %q", r.header.Capability)
}

// upRequired checks that the root links to the document above it (1.1 §6.2). In the
// proposal of 2013 the relation of that link is "top", and not "up".
func upRequired(r *run, rule *Rule) {
	if r.header.Link(resourcesync.RelUp) != "" {
		return
	}
	rel, where := resourcesync.RelUp, "Capability List"
	if rule.ID == "dlib-top-link" {
		rel = "top"
	} else if r.readKind == "capabilitylist" {
		where = "Source Description"
	}
	r.atRoot(rule, "the root has no rs:ln rel=%q to the %s", rel, where)
}

func upSingle(r *run, rule *Rule) {
	if n := countLinks(r.header.Links, resourcesync.RelUp); n > 1 {
		r.atRoot(rule, "the root has %d links with rel=\"up\"; expected one", n)
	}
}

func countLinks(links []resourcesync.Link, rel string) int {
	n := 0
	for i := range links {
		if links[i].Rel == rel {
			n++
		}
	}
	return n
}

// indexOnIndex checks that an index does not link to a further index, since only parts
// of a list may link to an index (1.1 §6.2).
func indexOnIndex(r *run, rule *Rule) {
	if href := r.header.Link(resourcesync.RelIndex); href != "" {
		r.atRoot(rule, "an index links to a further index, %q", href)
	}
}

// rootDescribedBy checks that the documents of Sources and sets link to descriptions
// for people (1.1 §8, §9).
func rootDescribedBy(r *run, rule *Rule) {
	if r.header.Link(resourcesync.RelDescribedBy) == "" {
		r.atRoot(rule, "the root has no rs:ln rel=\"describedby\"")
	}
}

// dlibNamespace checks that a document of the proposal of 2013 uses the namespace that
// the proposal defines.
func dlibNamespace(r *run, rule *Rule) {
	if !inDLibNamespace(r.header.Dialect) && (r.seen.Metadata || len(r.header.Links) > 0) {
		r.atRoot(rule, "rs:md and rs:ln are not in namespace http://www.openarchives.org/rs/")
	}
}

// dlibCapability checks that the root of a document of the proposal of 2013 has a
// capability, as the root must have in 1.1.
func dlibCapability(r *run, rule *Rule) {
	switch {
	case !r.seen.Metadata && r.isSitemap():
	case !r.seen.Metadata:
		r.atRoot(rule, "the root has no rs:md")
	case r.header.Capability == "":
		r.atRoot(rule, "the rs:md of the root has no capability")
	}
}

// dlibModified checks that the root of a document of the proposal of 2013 has the time
// at which the document was written. In snapshots the Decoder reads that time as the
// attribute "at".
func dlibModified(r *run, rule *Rule) {
	if !r.seen.Metadata || !r.header.At.IsZero() {
		return
	}
	for _, a := range r.header.Attrs {
		if a.Space == "" && a.Name == "modified" {
			return
		}
	}
	r.atRoot(rule, "the rs:md of the root has no modified")
}

package lint

import (
	"strings"
)

// datetimeIn10 checks that a document of edition 1.0 has no datetime, which 1.0 does
// not define.
func datetimeIn10(r *run, rule *Rule, e *entry) {
	in10 := r.profile == Profile10 || r.profile == ProfileArchives
	if in10 && (!e.Datetime.IsZero() || e.hasNote("datetime-w3cdtf")) {
		r.atEntry(rule, e, "the entry has a datetime, which only edition 1.1 defines")
	}
}

// table3 checks that the root has no attributes that Table 3 of the standard allows only in
// entries (1.1 §7). The Decoder itself sends notes about unknown attributes.
func table3(r *run, rule *Rule) {
	switch rule.ID {
	case "table3-root-md":
		if names := r.header.EntryAttributes(); len(names) > 0 {
			r.atRoot(rule, "the rs:md of the root has %s, which Table 3 lists for entries", strings.Join(names, ", "))
		}
	case "table3-root-ln":
		for i := range r.header.Links {
			if l := &r.header.Links[i]; hasRepresentation(l) || !l.Modified.IsZero() || l.Pri != 0 {
				r.atRoot(rule, "the link %q of the root has attributes besides rel and href", l.Rel)
			}
		}
	}
}

// typeRegistered makes a finding for a media type that begins with x-, because such types
// are for private use and not registered.
func typeRegistered(r *run, rule *Rule, e *entry) {
	const message = "media type %q is not registered with IANA"
	if isPrivateType(e.Type) {
		r.atEntry(rule, e, message, e.Type)
	}
	for i := range e.Links {
		if l := &e.Links[i]; isPrivateType(l.Type) {
			r.atEntry(rule, e, message, l.Type)
		}
	}
}

func isPrivateType(mediaType string) bool {
	top, sub, _ := strings.Cut(mediaType, "/")
	return isPrivateName(top) || isPrivateName(sub)
}

func isPrivateName(s string) bool {
	return len(s) > 2 && (s[0] == 'x' || s[0] == 'X') && (s[1] == '-' || s[1] == '.')
}

// pathScope checks that the attribute "path", the path of a file in a package, occurs only
// in manifests (1.1 §7).
func pathScope(r *run, rule *Rule, e *entry) {
	if r.readKind == "" || isManifest(r.readKind) {
		return
	}
	if e.Path != "" {
		r.atEntry(rule, e, "the entry has path=%q, but the document is not a manifest", e.Path)
	}
	for i := range e.Links {
		if l := &e.Links[i]; l.Path != "" {
			r.atEntry(rule, e, "the link %q has path=%q, but the document is not a manifest", l.Rel, l.Path)
		}
	}
}

// pathUnique checks that no two entries of a manifest have the same path in the package,
// unless they state the same length and digest (1.1 §13.2).
func pathUnique(r *run, rule *Rule) steps {
	type place struct {
		bytes key // a hash of the stated length and digest; zero if the entry does not state both
		line  int
	}
	k, places := newKeys(), make(map[key]place)
	return steps{entry: func(e *entry) {
		if e.Path == "" {
			return
		}
		here := place{line: e.Line}
		if digest := e.Digests.Strongest(); !digest.IsZero() && e.Length.Known() {
			length, _ := e.Length.MarshalText()
			here.bytes = k.hash(digest.String() + " " + string(length))
		}
		path := k.hash(e.Path)
		first, ok := places[path]
		switch {
		case !ok:
			places[path] = here
		case first.bytes == key{} || first.bytes != here.bytes:
			r.atEntry(rule, e, "path %q also occurs in the entry in line %d", e.Path, first.line)
		}
	}}
}

// changeScope checks that the attributes "change" and "datetime" occur only in documents
// that list changes (1.1 §7).
func changeScope(r *run, rule *Rule, e *entry) {
	switch {
	case r.readKind == "" || listsChanges(r.readKind):
	case rule.ID == "change-scope" && e.Change != "":
		r.atEntry(rule, e, "the entry has change=%q, but the document does not list changes", e.Change)
	case rule.ID == "datetime-scope" && !e.Datetime.IsZero():
		r.atEntry(rule, e, "the entry has datetime=%q, but the document does not list changes", e.Datetime)
	}
}

const zipType = "application/zip"

func packageType(r *run, rule *Rule, e *entry) {
	if e.Type != "" && essence(e.Type) != zipType {
		r.atEntry(rule, e, "the package is of type %q; expected %s", e.Type, zipType)
	}
}

func samePackageType(r *run, rule *Rule) steps {
	var first string
	var line int
	return steps{entry: func(e *entry) {
		switch t := essence(e.Type); {
		case t == "":
		case first == "":
			first, line = t, e.Line
		case t != first:
			r.atEntry(rule, e, "the package is of type %q, but the package in line %d is of type %q", t, line, first)
		}
	}}
}

// essence returns a media type in lower case and without its parameters.
func essence(mediaType string) string {
	t, _, _ := strings.Cut(mediaType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

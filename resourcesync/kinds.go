package resourcesync

import (
	"cmp"
	"fmt"
)

// EncodeError is the error of an Encoder for a value that cannot be written.
type EncodeError struct {
	Field string // name of the attribute or element, such as "loc"
	Value string // the value, perhaps shortened; "" if the value is missing
	Rule  string // id of the broken rule, as used by package lint; may be ""
	Msg   string // what was expected
}

func (e *EncodeError) Error() string {
	s := fmt.Sprintf("%s %q: %s", e.Field, e.Value, e.Msg)
	if e.Rule != "" {
		s += " (" + e.Rule + ")"
	}
	return s
}

type demand uint16

const (
	knownKind       demand = 1 << iota // the standard defines this kind of document
	noIndex                            // the standard has no index of this kind of document
	needsUp                            // the root must have a link with rel="up"
	isSnapshot                         // a snapshot: the root must have the attribute "at", and neither "from" nor "until"
	isOfChanges                        // a list of changes: the root must have the attribute "from", and neither "at" nor "completed"
	entriesHaveAt                      // entries may have the attributes "at" and "completed"
	entriesHaveFrom                    // entries may have the attributes "from" and "until"
	needsCapability                    // each entry must have a capability
	listsSets                          // the capability of an entry, if any, must be "capabilitylist"
	needsChange                        // each entry must have the attribute "change", and may link to patches
	needsPath                          // each entry except a deletion must have the attribute "path", and links may have it
)

const (
	snapshotKind = knownKind | needsUp | isSnapshot
	changeKind   = knownKind | needsUp | isOfChanges
	archiveOfAt  = knownKind | needsUp | entriesHaveAt
	archiveOfIn  = knownKind | needsUp | entriesHaveFrom
)

// demands has the requirements for each capability: first for a urlset, then for a
// sitemapindex (1.1 §8 to §13, Appendix A, Archives §3 to §6).
var demands = map[Capability][2]demand{
	CapabilityDescription:          {knownKind | listsSets, knownKind},
	CapabilityCapabilityList:       {knownKind | needsUp | needsCapability, 0},
	CapabilityResourceList:         {snapshotKind, snapshotKind | entriesHaveAt},
	CapabilityResourceDump:         {snapshotKind | entriesHaveAt, snapshotKind | entriesHaveAt},
	CapabilityResourceDumpManifest: {snapshotKind | needsPath, noIndex},
	CapabilityChangeList:           {changeKind | needsChange, changeKind | entriesHaveFrom},
	CapabilityChangeDump:           {changeKind | entriesHaveFrom, changeKind | entriesHaveFrom},
	CapabilityChangeDumpManifest:   {changeKind | needsChange | needsPath, noIndex},
	CapabilityResourceListArchive:  {archiveOfAt, archiveOfAt},
	CapabilityResourceDumpArchive:  {archiveOfAt, archiveOfAt},
	CapabilityChangeListArchive:    {archiveOfIn, archiveOfIn},
	CapabilityChangeDumpArchive:    {archiveOfIn, archiveOfIn},
}

type ruleBook struct {
	need        demand
	kind        string // kind of the document, such as "changelist"; ids of rules for this kind begin with it
	from, until Datetime
}

func ruleBookOf(h *Header) ruleBook {
	r := ruleBook{need: demands[h.Capability][0], kind: string(h.Capability), from: h.From, until: h.Until}
	if h.Root == SitemapIndex {
		r.need, r.kind = demands[h.Capability][1], r.kind+"-index"
	}
	return r
}

func (r *ruleBook) header(h *Header) *EncodeError {
	if r.need&noIndex != 0 {
		return &EncodeError{"capability", string(h.Capability), string(h.Capability) + "-root-urlset", "a manifest is a urlset, never an index"}
	}
	if r.need&needsUp != 0 && h.Link(RelUp) == "" {
		return &EncodeError{"up", "", r.kind + "-up-required", "expected a link with this relation type"}
	}
	var err *EncodeError
	switch {
	case r.need&isSnapshot != 0 && h.At.IsZero():
		return &EncodeError{"at", "", r.kind + "-at-required", "expected the moment of the snapshot"}
	case r.need&isSnapshot != 0:
		err = cmp.Or(misplacedError("from", h.From, "root-from-scope"), misplacedError("until", h.Until, "root-until-scope"))
	case r.need&isOfChanges != 0 && h.From.IsZero():
		return &EncodeError{"from", "", r.kind + "-from-required", "expected the start of the period whose changes are listed"}
	case r.need&isOfChanges != 0:
		err = cmp.Or(misplacedError("at", h.At, "root-at-scope"), misplacedError("completed", h.Completed, "root-completed-scope"))
	}
	return cmp.Or(err, inOrder(&h.Metadata))
}

func (r *ruleBook) entry(e *Entry) *EncodeError {
	if r.need&knownKind == 0 {
		return inOrder(&e.Metadata)
	}
	if err := r.times(&e.Metadata); err != nil {
		return err
	}
	if r.need&(needsCapability|listsSets) != 0 {
		if err := r.capability(&e.Metadata); err != nil {
			return err
		}
	}
	if r.need&needsChange != 0 {
		if err := r.change(e); err != nil {
			return err
		}
	}
	if r.need&needsPath != 0 {
		if e.Path == "" && e.Change != Deleted {
			return r.missingError(&e.Metadata, "path", "expected the path of the bytes in the package")
		}
	} else if e.Path != "" {
		return pathOutOfPlace(e.Path)
	}
	for i := range e.Links {
		if err := r.link(&e.Links[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *ruleBook) times(m *Metadata) *EncodeError {
	var err *EncodeError
	if r.need&entriesHaveAt == 0 {
		const rule = "entry-at-completed-scope"
		err = cmp.Or(misplacedError("at", m.At, rule), misplacedError("completed", m.Completed, rule))
	}
	if r.need&entriesHaveFrom == 0 {
		const rule = "entry-from-until-scope"
		err = cmp.Or(err, misplacedError("from", m.From, rule), misplacedError("until", m.Until, rule))
	}
	return cmp.Or(err, inOrder(m))
}

func (r *ruleBook) capability(m *Metadata) *EncodeError {
	if r.need&needsCapability != 0 {
		if m.Capability == "" {
			return r.missingError(m, "capability", "expected the capability of the listed document")
		}
		return nil
	}
	if m.Capability != CapabilityCapabilityList && !m.isZero() {
		return &EncodeError{"capability", string(m.Capability), r.kind + "-entry-capability-value", "expected capabilitylist in a Source Description"}
	}
	return nil
}

func (r *ruleBook) change(e *Entry) *EncodeError {
	const within = "datetime-within-interval"
	switch {
	case e.Change == "":
		return r.missingError(&e.Metadata, "change", "expected created, updated or deleted")
	case e.Metadata.Datetime.Before(r.from):
		return &EncodeError{"datetime", e.Metadata.Datetime.String(), within, fmt.Sprintf("expected a time not before %s, the start of the document's period", r.from)}
	case e.Metadata.Datetime.After(r.until):
		return &EncodeError{"datetime", e.Metadata.Datetime.String(), within, fmt.Sprintf("expected a time not after %s, the end of the document's period", r.until)}
	}
	return nil
}

func (r *ruleBook) link(l *Link) *EncodeError {
	if l.Path != "" && r.need&needsPath == 0 {
		return pathOutOfPlace(l.Path)
	}
	switch {
	case l.Rel != RelPatch:
		return nil
	case r.need&needsChange == 0:
		return &EncodeError{"rel", l.Rel, "ln-patch-scope", "only changes have patches"}
	case l.Type == "":
		return &EncodeError{"type", "", "ln-patch-type-required", "expected the media type of the patch"}
	case r.need&needsPath != 0 && l.Path == "":
		return &EncodeError{"path", "", "ln-patch-path-required-in-manifest", "expected the path of the patch in the package"}
	}
	return nil
}

// missingError returns the error for an entry without the attribute named field. If the
// entry has no rs:md at all, the error has the id of the rule that requires an rs:md.
func (r *ruleBook) missingError(m *Metadata, field, expected string) *EncodeError {
	rule := r.kind + "-" + field + "-required"
	switch {
	case m.isZero():
		rule = r.kind + "-entry-md-required"
	case field == "capability":
		rule = r.kind + "-entry-capability-required"
	}
	return &EncodeError{field, "", rule, expected}
}

func inOrder(m *Metadata) *EncodeError {
	switch {
	case m.Completed.Before(m.At):
		return &EncodeError{"completed", m.Completed.String(), "completed-not-before-at", fmt.Sprintf(`expected a time not before the attribute "at", %s`, m.At)}
	case m.Until.Before(m.From):
		return &EncodeError{"until", m.Until.String(), "until-not-before-from", fmt.Sprintf(`expected a time not before the attribute "from", %s`, m.From)}
	}
	return nil
}

// misplacedError returns the error for a time that this kind of document must not have,
// or nil if the document does not have the time.
func misplacedError(field string, value Datetime, rule string) *EncodeError {
	if value.IsZero() {
		return nil
	}
	return &EncodeError{field, value.String(), rule, "is not allowed in this kind of document"}
}

func pathOutOfPlace(value string) *EncodeError {
	return &EncodeError{"path", clip(value), "path-scope", "only entries of manifests have a path"}
}

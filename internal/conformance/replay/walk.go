package replay

import (
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Tree contains all sets and documents to which links lead from a Source Description.
type Tree struct {
	Sets      []*Set
	Documents []string // the URIs of documents and packages, in the order in which they were read
}

// Set is a parsed Capability List.
type Set struct {
	CapabilityList string
	Lists, Dumps   []Snapshot // Resource Lists and Resource Dumps, each with the archived ones, oldest first
	Changes        []Interval // Change Lists with the archived ones, oldest first
	ChangeDumps    []Interval

	w *walker
}

// Snapshot is a Resource List or Resource Dump. Parts has the documents that its index lists,
// or the only document.
type Snapshot struct {
	URI   string
	At    time.Time
	Parts []*Document
}

// Interval is a Change List or Change Dump.
type Interval struct {
	*Document
	From, Until time.Time // Until is zero if the document does not state an end
}

// Walk follows all links from a Source Description. It returns an error for an inconsistency,
// such as a link without a target, a wrong capability or a gap between Change Lists.
func Walk(read Reader, description string) (*Tree, error) {
	w := &walker{read: read, tree: &Tree{}, seen: map[string]*Document{}, checked: map[string]bool{}}
	root, err := w.document(description, "description")
	if err != nil {
		return nil, err
	}
	parts, err := w.parts(root)
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		for _, e := range part.URLs {
			set, err := w.set(e.Loc)
			if err != nil {
				return nil, err
			}
			w.tree.Sets = append(w.tree.Sets, set)
		}
	}
	return w.tree, nil
}

type walker struct {
	read    Reader
	tree    *Tree
	seen    map[string]*Document
	checked map[string]bool // the URIs that could be read
}

func (w *walker) bytes(uri string) ([]byte, error) {
	data, err := w.read(uri)
	if err != nil {
		return nil, fmt.Errorf("the target of a link cannot be read: %w", err)
	}
	w.checked[uri] = true
	w.tree.Documents = append(w.tree.Documents, uri)
	return data, nil
}

func (w *walker) document(uri, capability string) (*Document, error) {
	if d := w.seen[uri]; d != nil {
		return d, nil
	}
	data, err := w.bytes(uri)
	if err != nil {
		return nil, err
	}
	d, err := parse(uri, data)
	if err != nil {
		return nil, err
	}
	if d.MD.Capability != capability {
		return nil, fmt.Errorf("%s: capability %q, expected %q", uri, d.MD.Capability, capability)
	}
	w.seen[uri] = d
	for _, l := range d.Links {
		switch l.Rel {
		case "up", "describedby", "index", "archives":
			if err := w.reachable(l.Href); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", uri, l.Rel, err)
			}
		}
	}
	return d, nil
}

func (w *walker) reachable(uri string) error {
	if w.checked[uri] {
		return nil
	}
	_, err := w.bytes(uri)
	return err
}

// parts returns the documents that an index lists. For any other document it returns only
// the document itself.
func (w *walker) parts(d *Document) ([]*Document, error) {
	if !d.isIndex() {
		return []*Document{d}, nil
	}
	var all []*Document
	for _, e := range d.Parts {
		part, err := w.document(e.Loc, d.MD.Capability)
		if err != nil {
			return nil, err
		}
		if part.isIndex() {
			return nil, fmt.Errorf("%s: an index must not be listed in another index", part.URI)
		}
		all = append(all, part)
	}
	return all, nil
}

func (w *walker) set(uri string) (*Set, error) {
	list, err := w.document(uri, "capabilitylist")
	if err != nil {
		return nil, err
	}
	s := &Set{CapabilityList: uri, w: w}
	offered := map[string]string{}
	for _, e := range list.URLs {
		if offered[e.MD.Capability] != "" {
			return nil, fmt.Errorf("%s: capability %s is listed twice", uri, e.MD.Capability)
		}
		offered[e.MD.Capability] = e.Loc
	}
	for _, k := range []struct {
		capability string
		into       *[]Snapshot
	}{{"resourcelist", &s.Lists}, {"resourcedump", &s.Dumps}} {
		if *k.into, err = w.snapshots(offered, k.capability); err != nil {
			return nil, err
		}
	}
	for _, k := range []struct {
		capability string
		into       *[]Interval
	}{{"changelist", &s.Changes}, {"changedump", &s.ChangeDumps}} {
		if *k.into, err = w.intervals(offered, k.capability); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (w *walker) snapshots(offered map[string]string, capability string) ([]Snapshot, error) {
	uris, err := w.archivedURIs(offered[capability+"-archive"], capability)
	if err != nil {
		return nil, err
	}
	if now := offered[capability]; now != "" && !slices.Contains(uris, now) {
		uris = append(uris, now)
	}
	var all []Snapshot
	for _, uri := range uris {
		d, err := w.document(uri, capability)
		if err != nil {
			return nil, err
		}
		parts, err := w.parts(d)
		if err != nil {
			return nil, err
		}
		at, err := time.Parse(time.RFC3339Nano, d.MD.At)
		if err != nil {
			return nil, fmt.Errorf("%s: the attribute \"at\" is %q: %w", uri, d.MD.At, err)
		}
		all = append(all, Snapshot{uri, at, parts})
	}
	slices.SortStableFunc(all, func(a, b Snapshot) int { return a.At.Compare(b.At) })
	return all, nil
}

func (w *walker) archivedURIs(uri, capability string) ([]string, error) {
	if uri == "" {
		return nil, nil
	}
	d, err := w.document(uri, capability+"-archive")
	if err != nil {
		return nil, err
	}
	parts, err := w.parts(d)
	if err != nil {
		return nil, err
	}
	var uris []string
	for _, part := range parts {
		for _, e := range part.URLs {
			if slices.Contains(uris, e.Loc) {
				return nil, fmt.Errorf("%s: %s is archived twice", part.URI, e.Loc)
			}
			uris = append(uris, e.Loc)
		}
	}
	return uris, nil
}

// intervals checks that there is no gap between the lists. A current and an archived document
// for the same interval must have the same entries.
func (w *walker) intervals(offered map[string]string, capability string) ([]Interval, error) {
	uris, err := w.archivedURIs(offered[capability+"-archive"], capability)
	if err != nil {
		return nil, err
	}
	if offered[capability] == "" {
		return nil, nil
	}
	d, err := w.document(offered[capability], capability)
	if err != nil {
		return nil, err
	}
	current, err := w.parts(d)
	if err != nil {
		return nil, err
	}
	if _, err := contiguous(current); err != nil {
		return nil, err
	}
	var all []*Document
	for _, uri := range uris {
		d, err := w.document(uri, capability)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	for _, d := range current {
		i := slices.IndexFunc(all, func(other *Document) bool { return other.MD.From == d.MD.From })
		switch {
		case i < 0:
			all = append(all, d)
		case all[i].MD != d.MD || !reflect.DeepEqual(all[i].URLs, d.URLs):
			return nil, fmt.Errorf("%s and %s begin at the same time, but their entries differ", d.URI, all[i].URI)
		}
	}
	// The lists are sorted, because a current list may be older than all archived ones if
	// archiving began after it.
	slices.SortStableFunc(all, func(a, b *Document) int {
		from, _ := parseDatetime(a.MD.From) // the error is ignored, because contiguous returns it below
		later, _ := parseDatetime(b.MD.From)
		return from.Compare(later)
	})
	return contiguous(all)
}

// contiguous checks that each list begins when the previous one ends. The last list may have
// an end, too, since a publication ends a list before it begins the next one.
func contiguous(docs []*Document) ([]Interval, error) {
	var all []Interval
	for _, d := range docs {
		from, err := time.Parse(time.RFC3339Nano, d.MD.From)
		if err != nil {
			return nil, fmt.Errorf("%s: the attribute \"from\" is %q: %w", d.URI, d.MD.From, err)
		}
		until, err := parseDatetime(d.MD.Until)
		if err != nil {
			return nil, fmt.Errorf("%s: until: %w", d.URI, err)
		}
		if n := len(all); n > 0 && !all[n-1].Until.Equal(from) {
			return nil, fmt.Errorf("there is a gap between two lists: %s ends at %v, but %s begins at %v", all[n-1].URI, all[n-1].Until, d.URI, from)
		}
		all = append(all, Interval{d, from, until})
	}
	return all, nil
}

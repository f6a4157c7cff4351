package discover

import (
	"context"
	"fmt"
	"net/url"
	"path"

	"instep/resourcesync"
)

type capabilityList struct {
	set   Set
	own   bool  // whether the Capability List describes a set; false for an index of Capability Lists
	named []Set // one Set for each linked Capability List, with only URI and description
	none  error // why the document is no Capability List; nil unless the link to the document states an unknown capability
}

// set interprets a document that should be a Capability List (1.1 §9).
func (t *trip) set(ctx context.Context, d *doc) (capabilityList, error) {
	r := capabilityList{set: Set{URI: d.base.String(), Name: setName(d.base), Description: d.header.Link("describedby")}}
	if d.header.Capability == resourcesync.CapabilityCapabilityList {
		t.sortEntries(ctx, d, &r)
	}
	index := d.header.Root == resourcesync.SitemapIndex
	if len(r.named) == 0 || !index {
		if err := d.checkKind(resourcesync.URLSet, resourcesync.CapabilityCapabilityList); err != nil {
			return capabilityList{}, err
		}
	}
	if n := len(r.named); n > 0 {
		t.note(Notice{URI: d.base.String(), Quirk: resourcesync.QuirkNested, Msg: fmt.Sprintf("the document names %d Capability Lists: each is read as a set", n)})
	}
	r.own = !index && (len(r.named) == 0 || len(r.named) < len(d.entries))
	return r, nil
}

func (t *trip) sortEntries(ctx context.Context, d *doc, r *capabilityList) {
	for i := range d.entries {
		e := &d.entries[i]
		uri, err := t.s.resolveLink(t, d, e.loc, e.line)
		switch {
		case err != nil:
			t.leaveOut(d.base.String(), e.line, err)
		case d.leadsToSameKind(e):
			r.named = append(r.named, Set{URI: uri, Description: e.describedBy})
		case d.header.Root == resourcesync.URLSet:
			t.place(ctx, &r.set, d, e, uri)
		}
	}
}

func (t *trip) place(ctx context.Context, set *Set, d *doc, e *entry, uri string) {
	c := e.capability
	if !c.Known() {
		c = t.readCapability(ctx, uri, c)
	}
	if !isListing(c) {
		t.leaveOut(d.base.String(), e.line, &noPlaceError{c, "a Capability List"})
		return
	}
	set.add(c, uri)
	if c == resourcesync.CapabilityChangeList && e.freq.Known() {
		set.ChangeFreq = e.freq
	}
}

// readCapability reads the capability in the document itself, because the entry in the
// Capability List states no capability, or an unknown one.
func (t *trip) readCapability(ctx context.Context, uri string, called resourcesync.Capability) resourcesync.Capability {
	n := Notice{URI: uri, Quirk: resourcesync.QuirkNoCapability, Msg: "the entry has no capability"}
	if called != "" {
		n.Quirk, n.Msg = resourcesync.QuirkCapabilityNew, fmt.Sprintf("capability %q is unknown", string(called))
	}
	d, err := t.load(ctx, uri)
	if err != nil {
		n.Msg += fmt.Sprintf(", and the document can't be read: %v", err)
		t.note(n)
		return called
	}
	n.Msg += fmt.Sprintf(", the document says %q", string(d.header.Capability))
	t.note(n)
	return d.header.Capability
}

func (s *Set) add(c resourcesync.Capability, uri string) {
	switch c {
	case resourcesync.CapabilityResourceList:
		s.ResourceLists = append(s.ResourceLists, uri)
	case resourcesync.CapabilityChangeList:
		s.ChangeLists = append(s.ChangeLists, uri)
	default:
		if s.Other == nil {
			s.Other = map[resourcesync.Capability][]string{}
		}
		s.Other[c] = append(s.Other[c], uri)
	}
}

// isListing reports whether documents with capability c belong to a set: they list
// resources, changes, packages or archives.
func isListing(c resourcesync.Capability) bool {
	switch c {
	case resourcesync.CapabilityResourceList, resourcesync.CapabilityChangeList,
		resourcesync.CapabilityResourceDump, resourcesync.CapabilityChangeDump,
		resourcesync.CapabilityResourceDumpManifest, resourcesync.CapabilityChangeDumpManifest,
		resourcesync.CapabilityResourceListArchive, resourcesync.CapabilityChangeListArchive,
		resourcesync.CapabilityResourceDumpArchive, resourcesync.CapabilityChangeDumpArchive:
		return true
	}
	return false
}

// setName returns the name of the directory that contains u; "" if the name is a
// conventional one, such as "resourcesync", which does not distinguish sets.
func setName(u *url.URL) string {
	switch name := path.Base(path.Dir(u.Path)); name {
	case "/", ".", "resourcesync", ".well-known":
		return ""
	default:
		return name
	}
}

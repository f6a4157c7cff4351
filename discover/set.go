package discover

import (
	"context"
	"fmt"
	"net/url"
	"path"

	"instep/resourcesync"
)

// set reads a set out of its Capability List (1.1 §9).
func (t *trip) set(ctx context.Context, d *document) (Set, error) {
	if err := d.is(resourcesync.URLSet, resourcesync.CapabilityCapabilityList); err != nil {
		return Set{}, err
	}
	set := Set{URI: d.base.String(), Name: setName(d.base), Description: d.header.Link("describedby")}
	for _, e := range d.entries {
		uri, err := t.s.link(t, d, e.loc, e.line)
		if err != nil {
			t.leaveOut(d.base.String(), e.line, err)
			continue
		}
		c := e.capability
		if c == "" {
			c = t.learn(ctx, uri)
		}
		if !isListing(c) {
			t.leaveOut(d.base.String(), e.line, fmt.Errorf("capability %q is unknown or has no place in a Capability List", string(c)))
			continue
		}
		set.add(c, uri)
	}
	return set, nil
}

// learn finds out what the document of an entry without capability is.
func (t *trip) learn(ctx context.Context, uri string) resourcesync.Capability {
	d, err := t.load(ctx, uri)
	if err != nil {
		t.note(Notice{URI: uri, Msg: fmt.Sprintf("no capability is given and the document can't tell: %v", err)})
		return ""
	}
	t.note(Notice{URI: uri, Msg: fmt.Sprintf("no capability is given, the document says %q", string(d.header.Capability))})
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

// isListing reports whether a document of this capability belongs to a set: it
// lists resources, changes, packages or their archives.
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

// setName is the name of the directory that holds a set's documents, unless that
// is one every Source has.
func setName(u *url.URL) string {
	switch name := path.Base(path.Dir(u.Path)); name {
	case "/", ".", "resourcesync", ".well-known":
		return ""
	default:
		return name
	}
}

package discover

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"instep/fetch"
	"instep/resourcesync"
)

// follow reads the document at uri and finds the sets it leads to.
func (s *search) follow(ctx context.Context, t *trip, uri string) error {
	d, err := t.load(ctx, uri)
	if err != nil {
		return err
	}
	s.settle(d.base)
	switch h := &d.header; {
	case h.Capability == "":
		return &notDocumentError{uri: uri, what: kindOf(h.Root, "")}
	case h.Capability == resourcesync.CapabilityDescription:
		return s.fromDescription(ctx, t, d)
	case h.Capability == resourcesync.CapabilityCapabilityList:
		return s.fromCapabilityList(ctx, t, d)
	case !isListing(h.Capability):
		return &notDocumentError{uri: uri, what: kindOf(h.Root, h.Capability)}
	}
	return s.fromList(ctx, t, d)
}

// settle fixes the Source's origin by the first document that was read. A redirect
// from http to https leaves both its own; to any other origin only the user's
// consent leads, and that origin has to be allowed for more than this document.
func (s *search) settle(at *url.URL) {
	o := fetch.Origin(at)
	if was := s.src.Origin; o != was && strings.TrimPrefix(o, "https://") == strings.TrimPrefix(was, "http://") {
		s.src.Origin = o
		s.src.Origins = []string{o, was}
	}
}

// own returns nil if a document at u may be read.
func (s *search) own(u *url.URL) error {
	o := fetch.Origin(u)
	if slices.Contains(s.src.Origins, o) || s.allowed[o] {
		return nil
	}
	return &ForeignError{URI: u.String(), Origin: o}
}

// link resolves a reference of d to another document and checks that it may be read.
func (s *search) link(t *trip, d *document, ref string, line int) (string, error) {
	u, err := d.resolve(t, ref, line)
	if err != nil {
		return "", err
	}
	return u.String(), s.own(u)
}

// leaveOut records an entry of the document at uri that can't be followed.
func (t *trip) leaveOut(uri string, line int, err error) {
	n := Notice{URI: uri, Line: line, Msg: fmt.Sprintf("entry left out: %v", err)}
	var fe *ForeignError
	if errors.As(err, &fe) {
		n.AllowOrigin = fe.Origin
	}
	// What the user can mend is the better reason.
	if t.leftOut == nil || fe != nil && !errors.As(t.leftOut, new(*ForeignError)) {
		t.leftOut = err
	}
	t.note(n)
}

// fromList goes up from a list of resources or packages to its Capability List
// (1.1 §9). One that names none makes a set of its own.
func (s *search) fromList(ctx context.Context, t *trip, d *document) error {
	first, seen := d, []string{d.base.String()}
	for range maxUp {
		ref := d.header.Link("up")
		if ref == "" {
			ref = d.header.Link("index")
		}
		if ref == "" {
			return s.alone(t, first, "")
		}
		uri, err := s.link(t, d, ref, 0)
		if err != nil {
			return s.alone(t, first, err.Error())
		}
		if slices.Contains(seen, uri) {
			return &brokenError{uri, fmt.Errorf("the links up go in a circle: %s", strings.Join(append(seen, uri), " → "))}
		}
		seen = append(seen, uri)
		if d, err = t.load(ctx, uri); err != nil {
			if ctx.Err() != nil || ends(err) {
				return err
			}
			return s.alone(t, first, err.Error())
		}
		switch c := d.header.Capability; {
		case c == resourcesync.CapabilityDescription:
			return s.fromDescription(ctx, t, d)
		case c == resourcesync.CapabilityCapabilityList:
			return s.fromCapabilityList(ctx, t, d)
		case !isListing(c):
			return s.alone(t, first, fmt.Sprintf("%q is %s", uri, kindOf(d.header.Root, c)))
		}
	}
	return &brokenError{first.base.String(), fmt.Errorf("no Capability List after %d links up", maxUp)}
}

// alone makes a set of a list that has no usable Capability List.
func (s *search) alone(t *trip, d *document, why string) error {
	uri := d.base.String()
	c := d.header.Capability
	if c != resourcesync.CapabilityResourceList && c != resourcesync.CapabilityChangeList {
		return &notDocumentError{uri: uri, what: kindOf(d.header.Root, c) + " that leads to no Capability List"}
	}
	msg := "the list names no Capability List and is taken alone"
	if why != "" {
		msg = "the list is taken alone, its link up can't be followed: " + why
	}
	t.note(Notice{URI: uri, Msg: msg})
	set := Set{URI: uri, Name: setName(d.base)}
	set.add(c, uri)
	s.src.Sets = []Set{set}
	return nil
}

// fromCapabilityList takes just the set of the Capability List given.
func (s *search) fromCapabilityList(ctx context.Context, t *trip, d *document) error {
	set, err := t.set(ctx, d)
	if err != nil {
		return err
	}
	if up := d.header.Link("up"); up != "" {
		if u, err := d.resolve(t, up, 0); err == nil {
			s.src.Description = u.String()
		}
	}
	s.src.Sets = []Set{set}
	return nil
}

// fromDescription reads the Capability Lists that a Source Description or its
// index names.
func (s *search) fromDescription(ctx context.Context, t *trip, d *document) error {
	s.src.Description = d.base.String()
	parts := []*document{d}
	if d.header.Root == resourcesync.SitemapIndex {
		var err error
		if parts, err = s.descriptions(ctx, t, d); err != nil {
			return err
		}
	}
	var sets []Set
	for _, p := range parts {
		sets = append(sets, s.capabilityLists(t, p)...)
	}
	sets = dropRepeated(t, d, sets)
	if len(sets) == 0 {
		return &brokenError{d.base.String(), whyNoSets(t)}
	}
	if err := s.readSets(ctx, sets); err != nil {
		return err
	}
	s.src.Sets = sets
	return nil
}

// descriptions reads the parts of a Source Description Index (1.1 §8), one level.
func (s *search) descriptions(ctx context.Context, t *trip, d *document) ([]*document, error) {
	var parts []*document
	for _, e := range d.entries {
		uri, err := s.link(t, d, e.loc, e.line)
		if err != nil {
			t.leaveOut(d.base.String(), e.line, err)
			continue
		}
		p, err := t.load(ctx, uri)
		if err == nil {
			err = p.is(resourcesync.URLSet, resourcesync.CapabilityDescription)
		}
		if err != nil { // the sets of a part that is missing would seem gone
			return nil, &brokenError{uri, err}
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// capabilityLists lists the sets that a Source Description names. An entry without
// a capability can only be one.
func (s *search) capabilityLists(t *trip, d *document) []Set {
	var sets []Set
	for _, e := range d.entries {
		if e.capability != "" && e.capability != resourcesync.CapabilityCapabilityList {
			t.leaveOut(d.base.String(), e.line, fmt.Errorf("capability %q has no place in a Source Description", string(e.capability)))
			continue
		}
		uri, err := s.link(t, d, e.loc, e.line)
		if err != nil {
			t.leaveOut(d.base.String(), e.line, err)
			continue
		}
		sets = append(sets, Set{URI: uri, Description: e.describedBy})
	}
	return sets
}

func dropRepeated(t *trip, d *document, sets []Set) []Set {
	seen := map[string]bool{}
	return slices.DeleteFunc(sets, func(s Set) bool {
		if seen[s.URI] {
			t.note(Notice{URI: d.base.String(), Msg: fmt.Sprintf("Capability List %q is named more than once", s.URI)})
			return true
		}
		seen[s.URI] = true
		return false
	})
}

// whyNoSets explains a Source Description that leads nowhere.
func whyNoSets(t *trip) error {
	if t.leftOut != nil {
		return fmt.Errorf("the Source Description names no Capability List that can be read: %w", t.leftOut)
	}
	return errors.New("the Source Description names no Capability List")
}

// readSets reads the Capability List of each set. One that fails is the trouble of
// its set, unless there is no other.
func (s *search) readSets(ctx context.Context, sets []Set) error {
	trips := make([]*trip, len(sets))
	var g errgroup.Group
	g.SetLimit(atATime)
	for i := range sets {
		trips[i] = &trip{s: s}
		g.Go(func() error {
			sets[i] = trips[i].readSet(ctx, sets[i])
			return nil
		})
	}
	_ = g.Wait()
	var errs []error
	for i := range sets {
		s.join(trips[i])
		if sets[i].Err != nil {
			errs = append(errs, sets[i].Err)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(errs) == len(sets) {
		return &brokenError{s.src.Description, errors.Join(errs...)}
	}
	return nil
}

// readSet completes a set by its Capability List.
func (t *trip) readSet(ctx context.Context, stub Set) Set {
	d, err := t.load(ctx, stub.URI)
	if err == nil {
		var set Set
		if set, err = t.set(ctx, d); err == nil {
			set.URI = stub.URI
			set.Description = stub.Description
			return set
		}
	}
	stub.Err = err
	return stub
}

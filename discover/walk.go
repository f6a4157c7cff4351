package discover

import (
	"cmp"
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

func (s *search) setsBehind(ctx context.Context, t *trip, d *doc) error {
	s.setOrigin(d.base)
	uri := d.base.String()
	switch h := &d.header; {
	case h.Capability == "":
		return &notDocumentError{uri: uri, what: kindOf(h.Root, ""), plain: true}
	case h.Capability == resourcesync.CapabilityDescription:
		return s.fromDescription(ctx, t, d)
	case h.Capability == resourcesync.CapabilityCapabilityList:
		return s.fromCapabilityList(ctx, t, d)
	case !isListing(h.Capability):
		return &notDocumentError{uri: uri, what: kindOf(h.Root, h.Capability)}
	case d.leads: // an error, because a list of documents must not be mirrored like a list of resources
		return &brokenError{uri, fmt.Errorf("the document claims to be %s, but links other documents like a Source Description", kindOf(h.Root, h.Capability))}
	}
	return s.fromList(ctx, t, d)
}

// setOrigin adds an origin to the Source after a redirect from http to https. Other
// origins need the permission of the user.
func (s *search) setOrigin(at *url.URL) {
	o := fetch.Origin(at)
	if was := s.src.Origin; o != was && strings.TrimPrefix(o, "https://") == strings.TrimPrefix(was, "http://") {
		s.src.Origin = o
		s.src.Origins = []string{o, was}
	}
}

func (s *search) checkOrigin(u *url.URL) error {
	o := fetch.Origin(u)
	if slices.Contains(s.src.Origins, o) || s.allowed[o] {
		return nil
	}
	return &ForeignError{URI: u.String(), Origin: o}
}

// resolveLink resolves the URI of a link. It returns an error if the search must not read
// a document at the resolved URI.
func (s *search) resolveLink(t *trip, d *doc, ref string, line int) (string, error) {
	u, err := d.resolve(t, ref, line)
	if err != nil {
		return "", err
	}
	return u.String(), s.checkOrigin(u)
}

// leaveOut adds a notice that an entry or link is not followed. The reason is err.
func (t *trip) leaveOut(uri string, line int, err error) {
	n := Notice{URI: uri, Line: line, Msg: fmt.Sprintf("left out: %v", err)}
	var fe *ForeignError
	var place *noPlaceError
	switch {
	case errors.As(err, &fe):
		n.AllowOrigin = fe.Origin
	case errors.As(err, &place) && place.capability == "":
		n.Quirk = resourcesync.QuirkNoCapability
	case errors.As(err, &place):
		n.Quirk = resourcesync.QuirkCapabilityNew
	}
	// keep the first reason, but prefer a ForeignError, because the user can allow the origin
	if t.leftOut == nil || fe != nil && !errors.As(t.leftOut, new(*ForeignError)) {
		t.leftOut = err
	}
	t.note(n)
}

// fromList finds the Capability List of a list of resources or packages (1.1 §9) by its
// "up" links. If there is no Capability List, the list becomes a set of its own.
func (s *search) fromList(ctx context.Context, t *trip, d *doc) error {
	first, seen := d, []string{d.base.String()}
	for range maxUp {
		ref := d.header.Link("up")
		if ref == "" {
			ref = d.header.Link("index")
		}
		if ref == "" {
			return s.makeSetOf(t, first, "")
		}
		uri, err := s.resolveLink(t, d, ref, 0)
		if err != nil {
			return s.makeSetOf(t, first, err.Error())
		}
		if slices.Contains(seen, uri) {
			return &brokenError{uri, fmt.Errorf("the \"up\" links form a circle: %s", strings.Join(append(seen, uri), " → "))}
		}
		seen = append(seen, uri)
		if d, err = t.load(ctx, uri); err != nil {
			if ctx.Err() != nil || endsSearch(err) || errors.Is(err, fetch.Temporary) {
				return err
			}
			return s.makeSetOf(t, first, err.Error())
		}
		switch c := d.header.Capability; {
		case c == resourcesync.CapabilityDescription:
			return s.fromDescription(ctx, t, d)
		case c == resourcesync.CapabilityCapabilityList:
			return s.fromCapabilityList(ctx, t, d)
		case !isListing(c):
			return s.makeSetOf(t, first, fmt.Sprintf("%q is %s", uri, kindOf(d.header.Root, c)))
		}
	}
	return &brokenError{first.base.String(), fmt.Errorf("no Capability List was found after %d \"up\" links", maxUp)}
}

// makeSetOf makes a set of a list that has no usable Capability List. The parameter why
// is "" if the list has no "up" link. Otherwise it says why the link cannot be followed.
func (s *search) makeSetOf(t *trip, d *doc, why string) error {
	uri := d.base.String()
	c := d.header.Capability
	if c != resourcesync.CapabilityResourceList && c != resourcesync.CapabilityChangeList {
		return &notDocumentError{uri: uri, what: kindOf(d.header.Root, c) + " that leads to no Capability List"}
	}
	// The Capability List may be readable again in the next search. Until then the list
	// becomes a set only if the user gave the URI of the list.
	if why != "" && s.way != WayDocument {
		return &notDocumentError{uri: uri, what: kindOf(d.header.Root, c) + " whose Capability List can't be read: " + why}
	}
	msg := "the list names no Capability List, so it is read as a set of its own"
	if why != "" {
		msg = "the list is read as a set of its own, because its \"up\" link can't be followed: " + why
	}
	t.note(Notice{URI: uri, Quirk: resourcesync.QuirkUp, Msg: msg})
	set := Set{URI: uri, Name: setName(d.base)}
	set.add(c, uri)
	s.src.Sets = []Set{set}
	return nil
}

// fromCapabilityList makes the sets of the Source from the Capability List d alone,
// even if d links a Source Description that lists more sets.
func (s *search) fromCapabilityList(ctx context.Context, t *trip, d *doc) error {
	r, err := t.set(ctx, d)
	if err != nil {
		return err
	}
	if up := d.header.Link("up"); up != "" {
		if u, err := d.resolve(t, up, 0); err == nil {
			s.src.Description = u.String()
		}
	}
	if len(r.named) == 0 {
		s.src.Sets = []Set{r.set}
		return nil
	}
	if s.src.Description == "" {
		s.src.Description = r.set.URI
	}
	s.src.Sets, err = s.readSets(ctx, d, []capabilityList{r})
	return err
}

func (s *search) fromDescription(ctx context.Context, t *trip, d *doc) error {
	s.src.Description = d.base.String()
	parts, err := s.allDescriptions(ctx, t, d)
	if err != nil {
		return err
	}
	var r capabilityList
	for _, p := range parts {
		r.named = append(r.named, s.capabilityLists(t, p)...)
	}
	r.named = dropRepeated(t, d, r.named)
	if len(r.named) == 0 {
		return &brokenError{d.base.String(), whyNoSets(t)}
	}
	s.src.Sets, err = s.readSets(ctx, d, []capabilityList{r})
	s.src.Complete = err == nil
	return err
}

// allDescriptions returns the Source Description d and, if d is an index, the Source
// Descriptions that it links (1.1 §8). Some Sources use a urlset like an index.
func (s *search) allDescriptions(ctx context.Context, t *trip, d *doc) ([]*doc, error) {
	parts := []*doc{d}
	seen := map[string]bool{d.base.String(): d.header.Root == resourcesync.URLSet}
	for i := 0; i < len(parts); i++ {
		named, err := s.linkedDescriptions(ctx, t, parts[i], seen)
		if err != nil {
			return nil, err
		}
		parts = append(parts, named...)
	}
	return parts, nil
}

// linkedDescriptions reads the Source Descriptions that d links and that are not in seen.
func (s *search) linkedDescriptions(ctx context.Context, t *trip, d *doc, seen map[string]bool) ([]*doc, error) {
	var parts []*doc
	for i := range d.entries {
		e := &d.entries[i]
		if !d.leadsToSameKind(e) {
			continue
		}
		uri, err := s.resolveLink(t, d, e.loc, e.line)
		switch {
		case err != nil:
			t.leaveOut(d.base.String(), e.line, err)
			continue
		case seen[uri]:
			continue
		}
		p, err := t.loadNamed(ctx, uri)
		if err == nil {
			err = p.checkKind(resourcesync.URLSet, resourcesync.CapabilityDescription)
		}
		if err != nil { // not skipped, because the sets of this Source Description would then seem deleted
			return nil, &brokenError{uri, err}
		}
		seen[uri] = true
		parts = append(parts, p)
	}
	if len(parts) > 0 && d.header.Root == resourcesync.URLSet {
		t.note(Notice{URI: d.base.String(), Quirk: resourcesync.QuirkNested, Msg: "the document names other Source Descriptions, as an index does; they are read"})
	}
	return parts, nil
}

const inDescription = "a Source Description"

// capabilityLists returns one Set for each linked Capability List, with only URI and
// description. An entry without a capability, or with an unknown one, counts as a
// Capability List until the document is read.
func (s *search) capabilityLists(t *trip, d *doc) []Set {
	var sets []Set
	for i := range d.entries {
		e := &d.entries[i]
		switch {
		case d.leadsToSameKind(e):
			continue // another Source Description
		case e.capability != resourcesync.CapabilityCapabilityList && e.capability.Known():
			t.leaveOut(d.base.String(), e.line, &noPlaceError{e.capability, inDescription})
			continue
		}
		uri, err := s.resolveLink(t, d, e.loc, e.line)
		if err != nil {
			t.leaveOut(d.base.String(), e.line, err)
			continue
		}
		if s.stated[uri] == "" || e.capability == resourcesync.CapabilityCapabilityList {
			s.stated[uri] = e.capability
		}
		sets = append(sets, Set{URI: uri, Description: e.describedBy})
	}
	return sets
}

func dropRepeated(t *trip, d *doc, sets []Set) []Set {
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

func whyNoSets(t *trip) error {
	if t.leftOut != nil {
		return fmt.Errorf("the Source Description names no Capability List that can be read: %w", t.leftOut)
	}
	return errors.New("the Source Description names no Capability List")
}

// readSets reads the Capability Lists that are linked in the given documents, and the
// Capability Lists that these link, each once. If a Capability List cannot be read, its
// set gets the error (Set.Err). readSets returns an error only if no set is usable.
func (s *search) readSets(ctx context.Context, d *doc, level []capabilityList) ([]Set, error) {
	var sets []Set
	var errs []error
	var none error // reason why a linked document is no Capability List
	seen := map[string]bool{d.base.String(): true}
	for len(level) > 0 {
		var stubs []Set
		for _, r := range level {
			if r.own {
				sets = append(sets, r.set)
			}
			if r.set.Err != nil {
				errs = append(errs, r.set.Err)
			}
			none = cmp.Or(none, r.none)
			for _, stub := range r.named {
				if !seen[stub.URI] {
					seen[stub.URI] = true
					stubs = append(stubs, stub)
				}
			}
		}
		level = s.readLevel(ctx, stubs)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	switch {
	case len(sets) == 0 && none != nil:
		return nil, &brokenError{s.src.Description, fmt.Errorf("the Source Description names no Capability List that can be read: %w", none)}
	case len(sets) == 0:
		return nil, &brokenError{s.src.Description, errors.New("the document names only Capability Lists that name each other")}
	case len(errs) == len(sets):
		return nil, &brokenError{s.src.Description, errors.Join(errs...)}
	}
	return sets, nil
}

func (s *search) readLevel(ctx context.Context, stubs []Set) []capabilityList {
	trips, read := make([]*trip, len(stubs)), make([]capabilityList, len(stubs))
	var g errgroup.Group
	g.SetLimit(atATime)
	for i := range stubs {
		trips[i] = &trip{s: s}
		g.Go(func() error {
			read[i] = trips[i].readSet(ctx, stubs[i])
			return nil
		})
	}
	_ = g.Wait()
	for _, t := range trips {
		s.addTrip(t)
	}
	return read
}

func (t *trip) readSet(ctx context.Context, stub Set) capabilityList {
	d, err := t.loadNamed(ctx, stub.URI)
	if none := t.noCapabilityList(stub.URI, d, err); none != nil {
		return capabilityList{none: none}
	}
	if err == nil {
		var r capabilityList
		if r, err = t.set(ctx, d); err == nil {
			r.set.URI = stub.URI
			r.set.Description = stub.Description
			return r
		}
	}
	stub.Err = err
	return capabilityList{set: stub, own: true}
}

// noCapabilityList returns an error if a Source Description states an unknown
// capability for the document, and the document is not a Capability List. If err is
// temporary, it returns nil, because the document may still be a Capability List.
func (t *trip) noCapabilityList(uri string, d *doc, err error) error {
	c := t.s.stated[uri]
	switch {
	case c == "" || c.Known() || errors.Is(err, fetch.Temporary):
		return nil
	case err == nil && d.header.Capability == resourcesync.CapabilityCapabilityList:
		t.note(Notice{URI: uri, Quirk: resourcesync.QuirkCapabilityNew, Msg: fmt.Sprintf("capability %q is unknown, the document says %q", string(c), string(d.header.Capability))})
		return nil
	}
	none := &noPlaceError{c, inDescription}
	t.leaveOut(uri, 0, none)
	return none
}

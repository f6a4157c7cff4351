package republish

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"instep/destination"
	"instep/fetch"
	"instep/internal/scan"
	"instep/internal/spool"
	"instep/resourcesync"
)

// lister lists the resources of a mirror. A lister is used only once.
type lister struct {
	*Options
	m     Mirror
	base  string
	rules []scan.Rule

	sets  []string  // the sets to publish: those that have been copied completely
	at    time.Time // the time of the last complete run or, if the sets have several such times, the earliest one
	notes []string

	origins []string // the origins (scheme and host) of listed URIs that are not below our base URL, at most maxOrigins
	more    bool     // whether the listed URIs have more origins than the field origins contains

	spool           string       // directory for temporary files; "" means the directory of the operating system
	usedURIs        *spool.Index // the original URIs that are in use already, because two resources may state the same one
	unoriginal      int64        // the number of resources that are listed under their URI at the Source, because the URI in their "via" link cannot be used
	firstUnoriginal string       // URI of one of the resources that the field unoriginal counts
	doubtful        int64        // the number of the last change in the log that an earlier publication may have listed already: see position.Doubtful
	incomplete      int64        // the number of resources whose entries lack some statements (such as links), because no document may contain these statements
	firstIncomplete string       // URI of one of the resources that the field incomplete counts
}

// maxOrigins is the largest number of origins that a message names.
const maxOrigins = 10

// originsNote returns a message with the origins that readers must allow because resources
// are listed under URIs that are not below our base URL.
func (l *lister) originsNote() string {
	text := "the resources have the URIs of their origin, so readers need --allow-origin " + strings.Join(l.origins, " --allow-origin ")
	if l.more {
		text += " and others"
	}
	return text
}

func (l *lister) addOrigin(uri string) {
	u, err := fetch.Parse(uri)
	if err != nil {
		return // a URI that cannot be parsed is never listed
	}
	switch origin := fetch.Origin(u); {
	case strings.HasPrefix(l.base, origin+"/") || slices.Contains(l.origins, origin):
	case len(l.origins) == maxOrigins:
		l.more = true
	default:
		l.origins = append(l.origins, origin)
	}
}

func (l *lister) chooseSets(ctx context.Context) error {
	known, err := l.m.Sets(ctx)
	if err != nil {
		return err
	}
	var incomplete []string
	for _, set := range known {
		if set == l.Kept || l.Sets != nil && !slices.Contains(l.Sets, set) {
			continue
		}
		at, complete, err := l.m.Committed(ctx, set)
		if err != nil {
			return err
		}
		if !complete {
			incomplete = append(incomplete, set)
			continue
		}
		l.sets = append(l.sets, set)
		if l.at.IsZero() || at.Before(l.at) {
			l.at = at
		}
	}
	for _, set := range l.Sets {
		if !slices.Contains(known, set) {
			return fmt.Errorf("the mirror has no set %q; its sets are %s", set, strings.Join(known, ", "))
		}
	}
	if len(l.sets) == 0 {
		return ErrNoBaseline
	}
	for _, set := range incomplete {
		l.notes = append(l.notes, fmt.Sprintf("the first synchronization of the set %s is not complete, so the set is not published", set))
	}
	return nil
}

// checkSets returns ErrDisturbed if a set has become complete since chooseSets was called.
// Resources may have moved to that set, and would be missing from the listing.
func (l *lister) checkSets(ctx context.Context) error {
	now := lister{Options: l.Options, m: l.m}
	if err := now.chooseSets(ctx); err != nil {
		return err
	}
	if !slices.Equal(now.sets, l.sets) {
		return fmt.Errorf("%w: a set became complete meanwhile", ErrDisturbed)
	}
	return nil
}

// lookupSize is the number of resources that are listed in one batch, and the number of
// link targets that are looked up together.
const lookupSize = 500

// list implements scan.Listing. A resource in several sets is listed once, with the state
// of the set in which it changed last.
func (l *lister) list(ctx context.Context, _ time.Time) iter.Seq2[scan.Listed, error] {
	return func(yield func(scan.Listed, error) bool) {
		l.usedURIs = spool.NewIndex(l.spool, 0)
		defer l.usedURIs.Close()
		for batch, err := range spool.Batches(members(ctx, l.m, l.sets, l.Kept), lookupSize) {
			if err != nil {
				yield(scan.Listed{}, err)
				return
			}
			if !l.flush(ctx, batch, yield) {
				return
			}
		}
	}
}

func (l *lister) flush(ctx context.Context, batch []member, yield func(scan.Listed, error) bool) bool {
	links := linksToResource
	if l.OriginalURIs {
		links = func(rel string) bool { return rel == resourcesync.RelVia }
	}
	copies, err := l.copyURIs(ctx, batch, links)
	if err != nil {
		return yield(scan.Listed{}, err) // an error without a URI means that a part of the listing could not be read
	}
	for i := range batch {
		e, err := l.entry(ctx, &batch[i], func(uri string) string { return copies[uri] })
		if !yield(e, err) {
			return false
		}
	}
	return true
}

func (l *lister) entry(ctx context.Context, m *member, copyOf func(string) string) (scan.Listed, error) {
	copied, via := l.uri(&m.Held), Origin(&m.Held, m.said.Links)
	e := scan.Listed{URI: copied, Path: m.Path, LastMod: m.LastMod, Length: m.Length, Digests: m.Digests, Type: m.Type,
		Encoding: m.said.Encoding, ChangeFreq: m.said.ChangeFreq, Told: true}
	keep := strings.Fields(scan.RuleFor(l.rules, m.Path).KeepLinks)
	said := m.said
	said.Encoding, said.ChangeFreq = "", "" // e has them
	if l.OriginalURIs {
		var err error
		if e.URI, err = l.originalURI(m.URI, via.Href, copyOf); err != nil {
			return e, err
		}
		l.addOrigin(e.URI)
		duplicate := resourcesync.Link{Rel: resourcesync.RelDuplicate, Href: copied, Pri: 1} // the link states no length, hash and type: the "rs:md" element of the entry has them (1.1 §14.2)
		said.Links = append(inheritedLinks(m.said.Links, keep, func(string) string { return "" }), duplicate)
	} else {
		said.Links = inheritedLinks(m.said.Links, keep, copyOf)
	}
	if via.Href != e.URI {
		said.Links = append(said.Links, via)
	}
	err := l.setRemainder(&e, &said)
	if err != nil {
		return e, err
	}
	if via.Href != m.URI && strings.HasPrefix(via.Href, l.base) {
		e.Out = scan.Loop
		return e, nil
	}
	if e.Out, e.Past = l.doubtAbout(m), m.outdated; e.Out == "" && !m.outdated {
		// The error is ignored: the scan reads a file that is not known to be intact, and reports
		// the error if it occurs again.
		e.Intact, _ = l.m.Untouched(ctx, &m.Held)
	}
	return e, nil
}

// originalURI returns the URI under which to list a resource if OriginalURIs is set. It is
// the URI at the first origin. If that URI cannot be listed or belongs to another listed
// resource, it is the URI at the Source.
func (l *lister) originalURI(uri, origin string, copyOf func(string) string) (string, error) {
	if origin == uri || strings.HasPrefix(origin, l.base) {
		return origin, nil
	}
	if _, err := fetch.Parse(origin); err == nil && copyOf(origin) == "" {
		_, taken, err := l.usedURIs.Get(origin)
		if err == nil && !taken {
			err = l.usedURIs.Set(origin, spool.Place{})
		}
		if err != nil || !taken {
			return origin, err
		}
	}
	if l.unoriginal++; l.unoriginal == 1 {
		l.firstUnoriginal = uri
	}
	return uri, nil
}

func (l *lister) uri(h *destination.Held) string { return scan.URI(l.base, h.Path) }

func (l *lister) doubtAbout(m *member) Doubt {
	for _, d := range []struct {
		is   bool
		name Doubt
	}{{m.Due != "" || !m.Stored, scan.Due}, {!m.Verified, scan.Unverified}, {m.keptEarlier, scan.Held}} {
		if d.is && (!slices.Contains(l.Also, d.name) || !m.Stored) {
			return d.name
		}
	}
	return ""
}

// copyURIs finds the resources to which the given members link, and returns the URIs of
// our copies of these resources, by the URI in the link. It considers only links whose
// relation the function follow accepts.
func (l *lister) copyURIs(ctx context.Context, batch []member, follow func(rel string) bool) (map[string]string, error) {
	var uris []string
	for i := range batch {
		for _, link := range batch[i].said.Links {
			if follow(link.Rel) {
				uris = append(uris, link.Href)
			}
		}
	}
	slices.Sort(uris)
	copies := map[string]string{}
	for some := range slices.Chunk(slices.Compact(uris), lookupSize) {
		found, err := l.m.Lookup(ctx, l.sets[0], some)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if found[i].Stored {
				copies[some[i]] = l.uri(&found[i])
			}
		}
	}
	return copies, nil
}

// setRemainder adds the links and further attributes of the original entry to the entry
// of the copy. It leaves out those that a document must not contain, because a mirror
// accepts more than a publisher may write.
func (l *lister) setRemainder(e *scan.Listed, said *resourcesync.Remainder) (err error) {
	if e.Remainder, err = said.Text(); err != nil || e.Check() == nil {
		return err
	}
	fits := func(part resourcesync.Remainder) bool {
		text, err := part.Text()
		bare := *e
		bare.Remainder = text
		return err == nil && bare.Check() == nil
	}
	fit := *said // a copy without the parts that may make the entry invalid; these parts are added one by one below
	fit.Priority, fit.Attrs, fit.Foreign, fit.Links = resourcesync.Priority{}, nil, "", nil
	add := func(part func(*resourcesync.Remainder)) {
		more := fit
		part(&more)
		if fits(more) {
			fit = more
		}
	}
	add(func(r *resourcesync.Remainder) { r.Priority = said.Priority })
	add(func(r *resourcesync.Remainder) { r.Attrs = said.Attrs })
	add(func(r *resourcesync.Remainder) { r.Foreign = said.Foreign })
	for i := range slices.Backward(said.Links) { // try the last links first, because "via" and "duplicate" are more important
		add(func(r *resourcesync.Remainder) { r.Links = slices.Concat(said.Links[i:i+1], r.Links) })
	}
	if l.incomplete++; l.incomplete == 1 {
		l.firstIncomplete = e.URI
	}
	e.Remainder, err = fit.Text()
	return err
}

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

// lister lists a mirror once.
type lister struct {
	*Options
	m     Mirror
	base  string
	rules []scan.Rule

	sets  []string  // that are complete
	at    time.Time // when the earliest of them was committed
	notes []string

	origins []string // of the URIs listed that are none of ours, at most maxOrigins
	more    bool     // there are further ones

	spool      string       // directory for temporary files; "" is the system's
	taken      *spool.Index // origins that resources are listed under, with no places: Sources may give two the same
	kept       int64        // resources listed under the URI at the Source, though a via names another origin
	firstKept  string       // the URI of one of them
	doubtful   int64        // up to which number of the log a change may have been listed before: see position.Doubtful
	unfit      int64        // resources of which something was left out that no document can say
	firstUnfit string       // the URI of one of them
}

// maxOrigins is how many origins are named.
const maxOrigins = 10

// allowed says what readers have to allow, to take resources with other URIs than ours.
func (l *lister) allowed() string {
	text := "the resources have the URIs of their origin, so readers need --allow-origin " + strings.Join(l.origins, " --allow-origin ")
	if l.more {
		text += " and others"
	}
	return text
}

// meet remembers the origin of a URI that is listed.
func (l *lister) meet(uri string) {
	u, err := fetch.Parse(uri)
	if err != nil {
		return // no resource is listed under such a URI
	}
	switch origin := fetch.Origin(u); {
	case strings.HasPrefix(l.base, origin+"/") || slices.Contains(l.origins, origin):
	case len(l.origins) == maxOrigins:
		l.more = true
	default:
		l.origins = append(l.origins, origin)
	}
}

// choose finds the sets to list.
func (l *lister) choose(ctx context.Context) error {
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
			return fmt.Errorf("the mirror has no set %q; it has %s", set, strings.Join(known, ", "))
		}
	}
	if len(l.sets) == 0 {
		return ErrNoBaseline
	}
	for _, set := range incomplete {
		l.notes = append(l.notes, fmt.Sprintf("the first synchronization of the set %s is not complete: nothing of it is published", set))
	}
	return nil
}

// still is ErrDisturbed if other sets would be chosen now: resources may have moved to one that
// became complete, and those listed would be without them.
func (l *lister) still(ctx context.Context) error {
	now := lister{Options: l.Options, m: l.m}
	if err := now.choose(ctx); err != nil {
		return err
	}
	if !slices.Equal(now.sets, l.sets) {
		return fmt.Errorf("%w: it has other complete sets now", ErrDisturbed)
	}
	return nil
}

// lookupSize is how many resources are listed together, and how many linked ones are looked
// up at a time.
const lookupSize = 500

// list is a scan.Listing. A resource that is in several sets is listed once, as the last of
// them to change says.
func (l *lister) list(ctx context.Context, _ time.Time) iter.Seq2[scan.Listed, error] {
	return func(yield func(scan.Listed, error) bool) {
		l.taken = spool.NewIndex(l.spool, 0)
		defer l.taken.Close()
		var batch []member
		flush := func() bool {
			ok := l.flush(ctx, batch, yield)
			batch = batch[:0]
			return ok
		}
		for m, err := range members(ctx, l.m, l.sets, l.Kept) {
			if err != nil {
				yield(scan.Listed{}, err)
				return
			}
			if batch = append(batch, m); len(batch) == lookupSize && !flush() {
				return
			}
		}
		flush()
	}
}

// flush lists some resources. It returns false when no more are wanted.
func (l *lister) flush(ctx context.Context, batch []member, yield func(scan.Listed, error) bool) bool {
	links := describes
	if l.OriginalURIs {
		links = func(rel string) bool { return rel == resourcesync.RelVia }
	}
	copies, err := l.copies(ctx, batch, links)
	if err != nil {
		return yield(scan.Listed{}, err) // of a part of the list
	}
	for i := range batch {
		e, err := l.entry(ctx, &batch[i], func(uri string) string { return copies[uri] })
		if !yield(e, err) {
			return false
		}
	}
	return true
}

// entry is what is listed of a resource.
func (l *lister) entry(ctx context.Context, m *member, copyOf func(string) string) (scan.Listed, error) {
	copied, via := l.uri(&m.Held), Origin(&m.Held, m.said.Links)
	e := scan.Listed{URI: copied, Path: m.Path, LastMod: m.LastMod, Length: m.Length, Digests: m.Digests, Type: m.Type,
		Encoding: m.said.Encoding, ChangeFreq: m.said.ChangeFreq, Told: true}
	keep := strings.Fields(scan.RuleFor(l.rules, m.Path).KeepLinks)
	said := m.said
	said.Encoding, said.ChangeFreq = "", "" // e has them
	if l.OriginalURIs {
		var err error
		if e.URI, err = l.original(m.URI, via.Href, copyOf); err != nil {
			return e, err
		}
		l.meet(e.URI)
		duplicate := resourcesync.Link{Rel: resourcesync.RelDuplicate, Href: copied, Pri: 1} // rs:md has the rest (1.1 §14.2)
		said.Links = append(inherit(m.said.Links, keep, func(string) string { return "" }), duplicate)
	} else {
		said.Links = inherit(m.said.Links, keep, copyOf)
	}
	if via.Href != e.URI {
		said.Links = append(said.Links, via)
	}
	err := l.say(&e, &said)
	if err != nil {
		return e, err
	}
	if via.Href != m.URI && strings.HasPrefix(via.Href, l.base) {
		e.Out = scan.Loop
		return e, nil
	}
	if e.Out, e.Past = l.doubt(m), m.past; m.Stored && !m.past {
		e.Intact, err = l.m.Untouched(ctx, &m.Held)
	}
	return e, err
}

// original is the URI at the first origin under which a resource is listed. It is that at the
// Source if nothing can be listed under the other, or another resource is.
func (l *lister) original(uri, origin string, copyOf func(string) string) (string, error) {
	if origin == uri || strings.HasPrefix(origin, l.base) {
		return origin, nil
	}
	if _, err := fetch.Parse(origin); err == nil && copyOf(origin) == "" {
		_, taken, err := l.taken.Get(origin)
		if err == nil && !taken {
			err = l.taken.Set(origin, spool.Place{})
		}
		if err != nil || !taken {
			return origin, err
		}
	}
	if l.kept++; l.kept == 1 {
		l.firstKept = uri
	}
	return uri, nil
}

// uri is the URI of our copy of a resource.
func (l *lister) uri(h *destination.Held) string { return scan.URI(l.base, h.Path) }

// doubt says why a resource is not listed; "" if it is.
func (l *lister) doubt(m *member) Doubt {
	for _, d := range []struct {
		is   bool
		name Doubt
	}{{m.Due != "" || !m.Stored, scan.Due}, {!m.Verified, scan.Unverified}, {m.kept, scan.Held}} {
		if d.is && (!slices.Contains(l.Also, d.name) || !m.Stored) {
			return d.name
		}
	}
	return ""
}

// copies finds our copies of what resources lead to by links of some relations.
func (l *lister) copies(ctx context.Context, batch []member, relation func(rel string) bool) (map[string]string, error) {
	var uris []string
	for i := range batch {
		for _, link := range batch[i].said.Links {
			if relation(link.Rel) {
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

// say makes e say what the origin says besides, but for what no document of the standard can:
// a reader of the origin may have been more lenient than the writer of a document is.
func (l *lister) say(e *scan.Listed, said *resourcesync.Remainder) (err error) {
	if e.Remainder, err = said.Text(); err != nil || e.Check() == nil {
		return err
	}
	fits := func(part resourcesync.Remainder) bool {
		text, err := part.Text()
		bare := *e
		bare.Remainder = text
		return err == nil && bare.Check() == nil
	}
	fit := *said // what is added below may not fit, the rest does
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
	for i := range slices.Backward(said.Links) { // via, or duplicate, is the last
		add(func(r *resourcesync.Remainder) { r.Links = slices.Concat(said.Links[i:i+1], r.Links) })
	}
	if l.unfit++; l.unfit == 1 {
		l.firstUnfit = e.URI
	}
	e.Remainder, err = fit.Text()
	return err
}

package discover

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"instep/fetch"
	"instep/resourcesync"
)

// maxLeads bounds the number of references of one page or robots.txt that are followed.
const maxLeads = 100

// leads are links to possible documents of the Source, found in an HTML page, in a
// response header or in robots.txt.
type leads struct {
	at    string // URL of the page or robots.txt that contains the references
	none  string // reason why there are no references, for the error
	refs  []ref
	want  resourcesync.Capability // capability that the referenced documents should have
	quirk resourcesync.Quirk      // quirk (known deviation) that a notice names if a document has another capability
}

// ref is one of these references to a possible document.
type ref struct {
	uri  string
	line int   // line in the page, from 1; 0 if unknown
	err  error // the reason why the reference cannot be followed
}

// reference makes a ref for the URL u. The ref contains an error if the URL must not be
// followed, or if err, the error of the caller in reading the URL, is not nil.
func (s *search) reference(u *url.URL, line int, err error) ref {
	if err == nil {
		u, err = fetch.Parse(u.String())
	}
	if err == nil {
		err = s.checkOrigin(u)
	}
	if err != nil {
		return ref{line: line, err: err}
	}
	return ref{uri: u.String(), line: line}
}

// nowhereError reports that a page or robots.txt leads to no Source.
type nowhereError struct {
	none   string // reason why there was no reference to follow
	refs   int
	plain  int    // number of references to plain Sitemaps (without ResourceSync)
	first  string // URL of the first plain Sitemap
	reason error  // error of the first reference that is not to a plain Sitemap
}

func (e *nowhereError) Error() string {
	switch {
	case e.refs == 0:
		return e.none
	case e.plain == e.refs:
		return fmt.Sprintf("it names plain Sitemaps only (%d, such as %q): these announce no changes and no deletions", e.plain, e.first)
	case e.plain > 0:
		return fmt.Sprintf("none of %d references leads to a ResourceSync document (plain Sitemaps: %d, such as %q): %v", e.refs, e.plain, e.first, e.reason)
	case e.refs > 1:
		return fmt.Sprintf("none of %d references leads to a ResourceSync document: %v", e.refs, e.reason)
	}
	return e.reason.Error()
}
func (e *nowhereError) Unwrap() error { return e.reason }

var errAsked = errors.New("looked at before")

// followAll follows the references and collects the sets to which they lead. A page or
// robots.txt may have a reference for each set (1.1 §6.3.4). A reference that is
// broken, or does not lead to a document of the Source, is skipped. A document of the
// Source that is unusable ends the search.
func (s *search) followAll(ctx context.Context, t *trip, l *leads) error {
	if len(l.refs) > maxLeads {
		t.note(Notice{URI: l.at, Line: l.refs[maxLeads].line, Msg: fmt.Sprintf("%d references; those after the first %d are not followed", len(l.refs), maxLeads)})
		l.refs = l.refs[:maxLeads]
	}
	none := &nowhereError{none: l.none, refs: len(l.refs)}
	var sets []Set
	var descriptions []string
	for _, r := range l.refs {
		err := s.followRef(ctx, t, l, r)
		var other *notDocumentError
		switch {
		case err == nil:
			sets = appendMissing(sets, s.src.Sets)
			descriptions = append(descriptions, s.src.Description)
		case ctx.Err() != nil, r.err == nil && !errors.Is(err, errAsked) && endsSearch(err):
			return err
		case errors.As(err, &other) && other.plain:
			if none.plain++; none.plain == 1 {
				none.first = other.uri
			}
		default:
			t.leaveOut(l.at, r.line, err)
		}
	}
	if len(sets) == 0 {
		none.reason = t.leftOut
		return none
	}
	if none.plain > 0 {
		t.note(Notice{URI: l.at, Quirk: l.quirk, Msg: fmt.Sprintf("%d plain Sitemaps, such as %q, are skipped", none.plain, none.first)})
	}
	s.src.Complete = s.src.Complete && len(descriptions) == 1
	s.src.Sets, s.src.Description = sets, l.description(sets, descriptions)
	return nil
}

// followRef loads the document of one reference, and finds the sets to which it leads.
func (s *search) followRef(ctx context.Context, t *trip, l *leads, r ref) error {
	if r.err != nil {
		return r.err
	}
	if s.asked[r.uri] {
		return fmt.Errorf("%q: %w", r.uri, errAsked)
	}
	s.asked[r.uri] = true
	d, err := t.load(ctx, r.uri)
	if err != nil {
		return err
	}
	s.src.Sets, s.src.Description, s.src.Complete = nil, "", false
	if err := s.setsBehind(ctx, t, d); err != nil {
		return err
	}
	if c := d.header.Capability; c != l.want {
		t.note(Notice{URI: l.at, Line: r.line, Quirk: l.quirk, Msg: fmt.Sprintf("%q is %s where %q is expected; it is followed all the same", r.uri, kindOf(d.header.Root, c), l.want)})
	}
	return nil
}

// appendMissing appends those of the sets in more that are not yet in sets.
func appendMissing(sets, more []Set) []Set {
	for _, m := range more {
		if !slices.ContainsFunc(sets, func(s Set) bool { return s.URI == m.URI }) {
			sets = append(sets, m)
		}
	}
	return sets
}

// description returns the URI of the Source Description to which all references lead.
// If they lead to different ones or to none, it returns the URL of the page or
// robots.txt with the references.
func (l *leads) description(sets []Set, of []string) string {
	first := of[0]
	if slices.ContainsFunc(of, func(d string) bool { return d != first }) || first == "" && len(sets) > 1 {
		return l.at
	}
	return first
}

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

// maxLeads is the largest number of links that the search follows from one page or
// robots.txt.
const maxLeads = 100

// leads are links in an HTML page, in Link headers or in robots.txt that may lead to
// the Source.
type leads struct {
	at    string // URL of the page or robots.txt that contains the links
	none  string // error message if the page or robots.txt contains no links
	refs  []ref
	want  resourcesync.Capability // capability that the linked documents should have
	quirk resourcesync.Quirk      // quirk to report if a linked document does not have the capability in the field want
}

type ref struct {
	uri  string
	line int   // line of the link in the page or robots.txt, from 1; 0 if unknown
	err  error // the reason why the link cannot be followed; nil if it can be
}

// reference returns a ref for a link to u. If u could not be parsed, err is the error,
// and is stored in the ref.
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

type nowhereError struct {
	none   string // error message if there are no links to follow
	refs   int
	plain  int    // number of links to Sitemaps without ResourceSync elements
	first  string // URL of the first Sitemap without ResourceSync elements
	reason error  // error of the first link that does not lead to a Sitemap
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

var errRequested = errors.New("looked at before")

// followAll collects the sets of all links, because robots.txt may contain a Sitemap line
// for each set (1.1 §6.3.4). It skips broken links and links to other documents. An
// unusable document of the Source ends the search.
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
		case ctx.Err() != nil, r.err == nil && !errors.Is(err, errRequested) && endsSearch(err):
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

func (s *search) followRef(ctx context.Context, t *trip, l *leads, r ref) error {
	if r.err != nil {
		return r.err
	}
	if s.requested[r.uri] {
		return fmt.Errorf("%q: %w", r.uri, errRequested)
	}
	s.requested[r.uri] = true
	d, err := t.load(ctx, r.uri)
	if err != nil {
		return err
	}
	s.src.Sets, s.src.Description, s.src.Complete = nil, "", false
	if err := s.setsBehind(ctx, t, d); err != nil {
		return err
	}
	if c := d.header.Capability; c != l.want {
		t.note(Notice{URI: l.at, Line: r.line, Quirk: l.quirk, Msg: fmt.Sprintf("%q is %s where %q is expected; it is used anyway", r.uri, kindOf(d.header.Root, c), l.want)})
	}
	return nil
}

func appendMissing(sets, more []Set) []Set {
	for _, m := range more {
		if !slices.ContainsFunc(sets, func(s Set) bool { return s.URI == m.URI }) {
			sets = append(sets, m)
		}
	}
	return sets
}

// description returns the only Source Description to which the links lead. If the links
// lead to several, it returns the URL of the page or robots.txt.
func (l *leads) description(sets []Set, found []string) string {
	first := found[0]
	if slices.ContainsFunc(found, func(d string) bool { return d != first }) || first == "" && len(sets) > 1 {
		return l.at
	}
	return first
}

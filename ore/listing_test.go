package ore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"instep/fetch"
	"instep/resourcesync"
)

// listed reads a document of a listing.
func listed(t *testing.T, l *Listing, uri string) (resourcesync.Header, []resourcesync.Entry) {
	t.Helper()
	d, err := l.Load(context.Background(), uri)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Body.Close()
	if !d.Final || d.URL != uri {
		t.Errorf("got %+v, want a final document at %q", d, uri)
	}
	dec := resourcesync.NewDecoder(d.Body, resourcesync.WithTolerance(resourcesync.Strict))
	var all []resourcesync.Entry
	for e, err := range dec.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	h, err := dec.Header()
	if err != nil {
		t.Fatal(err)
	}
	return h, all
}

// TestListing: what the maps of a site aggregate is a Source of one set, in documents
// that a strict reader takes.
func TestListing(t *testing.T) {
	s := newSite(t, "testdata/site.txtar")
	c := s.client(t)
	l, err := Finder{Client: c}.Listing(context.Background(), s.URL+"/")
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Maps) != 18 || l.URI != s.URL+"/" || l.Skipped != 0 {
		t.Errorf("got %d maps of %q, %d skipped", len(l.Maps), l.URI, l.Skipped)
	}
	h, all := listed(t, l, l.URI)
	if h.Capability != resourcesync.CapabilityDescription || len(all) != 1 {
		t.Fatalf("got %+v, %+v; want a Source Description of one set", h, all)
	}
	h, all = listed(t, l, all[0].Loc)
	if h.Capability != resourcesync.CapabilityCapabilityList || len(all) != 1 || h.Link(resourcesync.RelUp) != l.URI {
		t.Fatalf("got %+v, %+v; want a Capability List of one document", h, all)
	}
	h, all = listed(t, l, all[0].Loc)
	var got []string
	for _, e := range all {
		got = append(got, strings.TrimPrefix(e.Loc, s.URL))
	}
	slices.Sort(got)
	// /nested is an Aggregation that a map describes.
	if want := []string{"/", "/chapter.html", "/frogs.pdf", "/newts.pdf", "/toad.gif"}; h.Capability != resourcesync.CapabilityResourceList || h.At.IsZero() || !slices.Equal(got, want) {
		t.Errorf("got %+v, %q; want a Resource List of %q", h, got, want)
	}
	if _, err := l.Load(context.Background(), s.URL+"/other"); !errors.Is(err, fetch.NotFound) {
		t.Errorf("another document: got %v, want %v", err, fetch.NotFound)
	}
}

// TestListingIsWholeOrNone: a list that may lack something would delete it.
func TestListingIsWholeOrNone(t *testing.T) {
	s := newSite(t, "testdata/hostile.txtar")
	c := s.client(t)
	var incomplete *IncompleteError
	for path, f := range map[string]Finder{
		"/claims":     {Client: c},
		"/large-head": {Client: c}, // is read up to a limit
		"/large-tag":  {Client: c}, // has an error in the middle
		"/away":       {Client: c},
		"/chain-1":    {Client: c, Depth: 1},
		"/chain-2":    {Client: c, Requests: 1},
	} {
		if l, err := f.Listing(context.Background(), s.URL+path); l != nil || !errors.As(err, &incomplete) {
			t.Errorf("%s: got %v, %v; want an IncompleteError", path, l, err)
		}
	}
	if _, err := (Finder{Client: c}).Listing(context.Background(), s.URL+"/cycle"); !errors.Is(err, ErrNotMap) {
		t.Errorf("no map: got %v, want %v", err, ErrNotMap)
	}
	if _, err := (Finder{Client: c}).Listing(context.Background(), s.URL+"/gone"); !errors.Is(err, fetch.NotFound) {
		t.Errorf("got %v, want %v", err, fetch.NotFound)
	}
	l, err := Finder{Client: c}.Listing(context.Background(), s.URL+"/self.atom?x")
	if err == nil {
		t.Errorf("got %+v", l)
	}
}

// TestCollector: each resource once, with the later of two times, and no more than one
// Resource List holds.
func TestCollector(t *testing.T) {
	day := func(n int) resourcesync.Datetime {
		d, err := resourcesync.ParseDatetime(fmt.Sprintf("2026-01-%02d", n))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	c := collector{entries: map[string]int{}, described: map[string]bool{}}
	for _, m := range []Map{
		{Aggregation: Aggregation{URI: "https://museum.example.org/g"}, Resources: []Resource{
			{URI: "https://museum.example.org/a", Modified: day(2), MediaType: "text/plain"},
			{URI: "https://museum.example.org/b#part"}, {URI: "urn:x:1"}, {URI: "https://museum.example.org/h"},
		}},
		{Aggregation: Aggregation{URI: "https://museum.example.org/h"}, Resources: []Resource{
			{URI: "https://museum.example.org/a", Modified: day(1)}, {URI: "https://museum.example.org/b", Modified: day(3), MediaType: "text"},
		}},
	} {
		if err := c.add(&m); err != nil {
			t.Fatal(err)
		}
	}
	got := c.documents()
	if len(got) != 2 || got[0].LastMod != day(2) || got[0].Type != "text/plain" || got[1].LastMod != day(3) || got[1].Type != "" || c.skipped != 1 {
		t.Errorf("got %+v, %d skipped", got, c.skipped)
	}
	many := Map{Aggregation: Aggregation{URI: "https://museum.example.org/m"}}
	for i := range maxListed {
		many.Resources = append(many.Resources, Resource{URI: fmt.Sprintf("https://museum.example.org/%d", i)})
	}
	if err := c.add(&many); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want %v", err, ErrTooLarge)
	}
}

// TestLongListing: more resources than a Resource List has are in its parts.
func TestLongListing(t *testing.T) {
	l := &Listing{URI: "https://museum.example.org/map.atom"}
	var entries []resourcesync.Entry
	for i := range resourcesync.MaxEntries + 1 {
		entries = append(entries, resourcesync.Entry{Loc: fmt.Sprintf("https://museum.example.org/%d", i)})
	}
	at, err := resourcesync.ParseDatetime("2026-01-02T03:04:05Z")
	if err == nil {
		err = l.write(entries, at)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, all := listed(t, l, l.URI)
	_, all = listed(t, l, all[0].Loc)
	index := all[0].Loc
	h, parts := listed(t, l, index)
	if h.Root != resourcesync.SitemapIndex || h.At != at || len(parts) != 2 || parts[0].At != at {
		t.Fatalf("got %+v, %d parts", h, len(parts))
	}
	n := 0
	for _, p := range parts {
		h, some := listed(t, l, p.Loc)
		if h.Link(resourcesync.RelIndex) != index || h.At != at {
			t.Errorf("part %+v", h)
		}
		n += len(some)
	}
	if n != len(entries) {
		t.Errorf("%d entries, want %d", n, len(entries))
	}
}

// TestMediaTypeThatCannotBeWritten is left out rather than the resource.
func TestMediaTypeThatCannotBeWritten(t *testing.T) {
	e := resourcesync.Entry{Loc: "https://museum.example.org/a", Metadata: resourcesync.Metadata{Type: "no/ type;"}}
	text, err := encodeDocument(resourcesync.Header{Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityDescription}}, []resourcesync.Entry{e})
	if err != nil || !strings.Contains(string(text), e.Loc) || strings.Contains(string(text), "no/ type") {
		t.Errorf("got %s, %v", text, err)
	}
}

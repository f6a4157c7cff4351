// Package replay reads what a Source publishes with nothing but the standard
// library, checks that it holds together, and rebuilds the set from it: from every
// Resource List and Resource Dump that is offered or archived, with the changes
// after its moment. Tests compare the outcome with the resources that there are.
//
// It shares no code with the rest of the module, so it makes none of its mistakes.
package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Reader returns the bytes that a URI has.
type Reader func(uri string) ([]byte, error)

// Document is one ResourceSync document.
type Document struct {
	URI     string `xml:"-"`
	XMLName xml.Name
	MD      Metadata `xml:"http://www.openarchives.org/rs/terms/ md"`
	Links   []Link   `xml:"http://www.openarchives.org/rs/terms/ ln"`
	URLs    []Entry  `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 url"`
	Parts   []Entry  `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 sitemap"`

	raw []byte
}

// Entry is an entry of a document.
type Entry struct {
	Loc     string   `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 loc"`
	LastMod string   `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 lastmod"`
	MD      Metadata `xml:"http://www.openarchives.org/rs/terms/ md"`
	Links   []Link   `xml:"http://www.openarchives.org/rs/terms/ ln"`
}

// Metadata is rs:md.
type Metadata struct {
	Capability string `xml:"capability,attr"`
	At         string `xml:"at,attr"`
	From       string `xml:"from,attr"`
	Until      string `xml:"until,attr"`
	Change     string `xml:"change,attr"`
	Datetime   string `xml:"datetime,attr"`
	Hash       string `xml:"hash,attr"`
	Length     string `xml:"length,attr"`
	Path       string `xml:"path,attr"`
}

// Link is rs:ln.
type Link struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
}

func (d *Document) isIndex() bool { return d.XMLName.Local == "sitemapindex" }

func link(links []Link, rel string) string {
	for _, l := range links {
		if l.Rel == rel {
			return l.Href
		}
	}
	return ""
}

// moment reads a datetime; the zero time is an attribute that is not there.
func moment(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339Nano, s)
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// checkBytes holds bytes against the length and the sha-256 that are given of them.
func checkBytes(uri string, m Metadata, data []byte) error {
	if m.Length != "" && m.Length != fmt.Sprint(len(data)) {
		return fmt.Errorf("%s: length %s is given, it has %d bytes", uri, m.Length, len(data))
	}
	want := sha256Of(m)
	if want == "" {
		return fmt.Errorf("%s: no sha-256 is given", uri)
	}
	if got := sum(data); got != want {
		return fmt.Errorf("%s: sha-256 %s is given, it has %s", uri, want, got)
	}
	return nil
}

func sha256Of(m Metadata) string {
	for hash := range strings.FieldsSeq(m.Hash) {
		if hexSum, ok := strings.CutPrefix(hash, "sha-256:"); ok {
			return hexSum
		}
	}
	return ""
}

// parse reads a document, after which there may be nothing but space.
func parse(uri string, data []byte) (*Document, error) {
	d := &Document{URI: uri, raw: data}
	dec := xml.NewDecoder(strings.NewReader(string(data)))
	if err := dec.Decode(d); err != nil {
		return nil, fmt.Errorf("%s: %w", uri, err)
	}
	for {
		switch tok, err := dec.Token(); text := tok.(type) {
		case nil:
			if !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("%s: after the root element: %w", uri, err)
			}
			return d, nil
		case xml.CharData:
			if strings.TrimSpace(string(text)) == "" {
				continue
			}
			return nil, fmt.Errorf("%s: %q follows the root element", uri, text)
		default:
			return nil, fmt.Errorf("%s: something follows the root element", uri)
		}
	}
}

// State is what a set holds: the sha-256 of each resource by its URI.
type State map[string]string

// Replayed is a set rebuilt from one snapshot and the changes after it.
type Replayed struct {
	URI   string // of the Resource List or Resource Dump
	At    time.Time
	State State
}

// Replay rebuilds the set from each of its snapshots: the Resource Lists with the
// Change Lists, the Resource Dumps with the Change Dumps.
func (s *Set) Replay() ([]Replayed, error) {
	var all []Replayed
	for n := range len(s.Lists) + len(s.Dumps) {
		r, err := s.ReplayOne(n)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// ReplayOne rebuilds the set from its n-th snapshot, the Resource Lists first.
func (s *Set) ReplayOne(n int) (Replayed, error) {
	if n < len(s.Lists) {
		return s.replayList(s.Lists[n])
	}
	return s.replayDump(s.Dumps[n-len(s.Lists)])
}

func (s *Set) replayList(snap Snapshot) (Replayed, error) {
	r := Replayed{URI: snap.URI, At: snap.At, State: State{}}
	for _, part := range snap.Parts {
		for _, e := range part.URLs {
			if r.State[e.Loc] != "" {
				return r, fmt.Errorf("%s: %s is listed twice", part.URI, e.Loc)
			}
			r.State[e.Loc] = sha256Of(e.MD)
		}
	}
	return r, s.follow(&r, s.Changes, func(d *Document) ([]change, error) { return listed(d) })
}

func (s *Set) replayDump(snap Snapshot) (Replayed, error) {
	r := Replayed{URI: snap.URI, At: snap.At, State: State{}}
	for _, part := range snap.Parts {
		packed, err := s.unpack(part)
		if err != nil {
			return r, err
		}
		for _, c := range packed {
			if r.State[c.uri] != "" {
				return r, fmt.Errorf("%s: %s is packed twice", part.URI, c.uri)
			}
			r.State[c.uri] = c.sum
		}
	}
	return r, s.follow(&r, s.ChangeDumps, s.unpack)
}

// change is one entry of a Change List or of a Change Dump Manifest; of a Resource
// Dump Manifest it has neither kind nor time.
type change struct {
	uri, kind, sum string
	at             time.Time
}

// follow applies the changes at r.At and later, and checks that there is no gap.
func (s *Set) follow(r *Replayed, lists []Interval, read func(*Document) ([]change, error)) error {
	if len(lists) == 0 || lists[0].From.After(r.At) {
		return fmt.Errorf("%s of %v: no list of changes reaches back to it", r.URI, r.At)
	}
	for _, l := range lists {
		if !l.Until.IsZero() && !l.Until.After(r.At) {
			continue
		}
		changes, err := read(l.Document)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if c.at.Before(r.At) {
				continue
			}
			if c.kind == "deleted" {
				delete(r.State, c.uri)
			} else {
				r.State[c.uri] = c.sum
			}
		}
	}
	return nil
}

// listed are the changes of a Change List, which has to be in order and within its interval.
func listed(d *Document) ([]change, error) {
	from, err := moment(d.MD.From)
	if err != nil {
		return nil, err
	}
	until, err := moment(d.MD.Until)
	if err != nil {
		return nil, err
	}
	var all []change
	last := from
	for _, e := range d.URLs {
		at, err := moment(e.MD.Datetime)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", d.URI, e.Loc, err)
		}
		if at.Before(last) || !until.IsZero() && !at.Before(until) {
			return nil, fmt.Errorf("%s: %s changed at %v, out of order or not before %v", d.URI, e.Loc, at, until)
		}
		if !slices.Contains([]string{"created", "updated", "deleted"}, e.MD.Change) {
			return nil, fmt.Errorf("%s: %s: change %q", d.URI, e.Loc, e.MD.Change)
		}
		last = at
		all = append(all, change{e.Loc, e.MD.Change, sha256Of(e.MD), at})
	}
	return all, nil
}

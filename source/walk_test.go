package source

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"instep/blob"
)

// walk is a small reader of its own kind: encoding/xml and nothing of ours but
// the bucket. It follows every link down from the Source Description.
type walk struct {
	bucket  blob.Bucket
	links   []string          // every document read
	state   map[string]string // URI to hash: the Resource List and then the changes since its at
	sitemap []string

	packed, archived int // packages read, documents that archives list
}

type page struct {
	XMLName xml.Name
	MD      md     `xml:"http://www.openarchives.org/rs/terms/ md"`
	Links   []ln   `xml:"http://www.openarchives.org/rs/terms/ ln"`
	Entries []item `xml:",any"`
}

type item struct {
	Loc   string `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 loc"`
	MD    md     `xml:"http://www.openarchives.org/rs/terms/ md"`
	Links []ln   `xml:"http://www.openarchives.org/rs/terms/ ln"`
}

type md struct {
	Capability string `xml:"capability,attr"`
	At         string `xml:"at,attr"`
	From       string `xml:"from,attr"`
	Until      string `xml:"until,attr"`
	Change     string `xml:"change,attr"`
	Datetime   string `xml:"datetime,attr"`
	Hash       string `xml:"hash,attr"`
}

type ln struct {
	Rel  string `xml:"rel,attr"`
	Href string `xml:"href,attr"`
}

func newWalk(b blob.Bucket) *walk { return &walk{bucket: b} }

func (w *walk) bytes(uri string) ([]byte, error) {
	key, ok := strings.CutPrefix(uri, testBase)
	if !ok {
		return nil, fmt.Errorf("%q does not lie below the base URL", uri)
	}
	text, err := blob.ReadAll(context.Background(), w.bucket, key, 100<<20)
	if err != nil {
		return nil, fmt.Errorf("dangling link: %w", err)
	}
	w.links = append(w.links, uri)
	return text, nil
}

func (w *walk) read(uri string) (page, error) {
	var p page
	text, err := w.bytes(uri)
	if err != nil {
		return p, err
	}
	if err := xml.NewDecoder(bytes.NewReader(text)).Decode(&p); err != nil {
		return p, fmt.Errorf("%q: %w", uri, err)
	}
	for _, l := range p.Links {
		if l.Rel == RelOnDemand || slices.Contains(w.links, l.Href) {
			continue
		}
		if _, err := w.bytes(l.Href); err != nil {
			return p, fmt.Errorf("%s of %q: %w", l.Rel, uri, err)
		}
	}
	return p, nil
}

// expect reads a document and checks what it is.
func (w *walk) expect(uri, capability string) (page, error) {
	p, err := w.read(uri)
	if err == nil && p.MD.Capability != capability {
		err = fmt.Errorf("%q: got capability %q, want %q", uri, p.MD.Capability, capability)
	}
	return p, err
}

// walk reads everything that can be reached; nothing is there before the first
// publication has its Source Description.
func (w *walk) walk() error {
	d, err := w.expect(testBase+"resourcesync/description.xml", "description")
	if err != nil {
		return err
	}
	for _, set := range d.Entries {
		if err := w.set(set.Loc); err != nil {
			return err
		}
	}
	if _, err := w.list(testBase+"resourcesync/resourcelist.xml", "resourcelist"); err != nil {
		return err
	}
	entries, err := w.list(testBase+"sitemap.xml", "")
	for _, en := range entries {
		w.sitemap = append(w.sitemap, en.Loc)
	}
	slices.Sort(w.sitemap)
	return err
}

func (w *walk) set(uri string) error {
	c, err := w.expect(uri, "capabilitylist")
	if err != nil {
		return err
	}
	at := map[string]map[string]string{} // states by their moments
	var windows []page
	dumpAt, dumpsFrom := "", ""
	for _, en := range c.Entries {
		kind, archived := strings.CutSuffix(en.MD.Capability, "-archive")
		documents := []string{en.Loc}
		if archived {
			if documents, err = w.archive(en.Loc, en.MD.Capability); err != nil {
				return err
			}
		}
		for _, uri := range documents {
			pages, err := w.documents(uri, kind)
			if err != nil {
				return err
			}
			switch kind {
			case "resourcelist":
				when := pages[0].MD.At
				if at[when] == nil { // it may be in the archive already
					at[when] = stateOf(pages)
				}
				if !archived {
					w.state = at[when]
				}
			case "changelist":
				windows = append(windows, pages...)
			case "resourcedump", "changedump":
				if err := w.packages(pages); err != nil {
					return err
				}
				switch en.MD.Capability {
				case "resourcedump":
					dumpAt = pages[0].MD.At
				case "changedump":
					dumpsFrom = pages[0].MD.From
					if err := contiguous(pages); err != nil {
						return err
					}
				}
			}
		}
	}
	if dumpAt != "" && dumpsFrom != "" && moment(dumpsFrom).After(moment(dumpAt)) {
		return fmt.Errorf("gap: Resource Dump at %s, Change Dumps from %s", dumpAt, dumpsFrom)
	}
	return w.replay(windows, at)
}

// archive returns what an archive lists.
func (w *walk) archive(uri, capability string) (uris []string, err error) {
	entries, err := w.list(uri, capability)
	for _, en := range entries {
		uris = append(uris, en.Loc)
	}
	w.archived += len(uris)
	return uris, err
}

func stateOf(pages []page) map[string]string {
	state := map[string]string{}
	for _, p := range pages {
		for _, en := range p.Entries {
			state[en.Loc] = en.MD.Hash
		}
	}
	return state
}

// packages checks that the packages of a dump are what it says, and so are the copies
// of their manifests.
func (w *walk) packages(dump []page) error {
	for _, p := range dump {
		for _, en := range p.Entries {
			zipped, err := w.bytes(en.Loc)
			if err != nil {
				return err
			}
			if got := fmt.Sprintf("sha-256:%x", sha256.Sum256(zipped)); got != en.MD.Hash {
				return fmt.Errorf("%q: got %s, want %s", en.Loc, got, en.MD.Hash)
			}
			archive, err := zip.NewReader(bytes.NewReader(zipped), int64(len(zipped)))
			if err != nil {
				return fmt.Errorf("%q: %w", en.Loc, err)
			}
			inside, err := fs.ReadFile(archive, "manifest.xml")
			if err != nil {
				return fmt.Errorf("%q: %w", en.Loc, err)
			}
			for _, l := range en.Links {
				if manifest, err := w.bytes(l.Href); err != nil || !bytes.Equal(manifest, inside) {
					return fmt.Errorf("%q is not the manifest of %q: %w", l.Href, en.Loc, err)
				}
			}
			w.packed++
		}
	}
	return nil
}

// replay applies the changes since the moments of states, which have to become one
// state. That the changes reach back to each of them, without a gap, is the point.
func (w *walk) replay(windows []page, at map[string]map[string]string) error {
	slices.SortStableFunc(windows, func(a, b page) int {
		return cmp.Or(moment(a.MD.From).Compare(moment(b.MD.From)), strings.Compare(b.MD.Until, a.MD.Until))
	})
	// A list is in the archive and still a current one, and then they are the same.
	windows = slices.CompactFunc(windows, func(a, b page) bool { return a.MD.From == b.MD.From })
	if err := contiguous(windows); err != nil {
		return err
	}
	for when, state := range at {
		if from := windows[0].MD.From; moment(from).After(moment(when)) {
			return fmt.Errorf("gap: Resource List at %s, changes from %s", when, from)
		}
		for _, window := range windows {
			window.apply(state, when)
		}
	}
	for when, state := range at {
		if !maps.Equal(state, w.state) {
			return fmt.Errorf("the Resource List at %s does not become what the present one does", when)
		}
	}
	return nil
}

func contiguous(windows []page) error {
	for i := range windows[1:] {
		if until, from := windows[i].MD.Until, windows[i+1].MD.From; until != from {
			return fmt.Errorf("gap: changes until %q, then from %q", until, from)
		}
	}
	return nil
}

// apply makes the changes since a moment.
func (p page) apply(state map[string]string, since string) {
	for _, en := range p.Entries {
		switch {
		case moment(en.MD.Datetime).Before(moment(since)):
		case en.MD.Change == "deleted":
			delete(state, en.Loc)
		default:
			state[en.Loc] = en.MD.Hash
		}
	}
}

// moment reads a datetime; what is none is the zero time.
func moment(s string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, s)
	return t
}

// list returns the entries of a list or of all parts of its index.
func (w *walk) list(uri, capability string) (all []item, err error) {
	parts, err := w.documents(uri, capability)
	for _, p := range parts {
		all = append(all, p.Entries...)
	}
	return all, err
}

// documents returns a document, or those that it is the index of.
func (w *walk) documents(uri, capability string) ([]page, error) {
	p, err := w.expect(uri, capability)
	if err != nil || p.XMLName.Local == "urlset" {
		return []page{p}, err
	}
	var parts []page
	for _, part := range p.Entries {
		q, err := w.expect(part.Loc, capability)
		if err != nil {
			return nil, err
		}
		if q.XMLName.Local != "urlset" {
			return nil, fmt.Errorf("%q: an index in an index", part.Loc)
		}
		parts = append(parts, q)
	}
	return parts, nil
}

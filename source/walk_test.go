package source

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
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
	windows []page // the Change Lists
}

type page struct {
	XMLName xml.Name
	MD      md     `xml:"http://www.openarchives.org/rs/terms/ md"`
	Links   []ln   `xml:"http://www.openarchives.org/rs/terms/ ln"`
	Entries []item `xml:",any"`
}

type item struct {
	Loc string `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 loc"`
	MD  md     `xml:"http://www.openarchives.org/rs/terms/ md"`
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

func (w *walk) read(uri string) (page, error) {
	key, ok := strings.CutPrefix(uri, testBase)
	if !ok {
		return page{}, fmt.Errorf("%q does not lie below the base URL", uri)
	}
	text, err := blob.ReadAll(context.Background(), w.bucket, key, 100<<20)
	if err != nil {
		return page{}, fmt.Errorf("dangling link: %w", err)
	}
	var p page
	if err := xml.NewDecoder(bytes.NewReader(text)).Decode(&p); err != nil {
		return page{}, fmt.Errorf("%q: %w", uri, err)
	}
	w.links = append(w.links, uri)
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
	at := ""
	for _, en := range c.Entries {
		switch en.MD.Capability {
		case "resourcelist":
			list, err := w.expect(en.Loc, "resourcelist")
			if err != nil {
				return err
			}
			at = list.MD.At
			entries, err := w.list(en.Loc, "resourcelist")
			if err != nil {
				return err
			}
			w.state = map[string]string{}
			for _, en := range entries {
				w.state[en.Loc] = en.MD.Hash
			}
		case "changelist":
			if w.windows, err = w.documents(en.Loc, "changelist"); err != nil {
				return err
			}
		}
	}
	return w.replay(at)
}

// replay applies the changes since at; that they reach back to at is the point.
func (w *walk) replay(at string) error {
	if from := w.windows[0].MD.From; moment(from).After(moment(at)) {
		return fmt.Errorf("gap: Resource List at %s, changes from %s", at, from)
	}
	for i, window := range w.windows {
		if i > 0 && window.MD.From != w.windows[i-1].MD.Until {
			return fmt.Errorf("gap: changes until %s, then from %s", w.windows[i-1].MD.Until, window.MD.From)
		}
		for _, en := range window.Entries {
			if moment(en.MD.Datetime).Before(moment(at)) {
				continue
			}
			if en.MD.Change == "deleted" {
				delete(w.state, en.Loc)
			} else {
				w.state[en.Loc] = en.MD.Hash
			}
		}
	}
	return nil
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

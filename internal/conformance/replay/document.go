package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Reader returns the bytes at a URI.
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

// Entry is a url or sitemap element of a document.
type Entry struct {
	Loc     string   `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 loc"`
	LastMod string   `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 lastmod"`
	MD      Metadata `xml:"http://www.openarchives.org/rs/terms/ md"`
	Links   []Link   `xml:"http://www.openarchives.org/rs/terms/ ln"`
}

// Metadata is an rs:md element.
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

// Link is an rs:ln element.
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

// parseDatetime returns the zero time for an absent attribute.
func parseDatetime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339Nano, s)
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

func checkBytes(uri string, m Metadata, data []byte) error {
	if m.Length != "" && m.Length != fmt.Sprint(len(data)) {
		return fmt.Errorf("%s: the entry states length %s, but the resource has %d bytes", uri, m.Length, len(data))
	}
	want := sha256Of(m)
	if want == "" {
		return fmt.Errorf("%s: the entry states no sha-256", uri)
	}
	if got := sum(data); got != want {
		return fmt.Errorf("%s: the entry states sha-256 %s, but the sha-256 of the bytes is %s", uri, want, got)
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

// parse accepts only white space after the root element.
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
				return nil, fmt.Errorf("%s: reading after the root element: %w", uri, err)
			}
			return d, nil
		case xml.CharData:
			if strings.TrimSpace(string(text)) == "" {
				continue
			}
			return nil, fmt.Errorf("%s: %q follows the root element", uri, text)
		default:
			return nil, fmt.Errorf("%s: an element or a comment follows the root element", uri)
		}
	}
}

// change is an entry of a Change List, a Resource List or the manifest of a dump.
type change struct {
	uri, kind, sum string    // the kind is "" for an entry of a Resource List or Resource Dump
	at             time.Time // the time of the change; zero if the kind is ""
}

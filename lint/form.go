package lint

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
)

// Form is the kind of a file or response, recognised by its name and first bytes.
type Form uint8

// The forms.
const (
	FormDocument Form = iota // any other file, for Checker.Document, which reports a file that is no document
	FormHTML                 // an HTML page, for Checker.HTML
	FormRobots               // a robots.txt, for Checker.Robots
	FormPackage              // a ZIP file, whose manifest is checked as a document
)

// HeadSize is the recommended number of bytes from the beginning of a file to pass to
// [Recognise] and [Claims].
const HeadSize = 4096

// Recognise returns the form of a file by its name (a path or URI) and its first bytes,
// which may be compressed with gzip. An HTML page that has the name of a document
// counts as FormDocument, so that the page is reported as a wrong document.
func Recognise(name string, head []byte) Form {
	head = unzipped(head)
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	switch {
	case hasAnyPrefix(text, "PK\x03\x04", "PK\x05\x06", "PK\x07\x08"):
		return FormPackage
	case hasAnyPrefix(text, "<") && isHTML(text) && !namedAsDocument(name):
		return FormHTML
	case !hasAnyPrefix(text, "<") && isRobots(name, text):
		return FormRobots
	}
	return FormDocument
}

// unzipped decompresses the beginning of a gzip file. It returns any other bytes unchanged.
func unzipped(head []byte) []byte {
	zr, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return head
	}
	text := make([]byte, HeadSize)
	n, _ := io.ReadFull(zr, text) // the error is ignored, because the gzip data is incomplete
	return text[:n]
}

func hasAnyPrefix(b []byte, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return bytes.HasPrefix(b, []byte(p)) })
}

// namedAsDocument reports whether a path or URI has a name that ResourceSync documents
// usually have: it ends with .xml, or is the well-known URI (1.1 §6.3.2).
func namedAsDocument(name string) bool {
	name, _, _ = strings.Cut(strings.ReplaceAll(name, `\`, "/"), "?")
	lower := strings.TrimSuffix(strings.ToLower(name), ".gz")
	return strings.HasSuffix(lower, ".xml") || strings.HasSuffix(lower, ".well-known/resourcesync")
}

// htmlElements has the elements with which an HTML page may begin: the tags html and
// head are optional.
var htmlElements = []string{"html", "head", "body", "title", "meta", "link", "script", "style", "p", "div", "center", "h1", "h2", "table"}

func isHTML(text []byte) bool {
	d := xml.NewDecoder(bytes.NewReader(text))
	d.Strict = false
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	for {
		tok, err := d.RawToken()
		if err != nil {
			return false
		}
		switch tok := tok.(type) {
		case xml.Directive:
			words := strings.Fields(strings.ToLower(string(tok)))
			if len(words) > 1 && words[0] == "doctype" {
				return words[1] == "html"
			}
		case xml.StartElement:
			return slices.Contains(htmlElements, strings.ToLower(tok.Name.Local))
		}
	}
}

func isRobots(name string, text []byte) bool {
	if !strings.HasPrefix(http.DetectContentType(text), "text/") {
		return false
	}
	if baseName(name) == "robots.txt" {
		return true
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		field, _, ok := strings.Cut(strings.ToLower(line), ":")
		return ok && slices.Contains([]string{"user-agent", "sitemap", "disallow", "allow", "crawl-delay"}, strings.TrimSpace(field))
	}
	return false
}

// Candidate reports whether a file in a directory may have to do with ResourceSync,
// because its name is that of an XML, HTML or ZIP file or of a robots.txt. Its content
// should then be passed to Claims.
func Candidate(name string) bool {
	switch path.Ext(strings.ToLower(name)) {
	case ".html", ".htm", ".xhtml", ".zip":
		return true
	}
	return namedAsDocument(name) || baseName(name) == "robots.txt"
}

// The usual file names of ResourceSync documents contain one of documentNames.
var documentNames = []string{
	"sitemap", "resourcelist", "resource-list", "resourcedump", "resource-dump", "changelist", "change-list", "changedump", "change-dump",
	"capabilitylist", "capability-list", "sourcedescription", "source-description", "resourcesync",
}

// The first bytes of each ResourceSync document contain at least one of documentSigns.
var documentSigns = []string{"<urlset", ":urlset", "<sitemapindex", ":sitemapindex", "<resync", "sitemaps.org/schemas/", "openarchives.org/rs"}

// Claims reports, by name and first bytes, whether a file in a directory is part of a
// Source or seems meant to be. Most XML and HTML files are not. Claims returns false for
// packages.
func Claims(name string, head []byte) bool {
	form := Recognise(name, head)
	head = unzipped(head)
	switch form {
	case FormRobots:
		return true
	case FormHTML:
		return bytes.Contains(bytes.ToLower(head), []byte("resourcesync"))
	case FormDocument:
		return containsAny(baseName(name), documentNames) || containsAny(string(head), documentSigns)
	}
	return false
}

func containsAny(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

func baseName(name string) string {
	return path.Base(strings.ToLower(strings.ReplaceAll(name, `\`, "/")))
}

// IsPlainSitemap reports whether a file is a plain Sitemap for search engines: its name
// contains "sitemap", and its first bytes do not mention ResourceSync. So a
// ResourceSync list is not a plain Sitemap, even if it lacks rs:md.
func IsPlainSitemap(name string, head []byte) bool {
	return strings.Contains(baseName(name), "sitemap") && !bytes.Contains(unzipped(head), []byte("openarchives.org/rs"))
}

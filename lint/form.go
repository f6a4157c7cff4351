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
	FormDocument Form = iota // any other file, for Checker.Document, which also reports files that are not documents
	FormHTML                 // an HTML page, for Checker.HTML
	FormRobots               // a robots.txt, for Checker.Robots
	FormPackage              // a ZIP file, whose manifest is a document
)

// HeadSize is the recommended number of first bytes for [Recognise] and [Claims].
const HeadSize = 4096

// Recognise returns the form of a file by its name (a path or URI) and first bytes,
// which may be compressed with gzip. An HTML page with the name of a document is a
// FormDocument, so that it is reported as a wrong document.
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

// unzipped decompresses the beginning of gzip data as far as possible. It returns other
// bytes unchanged.
func unzipped(head []byte) []byte {
	zr, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return head
	}
	text := make([]byte, HeadSize)
	n, _ := io.ReadFull(zr, text) // the error is ignored, because head is only the start of the data
	return text[:n]
}

func hasAnyPrefix(b []byte, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return bytes.HasPrefix(b, []byte(p)) })
}

// namedAsDocument reports whether a path or URI has a usual name of ResourceSync documents,
// which ends with .xml or is the well-known name (1.1 §6.3.2).
func namedAsDocument(name string) bool {
	name, _, _ = strings.Cut(strings.ReplaceAll(name, `\`, "/"), "?")
	lower := strings.TrimSuffix(strings.ToLower(name), ".gz")
	return strings.HasSuffix(lower, ".xml") || strings.HasSuffix(lower, ".well-known/resourcesync")
}

// htmlElements are elements with which an HTML page may begin, since most surrounding
// tags are optional.
var htmlElements = []string{"html", "head", "body", "title", "meta", "link", "script", "style", "p", "div", "center", "h1", "h2", "table"}

// isHTML reports whether the document type or the first element belongs to HTML.
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

// isRobots recognises a robots.txt by its name or its first meaningful line.
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

// Candidate reports whether a file in a directory has a name of XML, HTML, ZIP or
// robots.txt, so that its content should be examined by Claims.
func Candidate(name string) bool {
	switch path.Ext(strings.ToLower(name)) {
	case ".html", ".htm", ".xhtml", ".zip":
		return true
	}
	return namedAsDocument(name) || baseName(name) == "robots.txt"
}

// documentNames are common parts of document names.
var documentNames = []string{
	"sitemap", "resourcelist", "resource-list", "resourcedump", "resource-dump", "changelist", "change-list", "changedump", "change-dump",
	"capabilitylist", "capability-list", "sourcedescription", "source-description", "resourcesync",
}

// documentSigns has texts of which at least one is at the start of each document of any
// dialect.
var documentSigns = []string{"<urlset", ":urlset", "<sitemapindex", ":sitemapindex", "<resync", "sitemaps.org/schemas/", "openarchives.org/rs"}

// Claims reports whether a file in a directory has to do with ResourceSync, judged by its
// name and first bytes as in [Recognise]. Most XML and HTML files do not. Claims returns
// false for packages.
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

// baseName returns the last segment of a path or URI in lower case.
func baseName(name string) string {
	return path.Base(strings.ToLower(strings.ReplaceAll(name, `\`, "/")))
}

// IsPlainSitemap reports whether a file is a plain sitemap for search engines: it has the
// name of one, and its first bytes do not mention ResourceSync. The second condition
// excludes a ResourceSync list that lacks rs:md.
func IsPlainSitemap(name string, head []byte) bool {
	return strings.Contains(baseName(name), "sitemap") && !bytes.Contains(unzipped(head), []byte("openarchives.org/rs"))
}

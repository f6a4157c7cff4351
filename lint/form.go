package lint

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
)

// Form is what something is that was given to be checked, before it is read.
type Form uint8

// The forms.
const (
	FormDocument Form = iota // XML, for [Checker.Document]
	FormHTML                 // an HTML page, for [Checker.HTML]
	FormRobots               // a robots.txt, for [Checker.Robots]
	FormPackage              // a ZIP file, whose manifest is a document
	FormOther                // nothing of the kind
)

// HeadSize is how many of the first bytes [Recognise] likes to see.
const HeadSize = 4096

// Recognise tells by the name (a path or URI) and the first bytes of something what
// it is. head may be compressed with gzip; if it is shorter than HeadSize it counts as
// all there is. Of FormOther, what tells in words what it is and what was expected,
// and rule is the rule that is broken by offering it as a ResourceSync document.
func Recognise(name string, head []byte) (form Form, rule, what string) {
	if text, ok := unzipped(head); ok {
		head = text
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	switch {
	case len(text) == 0 && len(head) < HeadSize:
		return FormOther, "xml-well-formed", "there is nothing in it" + expected
	case hasAnyPrefix(text, "PK\x03\x04", "PK\x05\x06", "PK\x07\x08"):
		return FormPackage, "", ""
	case hasAnyPrefix(head, "\xfe\xff", "\xff\xfe", "\x00<", "<\x00"): // UTF-16
		return FormDocument, "", ""
	case hasAnyPrefix(text, "<"):
		return recogniseMarkup(name, text)
	case isRobots(name, text):
		return FormRobots, "", ""
	}
	return FormOther, "xml-well-formed", "this is " + otherText(text) + expected
}

const expected = "; expected a ResourceSync document in XML"

// unzipped is as much of gzip data as its first bytes tell.
func unzipped(head []byte) ([]byte, bool) {
	zr, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return nil, false
	}
	text := make([]byte, HeadSize)
	n, err := io.ReadFull(zr, text)
	return text[:n], n > 0 || err == io.EOF
}

func hasAnyPrefix(b []byte, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return bytes.HasPrefix(b, []byte(p)) })
}

// recogniseMarkup tells HTML from XML. A page where a document belongs is nothing to
// look for links in: it took the place of the document.
func recogniseMarkup(name string, text []byte) (form Form, rule, what string) {
	switch {
	case !isHTML(text):
		return FormDocument, "", ""
	case !NamedAsDocument(name):
		return FormHTML, "", ""
	}
	what = "this is an HTML page"
	if title := titleOf(text); title != "" {
		what += fmt.Sprintf(" with the title %q", title)
	}
	if isWall(text) {
		what += ", as it keeps programs out"
	}
	return FormOther, "root-element-urlset-or-sitemapindex", what + expected
}

// NamedAsDocument reports whether a path or URI has the name of a ResourceSync
// document: one in XML, or the well-known one (1.1 §6.3.2).
func NamedAsDocument(name string) bool {
	name, _, _ = strings.Cut(strings.ReplaceAll(name, `\`, "/"), "?")
	lower := strings.TrimSuffix(strings.ToLower(name), ".gz")
	return strings.HasSuffix(lower, ".xml") || strings.HasSuffix(lower, ".well-known/resourcesync")
}

// isHTML reports whether the first element or the document type is that of HTML.
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
			switch strings.ToLower(tok.Name.Local) {
			case "html", "head", "body", "title", "meta", "script":
				return true
			}
			return false
		}
	}
}

// titleOf is the title of an HTML page, if it is among its first bytes.
func titleOf(text []byte) string {
	lower := bytes.ToLower(text)
	_, after, ok := bytes.Cut(lower, []byte("<title"))
	if !ok {
		return ""
	}
	at := len(lower) - len(after)
	open := bytes.IndexByte(after, '>')
	end := bytes.Index(after, []byte("</title"))
	if open < 0 || end < open || len(lower) != len(text) {
		return ""
	}
	const most = 80
	title := strings.Join(strings.Fields(string(text[at+open+1:at+end])), " ")
	if len(title) > most {
		title = strings.ToValidUTF8(title[:most], "") + "…"
	}
	return title
}

// wallSigns is what stands in the pages that are shown to programs instead of what
// they asked for.
var wallSigns = []string{
	"just a moment", "cf-chl", "challenge-platform", "attention required", "captcha", "are you a robot", "access denied",
	"checking your browser", "_incapsula_", "verify you are human", "verifying you are human", "enable javascript and cookies",
	"ddos protection", "bot detection", "unusual traffic", "making sure you're not a bot",
}

func isWall(text []byte) bool {
	return containsAny(string(bytes.ToLower(text)), wallSigns)
}

// isRobots tells a robots.txt by its name or its first line that says something.
func isRobots(name string, text []byte) bool {
	if !isText(text) {
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
		field, _, ok := strings.Cut(line, ":")
		switch strings.ToLower(strings.TrimSpace(field)) {
		case "user-agent", "sitemap", "disallow", "allow", "crawl-delay":
			return ok
		}
		return false
	}
	return false
}

func isText(b []byte) bool { return strings.HasPrefix(http.DetectContentType(b), "text/") }

// otherText says what it is that does not even begin like markup.
func otherText(text []byte) string {
	kind, _, _ := strings.Cut(http.DetectContentType(text), ";")
	switch {
	case hasAnyPrefix(text, "{", "["):
		return "JSON"
	case hasAnyPrefix(text, "\xfd7zXZ\x00"):
		return "data compressed with xz"
	case len(text) > 262 && string(text[257:262]) == "ustar":
		return "a tar file"
	case hasAnyPrefix(text, "http://", "https://"):
		return "a list of URIs in plain text"
	case strings.HasPrefix(kind, "text/"):
		return "plain text"
	case kind == "application/octet-stream":
		return "binary data"
	}
	return "a file of type " + kind
}

// Candidate reports whether a file of that name, found among others, may be one of the
// forms: what is neither XML nor HTML, ZIP or robots.txt by its name is not.
func Candidate(name string) bool {
	switch path.Ext(strings.ToLower(name)) {
	case ".html", ".htm", ".xhtml", ".zip":
		return true
	}
	return NamedAsDocument(name) || baseName(name) == "robots.txt"
}

// documentNames are parts of the names that people give to documents.
var documentNames = []string{
	"sitemap", "resourcelist", "resource-list", "resourcedump", "resource-dump", "changelist", "change-list", "changedump", "change-dump",
	"capabilitylist", "capability-list", "sourcedescription", "source-description", "resourcesync",
}

// documentSigns are what stands at the begin of documents of every dialect.
var documentSigns = []string{"<urlset", ":urlset", "<sitemapindex", ":sitemapindex", "<resync", "sitemaps.org/schemas/", "openarchives.org/rs"}

// Claims reports whether a file that was found among others is, or by its name claims
// to be, a document for this package: there is much other XML in the world. name and
// head are those of Recognise; of an HTML page it has to be seen that it links a
// Source.
func Claims(name string, head []byte) bool {
	form, _, _ := Recognise(name, head)
	if text, ok := unzipped(head); ok {
		head = text
	}
	switch form {
	case FormRobots:
		return true
	case FormHTML:
		return bytes.Contains(bytes.ToLower(head), []byte("resourcesync"))
	case FormDocument, FormOther:
		return containsAny(baseName(name), documentNames) || form == FormDocument && containsAny(string(head), documentSigns)
	}
	return false
}

func containsAny(s string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

// baseName is the last part of a path or URI, in small letters.
func baseName(name string) string {
	return path.Base(strings.ToLower(strings.ReplaceAll(name, `\`, "/")))
}

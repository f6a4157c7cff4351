package resourcesync

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// reason is why one parser accepts a document and another does not.
type reason struct {
	name    string
	applies func(*sample) bool
}

// refusals are why documents are refused here that expat accepts.
var refusals = []reason{
	{"a limit is reached", func(s *sample) bool { return errors.Is(s.ours.err, LimitReached) }},
	{"a DTD", func(s *sample) bool {
		return errors.Is(s.ours.err, NotResourceSync) && strings.Contains(s.ascii(), "<!DOCTYPE")
	}},
	{"a root element of another vocabulary", func(s *sample) bool {
		root := s.expat[0].name
		return errors.Is(s.ours.err, NotResourceSync) && (root.Space != nsSitemap || root.Local != "urlset" && root.Local != "sitemapindex")
	}},
	{"md or ln in the namespace of a draft that nobody has published in", func(s *sample) bool {
		return errors.Is(s.ours.err, NotResourceSync) && slices.ContainsFunc(s.expat, func(e event) bool {
			return (e.name.Local == "md" || e.name.Local == "ln") && spaceOf(e.name.Space) == spaceForeign && strings.HasPrefix(e.name.Space, nsRSBase)
		})
	}},
	{"url or sitemap in no namespace or in that of another version of the Sitemap protocol", func(s *sample) bool {
		return errors.Is(s.ours.err, NotResourceSync) && slices.ContainsFunc(s.expat, func(e event) bool {
			return (e.name.Local == "url" || e.name.Local == "sitemap") && e.name.Space != nsSitemap && (e.name.Space == "" || strings.Contains(e.name.Space, "/schemas/sitemap/"))
		})
	}},
	{"another version of XML than 1.0", func(s *sample) bool {
		version, ok := s.declared("version")
		return errors.Is(s.ours.err, NotWellFormed) && ok && version != "1.0"
	}},
	{"an encoding that is not supported", func(s *sample) bool {
		encoding, ok := s.declared("encoding")
		return errors.Is(s.ours.err, NotWellFormed) && ok && !slices.Contains([]string{"utf-8", "utf-16", "us-ascii", "iso-8859-1", "windows-1252"}, encoding)
	}},
	{"half a character in UTF-16", func(s *sample) bool {
		return errors.Is(s.ours.err, NotWellFormed) && bytes.IndexByte(s.doc, 0) >= 0 && strings.ContainsRune(s.text(), utf8.RuneError)
	}},
	{"a reference longer than 64 bytes", func(s *sample) bool {
		return errors.Is(s.ours.err, NotWellFormed) && regexp.MustCompile(`&#0{60}`).MatchString(s.ascii())
	}},
}

// expatRefusals are why documents are accepted here that expat refuses.
var expatRefusals = []reason{
	{"white space before the XML declaration (Quirk 11)", func(s *sample) bool {
		return s.noted(func(n Note) bool { return n.Quirk == QuirkSpaceFirst })
	}},
	{"an encoding is declared that is not the document's", func(s *sample) bool {
		return s.noted(otherEncoding)
	}},
	{"a name of the fifth edition of XML 1.0", func(s *sample) bool {
		return fifthEdition.MatchString(aQuoted.ReplaceAllString(s.text(), ""))
	}},
	{"a byte that windows-1252 does not assign", func(s *sample) bool {
		encoding, _ := s.declared("encoding")
		return encoding == "windows-1252" && slices.ContainsFunc(s.doc, func(b byte) bool { return strings.IndexByte("\x81\x8d\x8f\x90\x9d", b) >= 0 })
	}},
}

// stdRefusals are why documents are accepted here that encoding/xml refuses.
var stdRefusals = append([]reason{
	{"an encoding other than UTF-8", func(s *sample) bool {
		encoding, ok := s.declared("encoding")
		return ok && encoding != "utf-8" || bytes.IndexByte(s.doc, 0) >= 0
	}},
}, expatRefusals...)

var (
	// spaceByReference finds white space that is written as a reference.
	spaceByReference = regexp.MustCompile(`&#(0*(9|10|13)|x0*[9aAdD]);`)
	// fifthEdition finds names with characters of which some came with the fifth edition.
	fifthEdition = regexp.MustCompile("<[^<>]*[\u0100-\U000EFFFF]")
	aQuoted      = regexp.MustCompile(`"[^"<]*"|'[^'<]*'`)
	aPseudoAttr  = regexp.MustCompile(`(\w+)\s*=\s*["']([^"']*)["']`)
)

// ascii is the document without what UTF-16 puts between characters of ASCII.
func (s *sample) ascii() string { return strings.ReplaceAll(string(s.doc), "\x00", "") }

// text is the document in UTF-8 if it is in that or in UTF-16.
func (s *sample) text() string {
	at := bytes.IndexByte(s.doc[:min(len(s.doc), 4)], '<')
	if len(s.doc) < 4 || bytes.IndexByte(s.doc[:4], 0) < 0 || at < 0 {
		return string(s.doc)
	}
	units := make([]uint16, len(s.doc)/2)
	for i := range units {
		low, high := 2*i+at%2, 2*i+1-at%2
		units[i] = uint16(s.doc[high])<<8 | uint16(s.doc[low])
	}
	return string(utf16.Decode(units))
}

// declared is a value in the XML declaration.
func (s *sample) declared(name string) (value string, ok bool) {
	declaration, _, _ := strings.Cut(s.ascii(), "?>")
	for _, m := range aPseudoAttr.FindAllStringSubmatch(declaration, -1) {
		if m[1] == name {
			return strings.ToLower(m[2]), true
		}
	}
	return "", false
}

func (s *sample) noted(what func(Note) bool) bool { return slices.ContainsFunc(s.ours.notes, what) }

// otherEncoding reports whether a note says that the declared encoding is not that of
// the document. Here its bytes decide.
func otherEncoding(n Note) bool { return n.Rule == "xml-well-formed" && n.Quirk == 0 }

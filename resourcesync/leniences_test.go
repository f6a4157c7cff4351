package resourcesync

import (
	"encoding/xml"
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// stdLeniences are why encoding/xml accepts documents that are refused here and by
// expat.
var stdLeniences = []reason{
	{"a part of a DTD", func(s *sample) bool { return aDTD.Match(s.doc) }},
	{"something before or after the root element", func(s *sample) bool {
		return !alone(s.std) || strings.Trim(s.outside(), xmlSpace) != ""
	}},
	{"an attribute or declaration of a namespace twice", func(s *sample) bool { return slices.ContainsFunc(s.std, event.twice) }},
	{"a prefix that is not declared, or no name on both sides of the colon", func(s *sample) bool { return slices.ContainsFunc(s.std, event.undeclared) }},
	{"a prefix declared as nothing, or one of XML's", func(s *sample) bool { return slices.ContainsFunc(s.std, event.reserved) }},
	{"white space before the XML declaration of what is no ResourceSync document either", func(s *sample) bool {
		return errors.Is(s.ours.err, NotResourceSync) && strings.HasPrefix(strings.TrimLeft(string(s.doc), xmlSpace), "<?xml") && s.doc[0] != '<'
	}},
	{"an XML declaration that is none, or in another place", func(s *sample) bool {
		text := strings.TrimLeft(strings.TrimPrefix(string(s.doc), "\ufeff"), xmlSpace)
		return strings.HasPrefix(text, "<?xml") && !aDeclaration.MatchString(text) || len(aTarget.FindAllString(text, 2)) > 1 || aTarget.MatchString(text) && !strings.HasPrefix(text, "<?xml")
	}},
	{"a processing instruction without a name", func(s *sample) bool { return noTarget.Match(s.doc) }},
	{"no white space before an attribute", func(s *sample) bool { return noSpace.Match(s.doc) }},
	{"a reference to half a character", func(s *sample) bool { return aSurrogate.Match(s.doc) }},
	{"bytes that are no character, in a comment or instruction", func(s *sample) bool { return !utf8.Valid(s.doc) || aControl.Match(s.doc) }},
}

var (
	aDeclaration = regexp.MustCompile(`^<\?xml\s+version\s*=\s*["']1\.0["'](\s+encoding\s*=\s*["'][A-Za-z][\w.-]*["'])?(\s+standalone\s*=\s*["'](yes|no)["'])?\s*\?>`)
	aName        = regexp.MustCompile(`^[\pL_]`)
	aComment     = regexp.MustCompile(`(?s)<!--.*?-->|<\?.*?\?>`)
	aTarget      = regexp.MustCompile(`(?i)<\?xml[\s?]`)
	aDTD         = regexp.MustCompile(`<!([^-\[]|-[^-]|\[[^C])`)
	noTarget     = regexp.MustCompile(`<\?(?:[^\pL_]|[\pL_][\pL\w.-]*(?:[^\pL\w.\s?-]|\?[^>]))`)
	noSpace      = regexp.MustCompile(`=\s*(?:"[^"<]*"|'[^'<]*')[^\s/>?]`)
	aSurrogate   = regexp.MustCompile(`&#(?:x[dD][89a-fA-F]|5[567])`)
	aControl     = regexp.MustCompile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
)

// alone reports whether there is one root element and no text beside it.
func alone(events []event) bool {
	depth, roots := 0, 0
	for _, e := range events {
		switch {
		case e.kind == '<':
			if depth == 0 {
				roots++
			}
			depth++
		case e.kind == '>':
			depth--
		case depth == 0 && strings.Trim(e.text, xmlSpace+"\ufeff") != "":
			return false
		}
	}
	return roots == 1
}

// outside is what the document has before its first and after its last tag, without
// byte order mark, comments and instructions.
func (s *sample) outside() string {
	doc := aComment.ReplaceAllString(strings.TrimPrefix(string(s.doc), "\ufeff"), "")
	tags := aTag.FindAllStringIndex(doc, -1)
	if tags == nil {
		return doc
	}
	return doc[:tags[0][0]] + doc[tags[len(tags)-1][1]:]
}

func (e event) twice() bool {
	names := make(map[xml.Name]bool)
	for _, a := range e.attrs {
		names[xml.Name{Space: a.Space, Local: a.Name}] = true
	}
	for _, a := range e.declares {
		names[a.Name] = true
	}
	return len(names) < len(e.attrs)+len(e.declares)
}

// undeclared looks for what encoding/xml leaves in place of a namespace: the prefix.
func (e event) undeclared() bool {
	bad := func(space, local string) bool {
		return space != "" && !strings.Contains(space, ":") || strings.Contains(local, ":") || !aName.MatchString(local)
	}
	return e.kind == '<' && bad(e.name.Space, e.name.Local) || slices.ContainsFunc(e.attrs, func(a Attr) bool { return bad(a.Space, a.Name) }) ||
		slices.ContainsFunc(e.declares, func(a xml.Attr) bool { return strings.Contains(a.Name.Local, ":") })
}

func (e event) reserved() bool {
	return slices.ContainsFunc(e.declares, func(a xml.Attr) bool {
		prefix := a.Name.Space == "xmlns"
		return prefix && a.Value == "" || a.Value == nsXMLNS || prefix && a.Name.Local == "xmlns" ||
			(prefix && a.Name.Local == "xml") != (a.Value == nsXML)
	})
}

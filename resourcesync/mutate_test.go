package resourcesync

import (
	"fmt"
	"html"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// mutator changes documents at random: some changes leave what a document means as
// it is, the others damage it.
type mutator struct{ *rand.Rand }

type mutation func(m mutator, doc string) string

// mutate makes up to three changes of a document and puts it into one of the forms
// that documents come in.
func (m mutator) mutate(doc string) []byte {
	for range m.IntN(3) {
		doc = gentle[m.IntN(len(gentle))](m, doc)
	}
	if m.IntN(2) == 0 {
		doc = harsh[m.IntN(len(harsh))](m, doc)
	}
	if m.IntN(4) == 0 {
		form := wireForms[m.IntN(len(wireForms))]
		if wire, ok := form.of(doc); ok && form.name != "gzip" {
			doc = wire
		}
	}
	if m.IntN(8) == 0 {
		doc = m.bytes(doc)
	}
	return []byte(doc)
}

func (m mutator) of(choices ...string) string { return choices[m.IntN(len(choices))] }

// insert puts what at a random place of doc.
func (m mutator) insert(doc, what string) string {
	at := m.IntN(len(doc) + 1)
	return doc[:at] + what + doc[at:]
}

// bytes damages a document without regard to what it is.
func (m mutator) bytes(doc string) string {
	if doc == "" {
		return doc
	}
	b := []byte(doc)
	at := m.IntN(len(b))
	end := min(len(b), at+1+m.IntN(20))
	switch m.IntN(5) {
	case 0:
		b[at] ^= 1 << m.IntN(8)
	case 1:
		b = slices.Delete(b, at, end)
	case 2:
		b = slices.Insert(b, at, b[at:end]...)
	case 3:
		b = b[:at]
	default:
		b = slices.Insert(b, at, byte(m.IntN(256)))
	}
	return string(b)
}

var (
	aTag       = regexp.MustCompile(`<[^<>!?]+>`)
	aStartTag  = regexp.MustCompile(`<[^<>!?/]+/?>`)
	anAttr     = regexp.MustCompile(`\s[\w:.-]+\s*=\s*(?:"[^"<]*"|'[^'<]*')`)
	aValue     = regexp.MustCompile(`"[^"<]*"`)
	aText      = regexp.MustCompile(`>[^<>]+<`)
	anEntry    = regexp.MustCompile(`(?s)<(?:url|sitemap)>.*?</(?:url|sitemap)>`)
	aReference = regexp.MustCompile(`&[^;]*;`)
)

// replace rewrites a random match of re.
func (m mutator) replace(doc string, re *regexp.Regexp, with func(string) string) string {
	all := re.FindAllStringIndex(doc, -1)
	if len(all) == 0 {
		return doc
	}
	at := all[m.IntN(len(all))]
	return doc[:at[0]] + with(doc[at[0]:at[1]]) + doc[at[1]:]
}

// swap exchanges two matches of re.
func (m mutator) swap(doc string, re *regexp.Regexp) string {
	all := re.FindAllStringIndex(doc, -1)
	if len(all) < 2 {
		return doc
	}
	i := m.IntN(len(all) - 1)
	a, b := all[i], all[i+1+m.IntN(len(all)-i-1)]
	return doc[:a[0]] + doc[b[0]:b[1]] + doc[a[1]:b[0]] + doc[a[0]:a[1]] + doc[b[1]:]
}

// gentle are changes that leave the meaning as it is, or nearly so.
var gentle = []mutation{
	func(m mutator, doc string) string { // a character as a reference
		return m.replace(doc, regexp.MustCompile(`>[^<>&]+<|"[^"<&]+"`), func(s string) string {
			runes := []rune(s)
			i := 1 + m.IntN(len(runes)-2)
			ref := fmt.Sprintf(m.of("&#%d;", "&#x%x;", "&#x%X;", "&#%08d;"), runes[i])
			return string(runes[:i]) + ref + string(runes[i+1:])
		})
	},
	func(m mutator, doc string) string { // the other quotes
		return m.replace(doc, aValue, func(s string) string {
			return "'" + strings.ReplaceAll(strings.Trim(s, `"`), "'", "&apos;") + "'"
		})
	},
	func(m mutator, doc string) string { // white space in tags
		return m.replace(doc, aTag, func(s string) string {
			s = strings.Replace(s, "=", m.of(" =", "= ", "\n=\t"), m.IntN(2))
			if strings.HasSuffix(s, "/>") {
				return strings.TrimSuffix(s, "/>") + m.of(" ", "\n", "\r\n\t") + "/>"
			}
			return strings.TrimSuffix(s, ">") + m.of(" ", "\n", "\r\n\t") + ">"
		})
	},
	func(m mutator, doc string) string { // text as a CDATA section, or part of it
		return m.replace(doc, aText, func(s string) string {
			text := html.UnescapeString(s[1 : len(s)-1])
			if strings.Contains(text, "]]>") || strings.ContainsAny(aReference.ReplaceAllString(text, ""), "&<\r") {
				return s
			}
			return "><![CDATA[" + text + "]]>" + m.of("", " ", "<![CDATA[]]>") + "<"
		})
	},
	func(m mutator, doc string) string { // comments and instructions
		piece := m.of("<!-- a -->", "<!---->", "<!-- <url> & -->", "<?p i?>", "<?xml-stylesheet href='x'?>", "<?p?>")
		return m.replace(doc, aText, func(s string) string {
			i := 1 + m.IntN(len(s)-1)
			return s[:i] + piece + s[i:]
		})
	},
	func(m mutator, doc string) string { // another prefix
		p := m.of("sync", "RS", "_", "r-1", "é")
		return strings.NewReplacer("xmlns:rs=", "xmlns:"+p+"=", "<rs:", "<"+p+":", "</rs:", "</"+p+":").Replace(doc)
	},
	func(m mutator, doc string) string { // a namespace declared where it is used
		return m.replace(doc, regexp.MustCompile(`<rs:`), func(string) string { return `<q:x xmlns:q="urn:q"/><rs:` })
	},
	func(m mutator, doc string) string { // no prefix
		return m.replace(doc, regexp.MustCompile(`<rs:(md|ln)`), func(s string) string {
			return "<" + strings.TrimPrefix(s, "<rs:") + ` xmlns="` + nsRS + `"`
		})
	},
	func(m mutator, doc string) string { // a prefix for the Sitemap protocol
		return regexp.MustCompile(`(</?)(urlset|sitemapindex|url|sitemap|loc|lastmod|changefreq|priority)\b`).
			ReplaceAllString(strings.Replace(doc, "xmlns=", "xmlns:s=", 1), "${1}s:${2}")
	},
	func(m mutator, doc string) string { // other line ends
		return strings.ReplaceAll(doc, "\n", m.of("\r\n", "\r", "\n\n"))
	},
	func(m mutator, doc string) string { return m.swap(doc, anAttr) },
	func(m mutator, doc string) string { // white space around and within values
		return m.replace(doc, regexp.MustCompile(`>[^<>\s]+<|"[^"<]*"`), func(s string) string {
			space := m.of(" ", "\n", "\t ", "\r\n", "&#32;", "&#10;", "&#x9;")
			i := []int{1, len(s) - 1, 1 + m.IntN(len(s)-1)}[m.IntN(3)]
			return s[:i] + space + s[i:]
		})
	},
	func(m mutator, doc string) string { // an end tag for an empty element
		return m.replace(doc, regexp.MustCompile(`<rs:(md|ln)[^<>]*/>`), func(s string) string {
			return strings.TrimSuffix(s, "/>") + m.of(">", "> ", "><x:y xmlns:x='urn:x'>z</x:y>") + "</rs:" + s[4:6] + ">"
		})
	},
	func(m mutator, doc string) string { // a declaration of another kind, or none
		_, after, _ := strings.Cut(doc, "?>")
		return m.of("", "<?xml version='1.0'?>", "<?xml version='1.0' standalone = 'yes' ?>", "<?xml\nversion=\"1.0\"\tencoding='utf-8'?>") + strings.TrimLeft(after, xmlSpace)
	},
	func(m mutator, doc string) string { return "\ufeff" + strings.TrimPrefix(doc, "\ufeff") },
	func(m mutator, doc string) string { // more elements and attributes of others
		return m.replace(doc, aStartTag, func(s string) string {
			return strings.TrimRight(s, "/>") + m.of(` xml:lang="en"`, ` xmlns:f="urn:f" f:g="h&#9;i"`, ` a="1"`) + s[len(strings.TrimRight(s, "/>")):]
		})
	},
	func(m mutator, doc string) string { // after the end
		return doc + m.of("\n", "<!-- end -->", "<?end?>\r\n", " \t")
	},
}

// harsh are changes that most often make a document another one, or none.
var harsh = []mutation{
	mutator.bytes,
	func(m mutator, doc string) string { // pieces of XML anywhere
		return m.insert(doc, m.of("<", ">", "/", `"`, "'", "&", "&amp;", "&#65;", "&lt;", "]]>", "<!--", "-->", "--", "<![CDATA[", "<a>", "</a>",
			"<a/>", "<?p ?>", "?>", " ", "\n", "=", ":", "x", "\x00", "\x01", "\x7f", "é", "\u0085", "\ufffe", "\ufffd", "\xff", "\xed\xa0\x80", "\xc0\x80"))
	},
	func(m mutator, doc string) string { // references that are none, and odd ones
		return m.replace(doc, regexp.MustCompile(`>[^<>]+<|"[^"<]*"`), func(s string) string {
			i := 1 + m.IntN(len(s)-1)
			return s[:i] + m.of("&", "&a;", "&amp", "&#;", "&#x;", "&#xG;", "&#0;", "&#1;", "&#xD800;", "&#xFFFF;", "&#x110000;", "&#-1;", "&#65",
				"&#X41;", "& amp;", "&nbsp;", "&#99999999999;", "&#x41;", "&quot;", "&#38;lt;", "&#"+strings.Repeat("0", 70)+"65;", "&#60;") + s[i:]
		})
	},
	func(m mutator, doc string) string { // a tag twice
		return m.replace(doc, aTag, func(s string) string { return s + s })
	},
	func(m mutator, doc string) string { // a tag less
		return m.replace(doc, aTag, func(string) string { return "" })
	},
	func(m mutator, doc string) string { return m.swap(doc, aTag) },
	func(m mutator, doc string) string { return m.swap(doc, aText) },
	func(m mutator, doc string) string { // an attribute twice
		return m.replace(doc, anAttr, func(s string) string { return s + s })
	},
	func(m mutator, doc string) string { // an attribute less
		return m.replace(doc, anAttr, func(string) string { return "" })
	},
	func(m mutator, doc string) string { // an attribute twice in one namespace
		return m.replace(doc, aStartTag, func(s string) string {
			end := len(strings.TrimRight(s, "/>"))
			return s[:end] + m.of(` xmlns:a="urn:1" xmlns:b="urn:1" a:c="" b:c=""`, ` xmlns:a="urn:1" xmlns:b="urn:2" a:c="" b:c=""`, ` xmlns="urn:1" xmlns:b="urn:1" c="" b:c=""`) + s[end:]
		})
	},
	func(m mutator, doc string) string { // names that are none, and odd ones
		return m.replace(doc, aStartTag, func(s string) string {
			end := len(strings.TrimRight(s, "/>"))
			return s[:end] + m.of(` 1="a"`, ` a:b:c="d"`, ` :a="b"`, ` a:="b"`, ` -a="b"`, ` é="b"`, ` a·="b"`, ` ͰΑ="b"`, ` 日本="b"`, ` a`, ` a=b`, ` a="b"c="d"`, ` xml:a="b"`, ` 😀="b"`, ` a = "<"`) + s[end:]
		})
	},
	func(m mutator, doc string) string { // declarations of namespaces
		return m.replace(doc, aStartTag, func(s string) string {
			end := len(strings.TrimRight(s, "/>"))
			return s[:end] + m.of(` xmlns=""`, ` xmlns:p=""`, ` xmlns:xml="urn:x"`, ` xmlns:xml="`+nsXML+`"`, ` xmlns:p="`+nsXML+`"`, ` xmlns:xmlns="urn:x"`,
				` xmlns:p="`+nsXMLNS+`"`, ` xmlns="`+nsRS+`"`, ` xmlns:rs="`+nsSitemap+`"`, ` xmlns:rs="urn:other"`, ` xmlns="urn:other"`, ` p:q="r"`, ` xmlns:p=" urn:x "`, ` xmlns:p="urn:&#120;" p:q="r"`) + s[end:]
		})
	},
	func(m mutator, doc string) string { // a namespace with another name
		return strings.Replace(doc, m.of(nsRS, nsSitemap), m.of("http://www.openarchives.org/rs/terms", "http://www.openarchives.org/rs/", "http://www.openarchives.org/rs/terms/1", nsSitemap+"/", "http://www.google.com/schemas/sitemap/0.84", ""), 1)
	},
	func(m mutator, doc string) string { // DTDs
		dtd := m.of("<!DOCTYPE urlset>", `<!DOCTYPE urlset SYSTEM "x.dtd">`, `<!DOCTYPE urlset [<!ENTITY a "b">]>`, `<!DOCTYPE urlset [<!ATTLIST url x CDATA "y">]>`, `<!ENTITY a "b">`, `<!doctype html>`)
		if m.IntN(3) == 0 {
			return m.insert(doc, dtd)
		}
		before, after, _ := strings.Cut(doc, "?>")
		return before + "?>" + dtd + after
	},
	func(m mutator, doc string) string { // around the document
		before := m.of("", "", "\n", " ", "<!-- -->", "x", "<a/>", "<?xml version='1.0'?>", "\ufeff")
		return before + doc + m.of("", "", "x", "<a/>", "<urlset/>", "</urlset>", "]]>", "&#32;", "<![CDATA[ ]]>", "\x00", "<", doc)
	},
	func(m mutator, doc string) string { // declarations
		_, after, _ := strings.Cut(doc, "?>")
		return m.of("<?xml version='1.1'?>", "<?xml version='2.0'?>", "<?xml?>", "<?xml encoding='utf-8'?>", "<?xml version='1.0' encoding='utf-16'?>", "<?xml version='1.0' encoding='iso-8859-1'?>",
			"<?xml version='1.0' encoding='us-ascii'?>", "<?xml version='1.0' encoding='windows-1252'?>", "<?xml version='1.0' encoding='iso-8859-15'?>", "<?xml version='1.0' encoding='utf-7'?>", "<?xml version='1.0' encoding='none'?>",
			"<?xml version='1.0' standalone='maybe'?>", "<?xml version='1.0' standalone='yes' encoding='utf-8'?>", "<?XML version='1.0'?>", "<?xml version='1.0' a='b'?>", "<?xml version='1.0'encoding='utf-8'?>", "<?xml version='1.0' encoding=''?>") + after
	},
	func(m mutator, doc string) string { // instructions and comments
		return m.insert(doc, m.of("<?xml p?>", "<?XmL p?>", "<?a:b c?>", "<? a?>", "<??>", "<?p<?>", "<!-- -- -->", "<!--->", "<!-- --->", "<! a>", "<![INCLUDE[", "<?é?>"))
	},
	func(m mutator, doc string) string { // entries that can't be used
		return m.replace(doc, anEntry, func(s string) string {
			return m.replace(s, regexp.MustCompile(`<loc>[^<]*</loc>`), func(loc string) string {
				return m.of("", loc+loc, "<loc/>", "<loc> </loc>", "<loc>a<b/>c</loc>", "<loc>relative</loc>", "<loc>https://example.org/&#9;a</loc>", loc+"<rs:md/><rs:md/>", "<rs:loc>https://example.org/</rs:loc>", "<loc xmlns='urn:x'>https://example.org/</loc>"+loc)
			})
		})
	},
	func(m mutator, doc string) string { // values that are none
		return m.replace(doc, aValue, func(string) string {
			return `"` + m.of("", " ", "x", "2024-02-30", "2024-05-01T00:00:00", "2024-05-01 00:00:00Z", "md5:x", "SHA256:00", "-1", "1e3", "99999999999999999999", "../a", "deleted", "Updated", "changelist", "ResourceList", "text", "Up", "next") + `"`
		})
	},
	func(m mutator, doc string) string { // an entry less, twice or in another place
		if m.IntN(2) == 0 {
			return m.swap(doc, anEntry)
		}
		return m.replace(doc, anEntry, func(s string) string {
			return m.of("", s+s, "<x>"+s+"</x>", s+"text", "<x:y xmlns:x='urn:x'>"+s+"</x:y>")
		})
	},
	func(m mutator, doc string) string { // deeper than allowed
		n := 1 + m.IntN(40)
		return m.replace(doc, anEntry, func(s string) string {
			return s + strings.Repeat("<d:d xmlns:d='urn:d'>", n) + strings.Repeat("</d:d>", n)
		})
	},
}

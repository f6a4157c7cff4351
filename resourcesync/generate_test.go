package resourcesync

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// docKind is what a document is: its root element and its capability. A plain
// sitemap has none.
type docKind struct {
	Root       Root
	Capability Capability
}

// docKinds are all kinds of document, plain sitemaps and a capability that only a
// community knows (1.1 §9) among them.
var docKinds = []docKind{
	{URLSet, ""},
	{SitemapIndex, ""},
	{URLSet, "x-community"},
	{SitemapIndex, "x-community"},
	{URLSet, CapabilityDescription},
	{SitemapIndex, CapabilityDescription},
	{URLSet, CapabilityCapabilityList},
	{URLSet, CapabilityResourceList},
	{SitemapIndex, CapabilityResourceList},
	{URLSet, CapabilityResourceDump},
	{SitemapIndex, CapabilityResourceDump},
	{URLSet, CapabilityResourceDumpManifest},
	{URLSet, CapabilityChangeList},
	{SitemapIndex, CapabilityChangeList},
	{URLSet, CapabilityChangeDump},
	{SitemapIndex, CapabilityChangeDump},
	{URLSet, CapabilityChangeDumpManifest},
	{URLSet, CapabilityResourceListArchive},
	{SitemapIndex, CapabilityResourceListArchive},
	{URLSet, CapabilityResourceDumpArchive},
	{SitemapIndex, CapabilityResourceDumpArchive},
	{URLSet, CapabilityChangeListArchive},
	{SitemapIndex, CapabilityChangeListArchive},
	{URLSet, CapabilityChangeDumpArchive},
	{SitemapIndex, CapabilityChangeDumpArchive},
}

func (k docKind) is(all ...Capability) bool { return slices.Contains(all, k.Capability) }

func (k docKind) snapshot() bool {
	return k.is(CapabilityResourceList, CapabilityResourceDump, CapabilityResourceDumpManifest)
}

func (k docKind) changes() bool {
	return k.is(CapabilityChangeList, CapabilityChangeDump, CapabilityChangeDumpManifest)
}

func (k docKind) manifest() bool {
	return k.is(CapabilityResourceDumpManifest, CapabilityChangeDumpManifest)
}

// listsChanges reports whether each entry is a change.
func (k docKind) listsChanges() bool {
	return k.Root == URLSet && k.is(CapabilityChangeList, CapabilityChangeDumpManifest)
}

// entriesHaveAt reports whether entries may say at and completed (1.1 Appendix A,
// Archives §3, §4).
func (k docKind) entriesHaveAt() bool {
	return k.is(CapabilityResourceDump, CapabilityResourceListArchive, CapabilityResourceDumpArchive) ||
		k.Root == SitemapIndex && k.is(CapabilityResourceList)
}

// entriesHaveFrom reports the same of from and until.
func (k docKind) entriesHaveFrom() bool {
	return k.is(CapabilityChangeDump, CapabilityChangeListArchive, CapabilityChangeDumpArchive) ||
		k.Root == SitemapIndex && k.is(CapabilityChangeList)
}

// document is a generated document.
type document struct {
	Header  Header
	Entries []Entry
}

func genKind() *rapid.Generator[docKind] { return rapid.SampledFrom(docKinds) }

// genDocument makes documents of all kinds that the standard allows and that an
// Encoder writes.
func genDocument() *rapid.Generator[document] {
	return rapid.Custom(func(t *rapid.T) document {
		k := genKind().Draw(t, "kind")
		d := document{
			Header:  genHeader(k).Draw(t, "header"),
			Entries: rapid.SliceOfN(genEntry(k), 0, 6).Draw(t, "entries"),
		}
		if len(d.Entries) == 0 {
			d.Entries = nil
		}
		slices.SortStableFunc(d.Entries, func(a, b Entry) int {
			return a.Metadata.Datetime.Time().Compare(b.Metadata.Datetime.Time())
		})
		return d
	})
}

// The years of generated times: those of a header lie around those of any entry.
const (
	firstYear, entryYear, middleYear, untilYear, lastYear = 0, 1990, 2010, 2030, 9998
)

// genHeader makes headers of kind k.
func genHeader(k docKind) *rapid.Generator[Header] {
	return rapid.Custom(func(t *rapid.T) Header {
		h := Header{Root: k.Root, RootAttrs: genAttrs(t), Foreign: genForeign(t)}
		if k.Capability == "" {
			return h
		}
		h.Capability = k.Capability
		switch {
		case k.snapshot():
			h.At, h.Completed = genInterval(t, firstYear, entryYear, untilYear)
		case k.changes():
			h.From, h.Until = genInterval(t, firstYear, entryYear, untilYear)
		}
		h.Attrs = genAttrs(t)
		rels := []string{"describedby", "license", "https://example.org/rel#Odd"}
		if k.Root == URLSet {
			rels = append(rels, "index")
		}
		for range rapid.IntRange(0, 2).Draw(t, "links of the root") {
			h.Links = append(h.Links, genLink(t, rapid.SampledFrom(rels).Draw(t, "rel")))
		}
		if k.Capability != CapabilityDescription {
			h.Links = append(h.Links, Link{Rel: "up", Href: genURI(t)})
		}
		return h
	})
}

// genInterval makes a moment in the years from lo to mid and perhaps one after it.
func genInterval(t *rapid.T, lo, mid, hi int) (from, until Datetime) {
	from = genDatetime(t, lo, mid-1)
	switch rapid.IntRange(0, 3).Draw(t, "end of the interval") {
	case 0:
	case 1:
		until = from
		if mid == entryYear { // of a header: entries come in between
			until = genDatetime(t, hi, lastYear)
		}
	default:
		until = genDatetime(t, hi, lastYear)
	}
	return from, until
}

// genEntry makes entries of documents of kind k. Their times are between those of
// generated headers.
func genEntry(k docKind) *rapid.Generator[Entry] {
	return rapid.Custom(func(t *rapid.T) Entry {
		e := Entry{Loc: genURI(t), Foreign: genForeign(t)}
		if rapid.Bool().Draw(t, "has lastmod") {
			e.LastMod = genDatetime(t, firstYear, lastYear)
		}
		e.ChangeFreq = rapid.SampledFrom([]ChangeFreq{"", "", Always, Hourly, Daily, Weekly, Monthly, Yearly, Never}).Draw(t, "changefreq")
		if p := rapid.SampledFrom([]string{"", "", "0", "1", "1.0", "0.5", ".25", "1.", "0.333333333333333"}).Draw(t, "priority"); p != "" {
			e.Priority, _ = ParsePriority(p)
		}
		if k.Capability == "" {
			return e
		}
		genEntryMetadata(t, k, &e.Metadata)
		for range rapid.IntRange(0, 3).Draw(t, "links") {
			e.Links = append(e.Links, genEntryLink(t, k))
		}
		return e
	})
}

func genEntryMetadata(t *rapid.T, k docKind, m *Metadata) {
	switch {
	case k.is(CapabilityDescription) && k.Root == URLSet:
		m.Capability = CapabilityCapabilityList
	case k.is(CapabilityCapabilityList):
		m.Capability = rapid.SampledFrom(docKinds[2:]).Draw(t, "capability").Capability
	case k.listsChanges():
		m.Change = rapid.SampledFrom([]Change{Created, Updated, Deleted}).Draw(t, "change")
		if rapid.IntRange(0, 3).Draw(t, "has datetime") > 0 {
			m.Datetime = genDatetime(t, entryYear, untilYear-1)
		}
	case k.entriesHaveAt():
		m.At, m.Completed = genInterval(t, firstYear, middleYear, middleYear)
	case k.entriesHaveFrom():
		m.From, m.Until = genInterval(t, firstYear, middleYear, middleYear)
	}
	if rapid.Bool().Draw(t, "is described") {
		m.Digests, m.Length, m.Type, m.Encoding = genRepresentation(t)
		m.Attrs = genAttrs(t)
	}
	if k.manifest() && m.Change != Deleted {
		m.Path = genPath(t)
	}
}

// entryRelations are the relations of §14 and those of dumps (1.1 §11, §13).
var entryRelations = []string{
	"duplicate", "alternate", "canonical", "describedby", "describes", "memento", "timegate",
	"timemap", "collection", "via", "contents", "license", "https://example.org/rel/Part-Of",
}

func genEntryLink(t *rapid.T, k docKind) Link {
	if k.listsChanges() && rapid.IntRange(0, 4).Draw(t, "a patch") == 0 {
		l := genLink(t, "http://www.openarchives.org/rs/terms/patch")
		l.Type = "application/json-patch+json"
		if k.manifest() {
			l.Path = genPath(t)
		}
		return l
	}
	l := genLink(t, rapid.SampledFrom(entryRelations).Draw(t, "rel"))
	if k.manifest() && rapid.Bool().Draw(t, "link has path") {
		l.Path = genPath(t)
	}
	return l
}

func genLink(t *rapid.T, rel string) Link {
	l := Link{Rel: rel, Href: genURI(t)}
	if rapid.Bool().Draw(t, "is bare") {
		return l
	}
	l.Digests, l.Length, l.Type, l.Encoding = genRepresentation(t)
	if rapid.Bool().Draw(t, "has modified") {
		l.Modified = genDatetime(t, firstYear, lastYear)
	}
	l.Pri = rapid.SampledFrom([]int{0, 0, 1, 2, 999_999}).Draw(t, "pri")
	l.Attrs = genAttrs(t)
	return l
}

func genRepresentation(t *rapid.T) (ds Digests, n Length, mediaType, encoding string) {
	for range rapid.IntRange(0, 3).Draw(t, "digests") {
		alg := algorithms[rapid.IntRange(1, len(algorithms)-1).Draw(t, "algorithm")]
		sum := make([]byte, alg.size)
		first, last := rapid.Byte().Draw(t, "first byte"), rapid.Byte().Draw(t, "last byte")
		for i := range sum {
			sum[i] = first + byte(i)*last
		}
		d, err := NewDigest(alg.name, sum)
		if err != nil {
			panic(err)
		}
		ds = append(ds, d)
	}
	n = rapid.SampledFrom([]Length{{}, Bytes(0), Bytes(1), Bytes(1 << 40), Bytes(math.MaxInt64)}).Draw(t, "length")
	mediaType = rapid.SampledFrom([]string{"", "text/html", "application/ld+json", "a/b"}).Draw(t, "type")
	if mediaType != "" && rapid.IntRange(0, 3).Draw(t, "has parameters") == 0 {
		mediaType += `; note="` + genText(t) + `"`
	}
	encoding = rapid.SampledFrom([]string{"", "gzip", "br", "gzip, br", "größer & <odd>"}).Draw(t, "encoding")
	return ds, n, mediaType, encoding
}

// genDatetime makes datetimes of every precision and offset, in the years given.
func genDatetime(t *rapid.T, from, to int) Datetime {
	s := fmt.Sprintf("%04d", rapid.IntRange(from, to).Draw(t, "year"))
	precision := rapid.IntRange(0, 5+maxFraction).Draw(t, "precision")
	if precision > 0 {
		s += fmt.Sprintf("-%02d", rapid.IntRange(1, 12).Draw(t, "month"))
	}
	if precision > 1 {
		s += fmt.Sprintf("-%02d", rapid.IntRange(1, 28).Draw(t, "day"))
	}
	if precision > 2 {
		s += fmt.Sprintf("T%02d:%02d", rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute"))
	}
	if precision > 3 {
		s += fmt.Sprintf(":%02d", rapid.IntRange(0, 59).Draw(t, "second"))
	}
	if precision > 4 {
		digits := fmt.Sprintf("%018d", rapid.Int64Range(0, 999_999_999_999_999_999).Draw(t, "fraction"))
		s += "." + digits[:max(precision-5, 1)]
	}
	if precision > 2 {
		s += rapid.SampledFrom([]string{"Z", "Z", "+00:00", "-00:00", "+02:00", "-23:59", "+14:00", "+05:45"}).Draw(t, "offset")
	}
	d, err := ParseDatetime(s)
	if err != nil {
		panic(err)
	}
	return d
}

// genURI makes absolute URIs: of several schemes, with an IRI's characters encoded.
func genURI(t *rapid.T) string {
	start := rapid.SampledFrom([]string{
		"https://museum.example.org/", "http://example.org:8080/a/", "https://[2001:db8::1]/", "https://user@example.org/;p=1/",
		"ftp://example.org/", "info:x/", "HTTPS://xn--mnchen-3ya.example.org/",
	}).Draw(t, "start")
	segments := rapid.SliceOfN(rapid.SampledFrom([]string{
		"a", "object-17", "r%C3%A4s", "%e6%97%a5", "~x", "a%20b", "%3Cb%3E", ".", "..", "'quoted'", "!$&()*+,;=:@", "",
	}), 0, 4).Draw(t, "segments")
	end := rapid.SampledFrom([]string{"", "", "/", "?a=1&b=2&amp;c", "?q=%26", "#part", "?#"}).Draw(t, "end")
	return start + strings.Join(segments, "/") + end
}

func genPath(t *rapid.T) string {
	segments := rapid.SliceOfN(rapid.SampledFrom([]string{
		"resources", "a b", "räs", "日本", "...", ".hidden", "x&y", `"q"`, "<t>", " ", "\t", "😀", "a:b",
	}), 1, 4).Draw(t, "path")
	return "/" + strings.Join(segments, "/")
}

// oddRunes are characters that are easily lost on the way through XML and encodings.
var oddRunes = []rune("abc01 \t\n\r\"'&<>;]-%\u0085\u00a0é€ÿ\u2028日\ufffd\ue000😀\U0010ffff")

func genText(t *rapid.T) string {
	return string(rapid.SliceOfN(rapid.SampledFrom(oddRunes), 0, 8).Draw(t, "text"))
}

// foreignSpaces are namespaces of other vocabularies.
var foreignSpaces = []string{
	"https://example.org/ns", "urn:x", "http://www.w3.org/2001/XMLSchema-instance", "https://example.org/?a=1&b=\"<é>\"", "http://purl.org/dc/terms/",
}

// genAttrs makes attributes that the standard does not define.
func genAttrs(t *rapid.T) []Attr {
	if rapid.IntRange(0, 3).Draw(t, "has attributes") > 0 {
		return nil
	}
	var attrs []Attr
	for range rapid.IntRange(1, 3).Draw(t, "attributes") {
		a := Attr{Name: rapid.SampledFrom([]string{"note", "größe", "_", "href", "length", "rel"}).Draw(t, "attribute"), Value: genText(t)}
		a.Space = rapid.SampledFrom(foreignSpaces).Draw(t, "namespace")
		if rapid.IntRange(0, 5).Draw(t, "of XML") == 0 {
			a.Space, a.Name = nsXML, "lang"
		}
		same := func(o Attr) bool { return o.Space == a.Space && o.Name == a.Name }
		if !slices.ContainsFunc(attrs, same) {
			attrs = append(attrs, a)
		}
	}
	return attrs
}

var (
	escapeText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\r", "&#13;")
	escapeAttr = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\r", "&#13;", "\n", "&#10;", "\t", "&#9;", `"`, "&quot;")
)

// genForeign makes elements of other vocabularies, in the form in which they are kept.
func genForeign(t *rapid.T) string {
	if rapid.IntRange(0, 3).Draw(t, "has elements") > 0 {
		return ""
	}
	var b strings.Builder
	for range rapid.IntRange(1, 2).Draw(t, "elements") {
		genElement(t, &b, nil, 0)
	}
	return b.String()
}

// declared is a prefix and what it stands for.
type declared struct{ prefix, uri string }

// genElement writes an element that declares each prefix where it is first used.
func genElement(t *rapid.T, b *strings.Builder, scope []declared, depth int) {
	declare := func(name, uri string) string {
		prefix, _, ok := strings.Cut(name, ":")
		if !ok {
			prefix = ""
		}
		for i := len(scope) - 1; i >= 0; i-- {
			if scope[i].prefix == prefix {
				if scope[i].uri == uri {
					return ""
				}
				break
			}
		}
		scope = append(slices.Clip(scope), declared{prefix, uri})
		return strings.TrimSuffix(" xmlns:"+prefix, ":") + `="` + escapeAttr.Replace(uri) + `"`
	}
	spaces := foreignSpaces
	if depth > 0 {
		spaces = append([]string{nsSitemap, nsRS, nsXML + "/other"}, foreignSpaces...)
	}
	name := rapid.SampledFrom([]string{"a", "x:loc", "y:md", "url", "größe", "x:urlset"}).Draw(t, "element")
	b.WriteString("<" + name + declare(name, rapid.SampledFrom(spaces).Draw(t, "namespace")))
	if rapid.Bool().Draw(t, "has an attribute") {
		// A prefix of its own: the element's may stand for something else already.
		attr := rapid.SampledFrom([]string{"plain", "z:b", "xml:lang"}).Draw(t, "attribute")
		if attr == "z:b" {
			b.WriteString(declare(attr, rapid.SampledFrom(foreignSpaces).Draw(t, "namespace")))
		}
		b.WriteString(" " + attr + `="` + escapeAttr.Replace(genText(t)) + `"`)
	}
	switch n := rapid.IntRange(0, 3).Draw(t, "content"); {
	case n == 0:
		b.WriteString("/>")
		return
	case n > 1 && depth < 3:
		b.WriteByte('>')
		genElement(t, b, scope, depth+1)
	default:
		b.WriteByte('>')
	}
	b.WriteString(escapeText.Replace(genText(t)) + "</" + name + ">")
}

// plainMetadata are the attributes of an rs:md that the standard has.
func plainMetadata(m *Metadata) map[string]string {
	return fields("capability", string(m.Capability), "at", m.At.String(), "completed", m.Completed.String(), "from", m.From.String(),
		"until", m.Until.String(), "change", string(m.Change), "datetime", m.Datetime.String(), "hash", m.Digests.String(),
		"length", lengthText(m.Length), "type", m.Type, "encoding", m.Encoding, "path", m.Path)
}

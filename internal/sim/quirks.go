package sim

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// quirks are the deviations in docs/quirks.md that appear in documents or responses.
var quirks = slices.Concat(documentQuirks, capabilityQuirks, timeQuirks, uriQuirks, fixityQuirks, packageQuirks, httpQuirks)

func quirk(number, says string, set func(*Switch)) *Switch {
	sw := &Switch{Name: number, Says: says, Of: Always, Share: 1}
	set(sw)
	return sw
}

func inDocuments(number, says string, change func(*call, *document)) *Switch {
	return quirk(number, says, func(sw *Switch) {
		sw.doc = func(c *call, _ Switched, d *document) { change(c, d) }
	})
}

func inBytes(number, says string, change func(c *call, text []byte) []byte) *Switch {
	return quirk(number, says, func(sw *Switch) { sw.raw = change })
}

func inAnswers(number, says string, change func(*call, *answer)) *Switch {
	return quirk(number, says, func(sw *Switch) { sw.answer = change })
}

var documentQuirks = []*Switch{
	inDocuments("1", "the Sitemap namespace is bound to a prefix", func(_ *call, d *document) { d.prefix = "sm:" }),
	inDocuments("2", "the ResourceSync namespace lacks the slash at its end", func(_ *call, d *document) { d.rs = strings.TrimSuffix(d.rs, "/") }),
	inDocuments("3", "documents have the form of D-Lib Magazine 2013, with the newest change first", dlib),
	inDocuments("4", "documents have the form of mid-2013: \"modified\" on the root, and rel=\"resourcesync\" instead of rel=\"up\"", mid2013),
	inDocuments("5", "an index is a urlset, and its entries have the capability of the index", func(_ *call, d *document) {
		if d.root == "sitemapindex" {
			d.root = "urlset"
			for i := range d.entries {
				d.entries[i] = d.entries[i].with(attr{"capability", d.md().get("capability")})
			}
		}
	}),
	inDocuments("6", "Resource Lists have three pages, linked by rel=\"next\"", paginate),
	inBytes("7", "a file has two XML documents, one after the other", func(_ *call, text []byte) []byte { return append(text, text...) }),
	inDocuments("8", "rs:md is after rs:ln, and both are before loc", func(_ *call, d *document) {
		slices.Reverse(d.head)
		for _, e := range d.entries {
			slices.Reverse(e)
		}
	}),
	inDocuments("9", "documents have an xml-stylesheet instruction and xsi:schemaLocation", func(_ *call, d *document) {
		d.before += "<?xml-stylesheet type=\"text/xsl\" href=\"/style.xsl\"?>\n"
		d.attrs = append(d.attrs, attr{"xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance"}, attr{"xsi:schemaLocation", sitemapNamespace + " sitemap.xsd"})
	}),
	inBytes("10", "documents are in ISO-8859-1, with a comment that is not ASCII", func(_ *call, text []byte) []byte {
		return bytes.Replace(text, []byte(`encoding="UTF-8"?>`), []byte("encoding=\"ISO-8859-1\"?>\n<!-- caf\xe9 -->"), 1)
	}),
	inBytes("11", "there is white space before the XML declaration", func(_ *call, text []byte) []byte { return append([]byte("\n  "), text...) }),
	inBytes("12", "documents are compressed with gzip, without a Content-Encoding header", func(_ *call, text []byte) []byte { return gzipped(text) }),
	inAnswers("13", "documents are served as text/html", func(_ *call, a *answer) {
		if a.document {
			a.header.Set("Content-Type", "text/html; charset=utf-8")
		}
	}),
	quirk("14", "the Source Description is at sourcedescription.xml, and not at its well-known URI", func(sw *Switch) {
		sw.inbound = func(c *call) {
			switch c.r.URL.Path {
			case c.prefix + ".well-known/resourcesync":
				c.setPath(c.prefix + "nothing")
			case c.prefix + "sourcedescription.xml":
				c.setPath(c.prefix + "resourcesync/description.xml")
			}
		}
	}),
	inAnswers("15", "the HTML link rel=\"resourcesync\" leads to the Source Description", func(c *call, a *answer) {
		if c.path == "" {
			a.html(http.StatusOK, strings.ReplaceAll(c.home(), "capabilitylist.xml", "description.xml"))
		}
	}),
	inAnswers("16", "robots.txt has several Sitemap lines, in upper and lower case, and the first names a plain Sitemap", func(c *call, a *answer) {
		if c.path == "robots.txt" {
			a.bytes(fmt.Appendf(nil, "SITEMAP: %ssitemap.xml\nsitemap:%sresourcesync/resourcelist.xml\n", c.base(), c.base()))
		}
	}),
}

var capabilityQuirks = []*Switch{
	inDocuments("17", "capabilities are in camel case", func(_ *call, d *document) {
		for _, n := range d.allMD() {
			n.change("capability", strings.NewReplacer("list", "List", "dump", "Dump").Replace)
		}
	}),
	inDocuments("18", "the Capability List names an unknown capability", func(c *call, d *document) {
		if d.is("capabilitylist") {
			d.add(c.base()+"notifications", "capability", "changelist-notification")
		}
	}),
	inDocuments("19", "the Capability List names two Resource Lists", func(c *call, d *document) {
		if d.is("capabilitylist") {
			d.add(c.base()+"resourcesync/resourcelist.xml", "capability", "resourcelist")
		}
	}),
	inDocuments("20", "entries of the Capability List have no rs:md", func(_ *call, d *document) {
		if d.is("capabilitylist") {
			d.filterNodes(func(n node) bool { return n.name != "rs:md" })
		}
	}),
	quirk("21", "the Capability List links to a package instead of a Resource Dump", func(sw *Switch) { sw.doc, sw.route = straightToPackage, oddPackage }),
	inDocuments("22", "Change Lists have an entry for a package, without a \"change\" attribute", func(c *call, d *document) {
		if d.is("changelist") {
			d.add(c.base()+"packages/1.tar.xz", "type", "application/x-xz")
		}
	}),
	quirk("23", "the Resource List is an OAI-PMH response", func(sw *Switch) {
		sw.doc = func(c *call, _ Switched, d *document) {
			if d.is("capabilitylist") {
				d.add(c.base()+"oai?verb=Identify", "capability", "resourcelist")
			}
		}
		sw.route = func(c *call) *answer {
			if c.path != "oai" {
				return nil
			}
			return c.page("text/xml", `<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><Identify/></OAI-PMH>`)
		}
	}),
	inDocuments("24", "documents have no link rel=\"up\"", func(_ *call, d *document) {
		d.head = slices.DeleteFunc(d.head, func(n node) bool { return n.get("rel") == "up" })
	}),
	inDocuments("25", "an rs:ln has a relative href and no rel", func(_ *call, d *document) {
		d.head = append(d.head, node{name: "rs:ln", attrs: []attr{{"hash", "describedby"}, {"href", "about.html"}}})
	}),
	inDocuments("26", "relation types have capital letters", func(_ *call, d *document) {
		d.links(func(n *node) { n.change("rel", strings.NewReplacer("describedby", "describedBy", "up", "Up").Replace) })
	}),
	inDocuments("27", "links have further relation types and foreign attributes", func(c *call, d *document) {
		d.attrs = append(d.attrs, attr{"xmlns:dcterms", "http://purl.org/dc/terms/"})
		d.head = append(d.head, node{name: "rs:ln", attrs: []attr{{"rel", "self"}, {"href", c.base() + c.path}, {"dcterms:conformsTo", "http://www.openarchives.org/rs/1.1/"}}})
	}),
}

var uriQuirks = []*Switch{
	inDocuments("39", "there is white space around the URI in loc", func(_ *call, d *document) { d.locs(func(s string) string { return "\n  " + s + "\n" }) }),
	throughNames("40", "URIs of resources have a query", func(path string) string { return "get?path=" + path },
		func(c *call) (string, bool) {
			if c.r.URL.Path != c.prefix+"get" {
				return "", false
			}
			return c.r.URL.Query().Get("path"), true
		}),
	throughNames("41", "URIs of resources are not ASCII and not escaped", func(path string) string { return "caf\u00e9 " + path },
		func(c *call) (string, bool) { return strings.CutPrefix(c.r.URL.Path, c.prefix+"caf\u00e9 ") }),
	inDocuments("42", "the Source Description and Capability Lists have relative URIs", func(c *call, d *document) {
		if d.is("description", "capabilitylist") {
			d.locs(func(uri string) string { return c.prefix + strings.TrimPrefix(uri, c.base()) })
		}
	}),
	inAnswers("43", "requests for resources at 127.0.0.1 are redirected to localhost", func(c *call, a *answer) {
		if rest, ok := strings.CutPrefix(c.r.Host, "127.0.0.1"); ok && a.resource != nil {
			a.respondWith(http.StatusFound, "Location", "http://localhost"+rest+c.r.URL.RequestURI())
		}
	}),
	quirk("44", "Resource Lists have URIs with .. in the path and with the name of a Windows device", func(sw *Switch) {
		sw.doc = func(c *call, _ Switched, d *document) {
			for _, p := range climbing {
				if d.is("resourcelist") {
					d.add(c.base()+p, "hash", fmt.Sprintf("sha-256:%x", sha256.Sum256([]byte(climbed))), "length", fmt.Sprint(len(climbed)))
				}
			}
		}
		sw.route = func(c *call) *answer {
			if strings.Contains(c.path, "climbed") || c.path == "CON" {
				return c.page("text/plain", climbed)
			}
			return nil
		}
	}),
	inDocuments("45", "Resource Lists name each resource twice", func(_ *call, d *document) {
		if d.is("resourcelist") && d.root == "urlset" {
			d.entries = append(d.entries, d.entries...)
		}
	}),
}

const climbed = "this climbed\n"

var climbing = []string{"../../climbed-1", "a/%2e%2e/%2e%2e/climbed-2", `a\..\..\climbed-3`, "CON"}

// throughNames returns a quirk that gives resources other URIs. The function rename returns
// the new path for a path, and the function original returns the path before rename for a
// request.
func throughNames(number, says string, rename func(path string) string, original func(*call) (string, bool)) *Switch {
	return quirk(number, says, func(sw *Switch) {
		sw.doc = func(c *call, _ Switched, d *document) {
			d.locs(func(uri string) string {
				if path, ok := strings.CutPrefix(uri, c.base()+pathRoot); ok {
					return c.base() + rename(pathRoot+path)
				}
				return uri
			})
		}
		sw.inbound = func(c *call) {
			if path, ok := original(c); ok {
				c.setPath(c.prefix + path)
			}
		}
	})
}

func (c *call) setPath(path string) {
	r := new(http.Request)
	*r = *c.r
	u := *c.r.URL
	u.Path, u.RawPath = path, ""
	r.URL = &u
	c.r = r
}

var fixityQuirks = []*Switch{
	inHashes("46", "hashes are written with the prefix SHA256: and capital letters", func(sum []byte) string { return "SHA256:" + strings.ToUpper(hex.EncodeToString(sum)) }),
	inHashes("47", "hashes are in base64", func(sum []byte) string { return "sha-256:" + base64.StdEncoding.EncodeToString(sum) }),
	inDocuments("49", "the attributes \"hash\" and \"length\" are empty", func(_ *call, d *document) {
		for _, n := range d.allMD() {
			empty := func(string) string { return "" }
			n.change("hash", empty)
			n.change("length", empty)
		}
	}),
	inHashes("50", "hashes are not those of the served bytes", func(sum []byte) string { return "sha-256:" + hex.EncodeToString(wrongDigest(sum)) }),
	inAnswers("51", "resources are compressed although no request allows it, and lists describe the uncompressed bytes", func(_ *call, a *answer) {
		if b, ok := a.content(); ok && a.resource != nil {
			a.bytes(gzipped(b))
			a.header.Set("Content-Encoding", "gzip")
		}
	}),
}

func inHashes(number, says string, write func(sum []byte) string) *Switch {
	return inDocuments(number, says, func(_ *call, d *document) {
		for _, n := range d.allMD() {
			n.change("hash", func(s string) string { return rehash(s, write) })
		}
	})
}

// rehash changes how a SHA-256 digest is written, and returns any other text unchanged.
func rehash(s string, write func(sum []byte) string) string {
	digits, ok := strings.CutPrefix(s, "sha-256:")
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil {
		return s
	}
	return write(sum)
}

func wrongDigest(sum []byte) []byte {
	other := slices.Clone(sum)
	other[0] ^= 0xff
	return other
}

var httpQuirks = []*Switch{
	quirk("59", "resources are refused: 401, 403, 404, 429 or 500", func(sw *Switch) {
		sw.Of, sw.Share = Answers, 0.05
		sw.answer = func(c *call, a *answer) {
			if a.resource != nil {
				codes := []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests, http.StatusInternalServerError}
				a.respondWith(codes[c.luck.IntN(len(codes))], "Retry-After", "1")
			}
		}
	}),
	inAnswers("60", "Last-Modified has the format of ISO 8601", func(_ *call, a *answer) {
		if a.resource != nil {
			a.header.Set("Last-Modified", a.resource.Changed.Format(time.RFC3339))
		}
	}),
}

func (e entry) with(a attr) entry {
	if e.md() == nil {
		e = append(e, node{name: "rs:md"})
	}
	e.md().set(a.name, a.value)
	return e
}

func (d *document) filterNodes(keep func(node) bool) {
	for i := range d.entries {
		d.entries[i] = slices.DeleteFunc(d.entries[i], func(n node) bool { return !keep(n) })
	}
}

// dlib converts a document to resourcesync.DialectDLib.
func dlib(_ *call, d *document) {
	d.rs = "http://www.openarchives.org/rs/"
	d.md().rename("at", "modified")
	d.md().rename("from", "modified")
	if d.isList() {
		for i := range d.head {
			d.head[i].change("rel", func(rel string) string { return strings.ReplaceAll(rel, "up", "top") })
		}
	}
	if d.is("changelist") {
		slices.Reverse(d.entries)
	}
}

// mid2013 converts a document to resourcesync.DialectMid2013.
func mid2013(_ *call, d *document) {
	d.md().rename("at", "modified")
	d.md().rename("from", "modified")
	for i := range d.head {
		d.head[i].change("rel", func(rel string) string { return strings.ReplaceAll(rel, "up", "resourcesync") })
	}
}

// paginate divides a Resource List into three pages, and leaves only the entries of the
// requested page.
func paginate(c *call, d *document) {
	const count = 3
	if !d.is("resourcelist") || d.root != "urlset" || len(d.entries) < count {
		return
	}
	page := 1
	_, _ = fmt.Sscan(c.r.URL.Query().Get("page"), &page) // a missing or invalid page number means the first page
	page = min(max(page, 1), count)
	n := len(d.entries)
	d.entries = d.entries[(page-1)*n/count : page*n/count]
	link := func(rel string, to int) {
		d.head = append(d.head, node{name: "rs:ln", attrs: []attr{{"rel", rel}, {"href", fmt.Sprintf("%s%s?page=%d", c.base(), c.path, to)}}})
	}
	if page < count {
		link("next", page+1)
	}
	if page > 1 {
		link("prev", page-1)
	}
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b) // the error is ignored: writing to a Buffer never fails
	_ = z.Close()
	return out.Bytes()
}

// staleDocuments stores earlier forms of documents.
type staleDocuments struct {
	mu   sync.Mutex
	kept map[string]keptDocument
}

type keptDocument struct {
	text []byte
	at   int64 // the number of publications that had begun when the document was stored
}

const (
	maxStale      = 32      // the largest number of stored documents
	maxStaleBytes = 1 << 20 // the largest size of a stored document
)

// earlierForm returns the stored form of a document. If that is older than the given number of
// publications, or if there is none, earlierForm stores and returns text, the present form.
func (w *wire) earlierForm(key string, text []byte, publications int64) []byte {
	now := w.s.journal.publications()
	w.stale.mu.Lock()
	defer w.stale.mu.Unlock()
	old, ok := w.stale.kept[key]
	if ok && now-old.at < publications {
		return old.text
	}
	if len(text) <= maxStaleBytes && (ok || len(w.stale.kept) < maxStale) {
		w.stale.kept[key] = keptDocument{text, now}
	}
	return text
}

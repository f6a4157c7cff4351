package sim

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"instep/resourcesync"
)

// faults are failures of Sources, and attacks by malicious Sources.
var faults = slices.Concat(navigationFaults, documentFaults, changeFaults, fixityFaults, fetchFaults, packageFaults, evidenceFaults, clockFaults)

// someAnswers returns a fault that affects one response in twenty by default.
func someAnswers(name, rows, says string, change func(*call, *answer)) *Switch {
	return &Switch{Name: name, Says: says, Rows: rows, Of: Answers, Share: 0.05, answer: change}
}

func allAnswers(name, rows, says string, change func(*call, *answer)) *Switch {
	return withRows(rows, inAnswers(name, says, change))
}

func allDocuments(name, rows, says string, change func(*call, *document)) *Switch {
	return withRows(rows, inDocuments(name, says, change))
}

// someDocuments returns a fault that affects one document in five by default.
func someDocuments(name, rows, says string, change func(*call, []byte) []byte) *Switch {
	return &Switch{Name: name, Says: says, Rows: rows, Of: Answers, Share: 0.2, raw: change}
}

// someEntries returns a fault that affects the entries of one resource in twenty by default.
func someEntries(name, rows, says string, change func(*call, entry)) *Switch {
	return &Switch{Name: name, Says: says, Rows: rows, Of: Entries, Share: 0.05, doc: func(c *call, sw Switched, d *document) {
		if d.isList() && d.root == "urlset" {
			sw.each(d, func(e entry) { change(c, e) })
		}
	}}
}

const metadataAddress = "http://169.254.169.254/latest/meta-data/"

var navigationFaults = []*Switch{
	allDocuments("index-loop", "NAV-01", "the Resource List is an index that lists itself", func(c *call, d *document) {
		if d.is("resourcelist", "resourcelist-index") {
			d.root, d.entries = "sitemapindex", nil
			d.add(c.base() + c.path)
		}
	}),
	allDocuments("up-circle", "NAV-01", "the link rel=\"up\" of the Source Description leads to a Capability List", func(_ *call, d *document) {
		if d.is("description") && len(d.entries) > 0 {
			d.head = append(d.head, node{name: "rs:ln", attrs: []attr{{"rel", "up"}, {"href", d.entries[0].loc()}}})
		}
	}),
	allDocuments("fan-out", "NAV-02", "the Resource List is an index of 50,000 empty parts", func(c *call, d *document) {
		if !d.is("resourcelist", "resourcelist-index") {
			return
		}
		d.entries = nil
		if c.r.URL.Query().Has("part") {
			d.root = "urlset"
			return
		}
		d.root = "sitemapindex"
		for i := range resourcesync.MaxEntries {
			d.add(fmt.Sprintf("%s%s?part=%d", c.base(), c.path, i+1))
		}
	}),
	allAnswers("soft-404", "NAV-03", "requests for missing files are answered with a page and status 200", func(_ *call, a *answer) {
		if a.status == http.StatusNotFound {
			a.html(http.StatusOK, "<!doctype html><title>Sorry</title><p>We looked everywhere.</p>\n")
		}
	}),
	allAnswers("robots-bomb", "NAV-03", "robots.txt is 8 MiB long", func(c *call, a *answer) {
		if c.path == "robots.txt" {
			a.bytes(bytes.Repeat([]byte("# robots, robots\n"), 8<<20/17+1))
		}
	}),
	allDocuments("private-address", "NAV-04", "lists name a resource at a private IP address", func(_ *call, d *document) {
		if d.is("resourcelist") && d.root == "urlset" {
			d.add(metadataAddress, "length", "10")
		}
	}),
	someEntries("foreign-host", "NAV-05", "resources are listed on a host that is not the Source's", func(c *call, e entry) {
		n := find(e, "loc")
		n.text = "http://elsewhere.example.org/" + strings.TrimPrefix(n.text, c.base())
	}),
	someDocuments("rollback", "NAV-06", "documents never change after the first request for them", func(c *call, text []byte) []byte {
		return c.earlierForm(c.path, text, 1<<62)
	}),
	allDocuments("mixed-parts", "NAV-07", "every second part of a list is a day older than its index", func(c *call, d *document) {
		if d.is("resourcelist") && strings.ContainsAny(partNumber(c.path), "02468") {
			d.md().change("at", func(s string) string { return later(s, -24*time.Hour) })
		}
	}),
	allDocuments("set-vanishes", "NAV-08", "the Source Description names no set", func(_ *call, d *document) {
		if d.is("description") {
			d.entries = nil
		}
	}),
	allAnswers("moved-list", "NAV-08", "Capability Lists have moved to another host", func(c *call, a *answer) {
		if strings.HasSuffix(c.path, "capabilitylist.xml") {
			a.respondWith(http.StatusMovedPermanently, "Location", "http://elsewhere.example.org/"+c.path)
		}
	}),
}

// partNumber returns the last digit of the number of a part, or "" if the document is not a
// part.
func partNumber(path string) string {
	name := strings.TrimSuffix(path, ".xml")
	if len(name) < 6 || name[len(name)-6] != '-' {
		return ""
	}
	return name[len(name)-1:]
}

var documentFaults = []*Switch{
	someDocuments("cut-document", "PAR-04", "documents end in the middle", func(_ *call, text []byte) []byte { return text[:len(text)/2] }),
	someDocuments("doctype", "PAR-01", "documents have a DOCTYPE with an entity", func(_ *call, text []byte) []byte {
		return bytes.Replace(text, []byte("?>"), []byte("?>\n<!DOCTYPE urlset [<!ENTITY x \"y\">]>"), 1)
	}),
	someDocuments("gzip-bomb", "PAR-03", "documents are compressed, with 200 MiB of blanks", func(*call, []byte) []byte { return gzipBomb() }),
	allDocuments("wrong-capability", "PAR-06", "Change Lists say that they are Resource Lists", func(_ *call, d *document) {
		if d.is("changelist") {
			d.md().set("capability", "resourcelist")
			d.md().rename("from", "at")
		}
	}),
	allDocuments("short-list", "DEL-01", "Resource Lists have their first entry only", func(_ *call, d *document) {
		if d.is("resourcelist") && d.root == "urlset" {
			d.entries = d.entries[:min(1, len(d.entries))]
		}
	}),
	allDocuments("empty-list", "DEL-01", "Resource Lists are empty", func(_ *call, d *document) {
		if d.is("resourcelist") && d.root == "urlset" {
			d.entries = nil
		}
	}),
	allDocuments("file-uri", "PAR-08", "lists name a local file of the client's machine", func(_ *call, d *document) {
		if d.is("resourcelist", "resourcedump") && d.root == "urlset" {
			d.add("file:///etc/passwd")
		}
	}),
}

var changeFaults = []*Switch{
	allDocuments("equal-times", "CHG-01", "all changes of a list have the time of its first change", func(_ *call, d *document) {
		if d.is("changelist") && len(d.entries) > 0 {
			first := d.entries[0].md().get("datetime")
			for _, e := range d.entries {
				e.md().change("datetime", func(string) string { return first })
			}
		}
	}),
	allDocuments("no-times", "CHG-01", "changes have no time", func(_ *call, d *document) {
		if d.is("changelist") && d.root == "urlset" {
			for _, e := range d.entries {
				e.md().drop("datetime")
			}
			d.filterNodes(func(n node) bool { return n.name != "lastmod" })
		}
	}),
	allDocuments("gap", "CHG-02", "Change Lists lack their first half, and have a later time in \"from\"", func(_ *call, d *document) {
		if n := len(d.entries); d.is("changelist") && d.root == "urlset" && n > 1 {
			d.entries = d.entries[n/2:]
			d.md().set("from", d.entries[0].md().get("datetime"))
		}
	}),
	allDocuments("missing-until", "CHG-02", "closed Change Lists have no \"until\"", func(_ *call, d *document) {
		if d.is("changelist", "changelist-index") {
			for _, n := range d.allMD() {
				n.drop("until")
			}
		}
	}),
	{
		Name: "shortened", Rows: "CHG-03", Says: "Change Lists lack their last change", Of: Answers, Share: 0.5,
		doc: func(_ *call, _ Switched, d *document) {
			if d.is("changelist") && d.root == "urlset" && len(d.entries) > 0 {
				d.entries = d.entries[:len(d.entries)-1]
			}
		},
	},
	allDocuments("reordered", "CHG-03", "the changes are in a different order in each response", func(c *call, d *document) {
		if d.is("changelist") && d.root == "urlset" {
			c.luck.Shuffle(len(d.entries), func(i, j int) { d.entries[i], d.entries[j] = d.entries[j], d.entries[i] })
		}
	}),
	allDocuments("clock-back", "CHG-05", "in the second half of a Change List the times are an hour too early", func(_ *call, d *document) {
		if d.is("changelist") && d.root == "urlset" {
			for _, e := range d.entries[len(d.entries)/2:] {
				e.md().change("datetime", func(s string) string { return later(s, -time.Hour) })
			}
		}
	}),
	allDocuments("mass-delete", "DEL-02", "all changes are deletions", func(_ *call, d *document) {
		if d.is("changelist") && d.root == "urlset" {
			for _, e := range d.entries {
				e.md().drop("hash", "length", "type")
				e.md().change("change", func(string) string { return "deleted" })
			}
			d.filterNodes(func(n node) bool { return n.name != "lastmod" })
		}
	}),
}

var fixityFaults = []*Switch{
	someEntries("wrong-hash", "VER-01", "the listed hash of a resource is that of other bytes", func(_ *call, e entry) {
		e.md().change("hash", func(s string) string {
			return rehash(s, func(sum []byte) string { return fmt.Sprintf("sha-256:%x", wrongDigest(sum)) })
		})
	}),
	someEntries("wrong-length", "VER-01", "the listed length of a resource is one byte too large", func(_ *call, e entry) {
		e.md().change("length", func(s string) string {
			var n int64
			_, _ = fmt.Sscan(s, &n) // the error cannot occur, because this Source wrote the number
			return fmt.Sprint(n + 1)
		})
	}),
	someEntries("one-wrong-hash", "VER-02", "resources have two listed hashes, of which one is wrong", func(_ *call, e entry) {
		e.md().change("hash", func(s string) string { return s + " md5:00000000000000000000000000000000" })
	}),
	someEntries("odd-hashes", "VER-02", "a second listed hash is on a separate line and of an unknown algorithm", func(_ *call, e entry) {
		e.md().change("hash", func(s string) string { return "blake9:00ff\n" + s })
	}),
	someEntries("unknown-hash", "VER-03", "the only listed hash is of an unknown algorithm", func(_ *call, e entry) {
		e.md().change("hash", func(string) string { return "blake9:00ff" })
	}),
	someEntries("no-hash", "VER-03", "resources have neither a listed hash nor a listed length", func(_ *call, e entry) { e.md().drop("hash", "length") }),
	{
		Name: "wrong-bytes", Rows: "VER-01", Says: "a bit of a resource is flipped in transit", Of: Answers, Share: 0.05,
		answer: func(_ *call, a *answer) {
			if a.resource != nil {
				a.body = &flipped{a.body, 0}
			}
		},
	},
	someAnswers("longer", "VER-01", "resources have one additional byte", func(_ *call, a *answer) {
		if b, ok := a.content(); ok && a.resource != nil {
			a.bytes(append(b, '!'))
		}
	}),
	someAnswers("newer-bytes", "FET-11", "the bytes are those of a newer version than the listed one", func(c *call, a *answer) { c.replaceVersion(a, 1) }),
	someAnswers("older-bytes", "FET-09", "the bytes are those of the previous version, as from a stale cache", func(c *call, a *answer) { c.replaceVersion(a, -1) }),
}

func (c *call) replaceVersion(a *answer, by int) {
	if r := a.resource; r != nil {
		other := c.s.o.Model.Version(*r, uint32(int(r.Version)+by))
		a.body, a.size = other.Open(), other.Length
	}
}

// flipped is a response body whose first bit is inverted.
type flipped struct {
	io.ReadSeeker
	off int64
}

func (f *flipped) Read(p []byte) (int, error) {
	n, err := f.ReadSeeker.Read(p)
	if f.off == 0 && n > 0 {
		p[0] ^= 1
	}
	f.off += int64(n)
	return n, err
}

func (f *flipped) Seek(offset int64, whence int) (int64, error) {
	off, err := f.ReadSeeker.Seek(offset, whence)
	f.off = off
	return off, err
}

// gzipBomb returns a small gzip file that contains a huge text.
var gzipBomb = sync.OnceValue(func() []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	blanks := bytes.Repeat([]byte(" "), 1<<20)
	for range 200 {
		_, _ = z.Write(blanks) // the error is ignored: writing to a Buffer never fails
	}
	_ = z.Close()
	return out.Bytes()
})

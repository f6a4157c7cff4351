package sim

import (
	"slices"
	"strings"
	"time"
)

var timeQuirks = []*Switch{
	inDocuments("28", "Resource Lists have \"from\" instead of \"at\"", func(_ *call, d *document) {
		if d.is("resourcelist") {
			d.md().rename("at", "from")
		}
	}),
	inDocuments("29", "changes have lastmod instead of datetime", func(_ *call, d *document) {
		if !d.is("changelist") || d.root != "urlset" {
			return
		}
		for i, e := range d.entries {
			changed := e.md().get("datetime")
			e.md().drop("datetime")
			e = slices.DeleteFunc(e, func(n node) bool { return n.name == "lastmod" })
			d.entries[i] = slices.Insert(e, 1, node{name: "lastmod", text: changed})
		}
	}),
	inDocuments("30", "lastmod is a date without a time", func(_ *call, d *document) {
		for _, e := range d.entries {
			if n := find(e, "lastmod"); n != nil {
				n.text, _, _ = strings.Cut(n.text, "T")
			}
		}
	}),
	inDocuments("31", "times have a space instead of \"T\", and no time zone", func(_ *call, d *document) {
		d.replaceTimes(func(s string) string { return strings.TrimSuffix(strings.Replace(s, "T", " ", 1), "Z") })
	}),
	inDocuments("32", "times are those of a time zone two hours ahead, but marked as UTC", func(_ *call, d *document) {
		d.replaceTimes(func(s string) string { return later(s, 2*time.Hour) })
	}),
	inDocuments("33", "lastmod is the time at which the list was written", func(c *call, d *document) {
		for _, e := range d.entries {
			if n := find(e, "lastmod"); n != nil {
				n.text = c.now.Format(time.RFC3339Nano)
			}
		}
	}),
	inDocuments("34", "Change Lists are newest first", func(_ *call, d *document) {
		if d.is("changelist") {
			slices.Reverse(d.entries)
		}
	}),
	inDocuments("35", "Change Lists have the last ten changes only", func(_ *call, d *document) {
		if d.is("changelist") && len(d.entries) > 10 {
			d.entries = d.entries[len(d.entries)-10:]
			d.md().set("from", d.entries[0].md().get("datetime"))
		}
	}),
	inBytes("36", "documents come from a cache that is up to five publications old", func(c *call, text []byte) []byte {
		return c.earlierForm(c.path, text, 5)
	}),
	inDocuments("37", "deletions are never listed", func(_ *call, d *document) {
		if d.is("changelist") {
			d.entries = slices.DeleteFunc(d.entries, func(e entry) bool { return e.md().get("change") == "deleted" })
		}
	}),
	inDocuments("38", "deletions have another URI than the deleted resource", func(_ *call, d *document) {
		for _, e := range d.entries {
			if e.md().get("change") == "deleted" {
				find(e, "loc").text += "?gone"
			}
		}
	}),
}

// later adds a duration to a time that is written as text. It returns any other text
// unchanged.
func later(s string, by time.Duration) string {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return s
	}
	return t.Add(by).Format(time.RFC3339Nano)
}

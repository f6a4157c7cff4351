package sim

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"instep/resourcesync"
)

// evidenceFaults are faults that leave the content or availability of documents in
// doubt, so that a Destination has to decide what the documents prove.
var evidenceFaults = slices.Concat(cacheFaults, withdrawalFaults, shapeFaults, shortFaults)

// subject is a group of document kinds that one fault affects, with a name and a
// description.
type subject struct {
	name, says string
	kinds      []string
}

var (
	capabilityLists = subject{"capabilities", "Capability Lists and the Source Description", []string{"description", "capabilitylist"}}
	indexes         = subject{"indexes", "indexes of lists and dumps", []string{"resourcelist-index", "changelist-index", "resourcedump-index", "changedump-index"}}
	resourceLists   = subject{"lists", "Resource Lists", []string{"resourcelist"}}
	changeLists     = subject{"changes", "Change Lists", []string{"changelist"}}
	dumps           = subject{"dumps", "Resource Dumps, Change Dumps and their manifests", []string{"resourcedump", "changedump", "resourcedump-manifest", "changedump-manifest"}}
)

var cacheFaults = []*Switch{
	cached(capabilityLists), cached(indexes), cached(resourceLists), cached(changeLists), cached(dumps),
	{
		Name: "hard-caches", Says: "the caches of the cached-… faults answer requests with Cache-Control: no-cache too", Rows: "NAV-07",
		Of: Always, Share: 1, hard: true,
	},
}

// cached returns the fault that a cache answers requests for documents of the given
// kinds instead of the Source.
func cached(s subject) *Switch {
	return &Switch{
		Name: "cached-" + s.name, Says: s.says + " come from a cache, which each time sends the document of any earlier publication",
		Rows: "NAV-07", Of: Answers, Share: 0.5, kinds: s.kinds, cache: true,
	}
}

var withdrawalFaults = []*Switch{
	refused(resourceLists, http.StatusNotFound), refused(changeLists, http.StatusNotFound), refused(indexes, http.StatusNotFound), refused(dumps, http.StatusNotFound),
	refused(resourceLists, http.StatusInternalServerError), refused(changeLists, http.StatusInternalServerError),
	refused(indexes, http.StatusInternalServerError), refused(dumps, http.StatusInternalServerError),
	unlisted(resourceLists, "resourcelist"), unlisted(changeLists, "changelist"), unlisted(dumps, "resourcedump", "changedump"),
}

// refused returns the fault that documents of the given kinds are linked, but answered
// with an error status.
func refused(s subject, status int) *Switch {
	return &Switch{
		Name: fmt.Sprintf("%s-%d", s.name, status), Says: fmt.Sprintf("%s are linked, but requests for them are answered with %d", s.says, status),
		Rows: "NAV-08", Of: Always, Share: 1, kinds: s.kinds, status: status,
	}
}

// unlisted returns the fault that the Capability List has no entries for the given
// capabilities.
func unlisted(s subject, capabilities ...string) *Switch {
	return allDocuments(s.name+"-unlisted", "NAV-08", s.says+" are missing from the Capability List", func(_ *call, d *document) {
		if d.is("capabilitylist") {
			d.entries = slices.DeleteFunc(d.entries, func(e entry) bool { return slices.Contains(capabilities, e.md().get("capability")) })
		}
	})
}

var shapeFaults = []*Switch{
	profile10(),
	allDocuments("shuffled", "CHG-01", "Change Lists are in a random order, the same in each response", func(c *call, d *document) {
		if d.is("changelist") && d.root == "urlset" {
			slices.SortStableFunc(d.entries, func(a, b entry) int { return cmp.Compare(a.place(c.base()), b.place(c.base())) })
		}
	}),
	allDocuments("old-deletions", "CHG-01", "deletions have the lastmod of the deleted version and no datetime", func(c *call, d *document) {
		if d.is("changelist") && d.root == "urlset" {
			for i, e := range d.entries {
				if e.md().get("change") == string(resourcesync.Deleted) {
					d.entries[i] = c.withoutTime(e)
				}
			}
		}
	}),
	inLists("no-digests", "VER-03", "Resource Lists and Change Lists give no hash", "hash"),
	inLists("no-lengths", "VER-03", "Resource Lists and Change Lists give no length", "length"),
	withRows("VER-03", inPackages("manifest-no-digests", "manifests give no hash", func(d *document) {
		for _, e := range d.entries {
			e.md().drop("hash")
		}
	}, nil)),
}

// profile10 returns a switch that writes documents in the form of version 1.0.
func profile10() *Switch {
	sw := inPackages("profile-1.0", "changes have lastmod and no datetime, as in version 1.0, in manifests too", lastmodOnly, nil)
	manifests := sw.doc
	sw.doc = func(c *call, on Switched, d *document) {
		manifests(c, on, d)
		if d.is("changelist") {
			lastmodOnly(d)
		}
	}
	return withRows("CHG-01", sw)
}

// inLists returns the fault that the entries of Resource Lists and Change Lists lack
// the given attribute.
func inLists(name, rows, says, attr string) *Switch {
	return allDocuments(name, rows, says, func(_ *call, d *document) {
		if d.isList() && d.root == "urlset" {
			for _, e := range d.entries {
				e.md().drop(attr)
			}
		}
	})
}

var shortFaults = []*Switch{
	allDocuments("half-list", "DEL-01", "Resource Lists lack every second entry, but their attribute at is unchanged", func(_ *call, d *document) {
		if d.is("resourcelist") && d.root == "urlset" {
			d.entries = everySecond(d.entries)
		}
	}),
	allDocuments("lacks-part", "DEL-01", "indexes of Resource Lists lack their last part, but their attribute at is unchanged", func(_ *call, d *document) {
		if n := len(d.entries); d.is("resourcelist-index") && n > 1 {
			d.entries = d.entries[:n-1]
		}
	}),
	allDocuments("lacks-next", "DEL-01", "of the three pages of a Resource List the first has no rel=\"next\"", func(c *call, d *document) {
		pages(c, d)
		if d.is("resourcelist") && !c.r.URL.Query().Has("page") {
			d.head = slices.DeleteFunc(d.head, func(n node) bool { return n.get("rel") == "next" })
		}
	}),
	withRows("DEL-01", inPackages("short-manifest", "manifests of dumps lack every second entry", func(d *document) { d.entries = everySecond(d.entries) }, nil)),
	allDocuments("list-lacks-until", "CHG-02", "closed Change Lists have no until, but their index gives it", func(_ *call, d *document) {
		if d.is("changelist") && d.root == "urlset" {
			d.md().drop("until")
		}
	}),
}

func everySecond(all []entry) (some []entry) {
	for i := 0; i < len(all); i += 2 {
		some = append(some, all[i])
	}
	return some
}

// place returns a number by which entries are sorted to shuffle them. The number is the
// same for every base URI of the Source.
func (e entry) place(base string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, strings.TrimPrefix(e.loc(), base)+e.happened()) // writing to a hash never fails
	return mix(h.Sum64())
}

// lastmodOnly moves the time of changes from datetime to lastmod, as in version 1.0.
func lastmodOnly(d *document) {
	for i, e := range d.entries {
		if changed := e.md().get("datetime"); changed != "" && e.md().get("change") != "" {
			e.md().drop("datetime")
			d.entries[i] = e.withLastmod(changed)
		}
	}
}

// withLastmod returns the entry with the given lastmod.
func (e entry) withLastmod(text string) entry {
	e = slices.DeleteFunc(e, func(n node) bool { return n.name == "lastmod" })
	return slices.Insert(e, 1, node{name: "lastmod", text: text})
}

// withoutTime returns a deletion without datetime, with the lastmod of the version that was
// deleted.
func (c *call) withoutTime(e entry) entry {
	id, ok := idOf(strings.TrimPrefix(e.loc(), c.base()))
	at, err := time.Parse(time.RFC3339Nano, e.happened())
	if !ok || err != nil {
		return e
	}
	e.md().drop("datetime")
	return e.withLastmod(c.clock.shownAt(c.s.o.Model.before(id, at)).Format(time.RFC3339Nano))
}

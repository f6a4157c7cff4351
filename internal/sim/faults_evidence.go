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

// evidenceFaults make documents incomplete, outdated or unavailable. A Destination has to
// decide what these documents still prove, for example that a resource was deleted.
var evidenceFaults = slices.Concat(cacheFaults, withdrawalFaults, shapeFaults, shortFaults)

// subject is a group of kinds of documents that a fault affects together.
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
	cacheFault(capabilityLists), cacheFault(indexes), cacheFault(resourceLists), cacheFault(changeLists), cacheFault(dumps),
	{
		Name: "hard-caches", Says: "the caches of the faults cached-… also answer requests with Cache-Control: no-cache", Rows: "NAV-07",
		Of: Always, Share: 1, hard: true,
	},
}

func cacheFault(s subject) *Switch {
	return &Switch{
		Name: "cached-" + s.name, Says: s.says + " come from a cache that sends a random earlier version each time",
		Rows: "NAV-07", Of: Answers, Share: 0.5, kinds: s.kinds, cache: true,
	}
}

var withdrawalFaults = []*Switch{
	refusalFault(resourceLists, http.StatusNotFound), refusalFault(changeLists, http.StatusNotFound), refusalFault(indexes, http.StatusNotFound), refusalFault(dumps, http.StatusNotFound),
	refusalFault(resourceLists, http.StatusInternalServerError), refusalFault(changeLists, http.StatusInternalServerError),
	refusalFault(indexes, http.StatusInternalServerError), refusalFault(dumps, http.StatusInternalServerError),
	unlistedFault(resourceLists, "resourcelist"), unlistedFault(changeLists, "changelist"), unlistedFault(dumps, "resourcedump", "changedump"),
}

func refusalFault(s subject, status int) *Switch {
	return &Switch{
		Name: fmt.Sprintf("%s-%d", s.name, status), Says: fmt.Sprintf("%s are linked, but requests for them are answered with %d", s.says, status),
		Rows: "NAV-08", Of: Always, Share: 1, kinds: s.kinds, status: status,
	}
}

func unlistedFault(s subject, capabilities ...string) *Switch {
	return allDocuments(s.name+"-unlisted", "NAV-08", s.says+" are missing from the Capability List", func(_ *call, d *document) {
		if d.is("capabilitylist") {
			d.entries = slices.DeleteFunc(d.entries, func(e entry) bool { return slices.Contains(capabilities, e.md().get("capability")) })
		}
	})
}

var shapeFaults = []*Switch{
	profile10(),
	allDocuments("shuffled", "CHG-01", "Change Lists are in a random order, which is the same in each response", func(c *call, d *document) {
		if d.is("changelist") && d.root == "urlset" {
			slices.SortStableFunc(d.entries, func(a, b entry) int { return cmp.Compare(a.shuffleKey(c.base()), b.shuffleKey(c.base())) })
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

func profile10() *Switch {
	sw := inPackages("profile-1.0", "changes have lastmod and no datetime, as in version 1.0, also in manifests", lastmodOnly, nil)
	manifests := sw.doc
	sw.doc = func(c *call, on Switched, d *document) {
		manifests(c, on, d)
		if d.is("changelist") {
			lastmodOnly(d)
		}
	}
	return withRows("CHG-01", sw)
}

// inLists returns a fault that removes an attribute from the entries of Resource Lists and
// Change Lists.
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
	allDocuments("half-list", "DEL-01", "Resource Lists lack every second entry, but their \"at\" attribute is unchanged", func(_ *call, d *document) {
		if d.is("resourcelist") && d.root == "urlset" {
			d.entries = everySecond(d.entries)
		}
	}),
	allDocuments("lacks-part", "DEL-01", "indexes of Resource Lists lack their last part, but their \"at\" attribute is unchanged", func(_ *call, d *document) {
		if n := len(d.entries); d.is("resourcelist-index") && n > 1 {
			d.entries = d.entries[:n-1]
		}
	}),
	allDocuments("lacks-next", "DEL-01", "Resource Lists have three pages, but the first page has no rel=\"next\"", func(c *call, d *document) {
		paginate(c, d)
		if d.is("resourcelist") && !c.r.URL.Query().Has("page") {
			d.head = slices.DeleteFunc(d.head, func(n node) bool { return n.get("rel") == "next" })
		}
	}),
	withRows("DEL-01", inPackages("short-manifest", "manifests of dumps lack every second entry", func(d *document) { d.entries = everySecond(d.entries) }, nil)),
	allDocuments("list-lacks-until", "CHG-02", "closed Change Lists have no \"until\", but their index states it", func(_ *call, d *document) {
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

// shuffleKey returns a hash of an entry, by which entries are sorted into a random order. The
// order does not depend on the base URI.
func (e entry) shuffleKey(base string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, strings.TrimPrefix(e.loc(), base)+e.happened()) // the error is ignored: writing to a hash never fails
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

func (e entry) withLastmod(text string) entry {
	e = slices.DeleteFunc(e, func(n node) bool { return n.name == "lastmod" })
	return slices.Insert(e, 1, node{name: "lastmod", text: text})
}

// withoutTime removes the datetime of a deletion and sets lastmod to the time of the deleted
// version.
func (c *call) withoutTime(e entry) entry {
	id, ok := idOf(strings.TrimPrefix(e.loc(), c.base()))
	at, err := time.Parse(time.RFC3339Nano, e.happened())
	if !ok || err != nil {
		return e
	}
	e.md().drop("datetime")
	return e.withLastmod(c.clock.shownAt(c.s.o.Model.versionTime(id, at)).Format(time.RFC3339Nano))
}

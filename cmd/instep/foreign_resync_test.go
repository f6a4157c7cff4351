//go:build unix

package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// The Sources of this file are written by the Python library resync and by programs that
// are built on it.

// resyncMD is what the library says of a resource, with further attributes before.
func resyncMD(before string, r foreignResource) string {
	return rsMD(fmt.Sprintf(`%shash="md5:%s" length="%d"`, before, md5Of(r.body), len(r.body)))
}

// changesOf are the changes of some kinds, in the order of these.
func (s *foreignSite) changesOf(kinds ...string) []foreignResource {
	var some []foreignResource
	for _, kind := range kinds {
		for _, c := range s.changes {
			if c.change == kind {
				some = append(some, c)
			}
		}
	}
	return some
}

var resyncShape = shape{
	name: "resync", start: "/rs/capabilitylist.xml",
	from:     "resync/resync@3577a202 (2.0.1) and @cb92fb4f (1.0.9) resync/client.py, resync/sitemap.py",
	says:     "nothing above the Capability List, a Change List without `from` and `until`, changes by lastmod, updates first, deletions with time, length and digest of the version that vanished",
	lacks:    "say from when its Change List is: each run compares everything",
	baseline: "baseline: +6 ~0 −0 by get", incremental: "baseline: +1 ~1 −1 by get", audit: "in-sync: =6 +0 −0 *0 ?1",
	files: "6 of 6, 0 more",
	serve: func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/rs/capabilitylist.xml":
			return send(out, "text/xml", foreignDoc("urlset", rsMD(`capability="capabilitylist"`),
				entryXML(s.URL+"/rs/resourcelist.xml", rsMD(`capability="resourcelist"`)), entryXML(s.URL+"/rs/changelist.xml", rsMD(`capability="changelist"`))))
		case "/rs/resourcelist.xml":
			return send(out, "text/xml", foreignDoc("urlset", rsMD(`at="`+w3c(foreignStart)+`" capability="resourcelist" completed="`+w3c(foreignStart.Add(time.Second))+`"`), join(s.atFirst(), func(r foreignResource) string {
				return entryXML(s.URL+r.path, lastmodXML(w3c(r.when)), resyncMD("", r))
			})))
		case "/rs/changelist.xml":
			return send(out, "text/xml", foreignDoc("urlset", rsMD(`capability="changelist"`), join(s.changesOf("updated", "deleted", "created"), func(r foreignResource) string {
				if r.change == "deleted" {
					r.when = r.was
				}
				return entryXML(s.URL+r.path, lastmodXML(w3c(r.when)), resyncMD(`change="`+r.change+`" `, r))
			})))
		}
		return false
	},
}

var simulatorShape = shape{
	name: "resync-simulator", start: "/", media: "text/plain",
	from:     "resync/resync-simulator@d8051a95 simulator/http.py, simulator/source.py",
	says:     "lists made at each request, a Change List that fails while nothing has changed, and that begins with its first change and ends now",
	lacks:    "serve a Change List before the first change (exit 4)",
	why:      "It takes the first entry of an empty list (simulator/http.py:235)",
	path:     func(n int) string { return fmt.Sprintf("/resources/%d", n) },
	baseline: "baseline: +6 ~0 −0 by get, exit 4", incremental: "baseline: +1 ~1 −1 by get", audit: "in-sync: =6 +0 −0 *0 ?0",
	files: "6 of 6, 0 more",
	serve: func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool {
		describedBy := rsLN("describedby", s.URL)
		up := rsLN("up", s.URL+"/capabilitylist.xml")
		switch r.URL.Path {
		case "/.well-known/resourcesync":
			return send(out, "application/xml", foreignDoc("urlset", describedBy, rsMD(`capability="description"`), entryXML(s.URL+"/capabilitylist.xml", rsMD(`capability="capabilitylist"`))))
		case "/capabilitylist.xml":
			return send(out, "application/xml", foreignDoc("urlset", describedBy, rsLN("up", s.URL+"/.well-known/resourcesync"), rsMD(`capability="capabilitylist"`),
				entryXML(s.URL+"/resourcelist.xml", rsMD(`capability="resourcelist"`)), entryXML(s.URL+"/changelist.xml", rsMD(`capability="changelist"`))))
		case "/resourcelist.xml":
			return send(out, "application/xml", foreignDoc("urlset", describedBy, up, rsMD(`at="`+w3c(s.at)+`" capability="resourcelist"`), join(s.resources, func(r foreignResource) string {
				return entryXML(s.URL+r.path, lastmodXML(w3c(r.when)), resyncMD("", r))
			})))
		case "/changelist.xml":
			if !s.changed() {
				http.Error(out, "list index out of range", http.StatusInternalServerError)
				return true
			}
			return send(out, "application/xml", foreignDoc("urlset", describedBy, up, rsMD(`capability="changelist" from="`+w3c(s.changes[0].when)+`" until="`+w3c(s.at)+`"`), join(s.changes, func(r foreignResource) string {
				told := `change="` + r.change + `" datetime="` + w3c(r.when) + `" `
				if r.change == "deleted" {
					return entryXML(s.URL+r.path, rsMD(strings.TrimSpace(told)))
				}
				return entryXML(s.URL+r.path, lastmodXML(w3c(r.when)), resyncMD(told, r))
			})))
		}
		return false
	},
}

var rspubShape = shape{
	name: "rspub-core", start: "/metadata/.well-known/resourcesync",
	from:     "EHRI/rspub-core@1f6b0c84 rspub/core/{executors,exe_resourcelist,exe_changelist}.py",
	says:     "a new Change List at each run that begins with the run, so that its changes have times before it, grouped by kind, deletions without a time and with length and digest of the version that vanished, an index as soon as there are two",
	lacks:    "say what changed while it wrote its Resource List (exit 4)",
	why:      "Its first Change List begins with the `completed` of the Resource List, not with its `at` (rspub/core/exe_changelist.py:79, 172), if the two are not the same second",
	baseline: "baseline: +6 ~0 −0 by get", incremental: "baseline: +1 ~1 −1 by get, exit 4", audit: "partial: =6 +0 −0 *0 ?0, exit 4",
	files: "6 of 6, 0 more",
	serve: func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool {
		base := s.URL + "/metadata/"
		up := rsLN("up", base+"capabilitylist.xml")
		second := s.at.Add(-time.Hour) // when the second run began
		list := func(md string, kinds ...string) string {
			return foreignDoc("urlset", up, rsLN("index", base+"changelist-index.xml"), rsMD(`capability="changelist" `+md), join(s.changesOf(kinds...), func(r foreignResource) string {
				when := lastmodXML(w3c(r.when))
				if r.change == "deleted" {
					when = ""
				}
				return entryXML(s.URL+r.path, when, resyncMD(`change="`+r.change+`" `, r))
			}))
		}
		first := `from="` + w3c(foreignStart.Add(time.Second)) + `"`
		closed := first + ` until="` + w3c(second) + `"`
		switch r.URL.Path {
		case "/metadata/.well-known/resourcesync":
			return send(out, "application/xml", foreignDoc("urlset", rsMD(`capability="description"`), entryXML(base+"capabilitylist.xml", rsMD(`capability="capabilitylist"`))))
		case "/metadata/capabilitylist.xml":
			parts := []string{rsLN("up", base+".well-known/resourcesync"), rsMD(`capability="capabilitylist"`), entryXML(base+"resourcelist_0000.xml", rsMD(`capability="resourcelist"`))}
			if s.changed() {
				parts = append(parts, entryXML(base+"changelist-index.xml", rsMD(`capability="changelist"`)))
			}
			return send(out, "application/xml", foreignDoc("urlset", parts...))
		case "/metadata/resourcelist_0000.xml":
			return send(out, "application/xml", foreignDoc("urlset", up, rsMD(`at="`+w3c(foreignStart)+`" capability="resourcelist" completed="`+w3c(foreignStart.Add(time.Second))+`"`), join(s.atFirst(), func(r foreignResource) string {
				return entryXML(s.URL+r.path, lastmodXML(w3c(r.when)), resyncMD("", r))
			})))
		case "/metadata/changelist-index.xml":
			part := func(name, md string) string {
				return "<sitemap><loc>" + base + name + "</loc>" + rsMD(md) + "</sitemap>"
			}
			return send(out, "application/xml", foreignDoc("sitemapindex", up, rsMD(`capability="changelist" `+first), part("changelist_0000.xml", closed), part("changelist_0001.xml", `from="`+w3c(second)+`"`)))
		case "/metadata/changelist_0000.xml":
			return send(out, "application/xml", list(closed, "created"))
		case "/metadata/changelist_0001.xml":
			return send(out, "application/xml", list(`from="`+w3c(second)+`"`, "updated", "deleted"))
		}
		return false
	},
}

var pyResourcesyncShape = shape{
	name: "py-resourcesync", start: "/metadata/.well-known/resourcesync",
	from:     "resourcesync/py-resourcesync@97f45df3 resourcesync/executor/{resourcelist,changedump}.py",
	says:     "a Change Dump whose entries are resources and not packages, with `completed` and without `from`, changes by lastmod, deletions without a time and with length and digest of the version that vanished",
	lacks:    "say from when its Change Dump is: each run compares everything",
	baseline: "baseline: +6 ~0 −0 by get", incremental: "baseline: +1 ~1 −1 by get", audit: "in-sync: =6 +0 −0 *0 ?0",
	files: "6 of 6, 0 more",
	serve: func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool {
		base := s.URL + "/metadata/"
		up := rsLN("up", base+"capabilitylist.xml")
		switch r.URL.Path {
		case "/metadata/.well-known/resourcesync":
			return send(out, "application/xml", foreignDoc("urlset", rsMD(`capability="description"`), entryXML(base+"capabilitylist.xml", rsMD(`capability="capabilitylist"`))))
		case "/metadata/capabilitylist.xml":
			parts := []string{rsLN("up", base+".well-known/resourcesync"), rsMD(`capability="capabilitylist"`), entryXML(base+"resourcelist_0000.xml", rsMD(`capability="resourcelist"`))}
			if s.changed() {
				parts = append(parts, entryXML(base+"changedump_0000.xml", rsMD(`capability="changedump"`)))
			}
			return send(out, "application/xml", foreignDoc("urlset", parts...))
		case "/metadata/resourcelist_0000.xml":
			return send(out, "application/xml", foreignDoc("urlset", up, rsMD(`at="`+w3c(foreignStart)+`" capability="resourcelist" completed="`+w3c(foreignStart.Add(time.Second))+`"`), join(s.atFirst(), func(r foreignResource) string {
				return entryXML(s.URL+r.path, lastmodXML(w3c(r.when)), resyncMD("", r))
			})))
		case "/metadata/changedump_0000.xml":
			return send(out, "application/xml", foreignDoc("urlset", up, rsMD(`capability="changedump" completed="`+w3c(s.at)+`"`), join(s.changesOf("created", "updated", "deleted"), func(r foreignResource) string {
				when := lastmodXML(w3c(r.when))
				if r.change == "deleted" {
					when = ""
				}
				return entryXML(s.URL+r.path, when, resyncMD(`change="`+r.change+`" `, r))
			})))
		}
		return false
	},
}

//go:build unix

package main

import (
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	foreignHead = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"
	smNamespace = "http://www.sitemaps.org/schemas/sitemap/0.9"
	rsNamespace = "http://www.openarchives.org/rs/terms/"
)

// foreignDoc is a document with prefixes as most programs write them.
func foreignDoc(root string, parts ...string) string {
	return foreignHead + fmt.Sprintf(`<%s xmlns="%s" xmlns:rs="%s">`, root, smNamespace, rsNamespace) + "\n" + strings.Join(parts, "\n") + "\n</" + root + ">\n"
}

func md5Of(body string) string    { return fmt.Sprintf("%x", md5.Sum([]byte(body))) }
func sha256Of(body string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(body))) }

func w3c(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// send answers with a document.
func send(out http.ResponseWriter, mediaType, body string) bool {
	out.Header().Set("Content-Type", mediaType)
	_, _ = fmt.Fprint(out, body)
	return true
}

// join makes a part of each resource.
func join(all []foreignResource, part func(foreignResource) string) string {
	var parts []string
	for _, r := range all {
		parts = append(parts, part(r))
	}
	return strings.Join(parts, "\n")
}

// changed reports whether anything has changed yet.
func (s *foreignSite) changed() bool { return len(s.changes) > 0 }

var foreignShapes = []shape{
	podShape, dspaceShape, wekoShape, hyraxShape, coreShape, pinakesShape,
	resyncShape, simulatorShape, rspubShape, pyResourcesyncShape,
}

// rsMD, rsLN and entryXML write elements as most programs do.
func rsMD(attributes string) string { return "<rs:md " + attributes + "/>" }
func rsLN(rel, href string) string  { return `<rs:ln rel="` + rel + `" href="` + href + `"/>` }
func entryXML(loc string, parts ...string) string {
	return "<url><loc>" + loc + "</loc>" + strings.Join(parts, "") + "</url>"
}
func lastmodXML(when string) string { return "<lastmod>" + when + "</lastmod>" }

var podShape = shape{
	name: "POD", start: "/", token: "pod-token",
	from:     "pod4lib/aggregator@e1ee07d1 app/views/{resourcesync,organizations,streams}/*.xml.builder",
	says:     "a token, three Capability Lists below the well-known path, an index whose `at` is now and which tells `at` of each part, rs:md before loc, `at=\"\"` where nothing was dumped, one where the index tells the moment of the newest delta, no Change List",
	lacks:    "say of its normalised dumps of which moment they are (exit 1); list changes",
	why:      "The index of the normalised dumps tells the moment of the newest delta (app/views/organizations/index.xml.builder:26), the part that of the full dump (app/views/streams/normalized_dump.xml.builder:11): the part may be a copy from before, so nothing of that set is deleted",
	path:     func(n int) string { return fmt.Sprintf("/file/%d/marc.xml", n) },
	baseline: "baseline: +6 ~0 −0 by get, exit 1", incremental: "baseline: +1 ~1 −1 by get, exit 1", audit: "partial: =6 +0 −0 *0 ?0, exit 4",
	files: "6 of 6, 0 more",
	serve: func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool {
		wellKnown := s.URL + "/.well-known/resourcesync"
		up := rsLN("up", wellKnown)
		set := func(list string) string {
			return foreignDoc("urlset", up, rsMD(`capability="capabilitylist"`), entryXML(s.URL+list, rsMD(`capability="resourcelist"`)))
		}
		index := func(capabilityList string, parts ...string) string {
			return foreignDoc("sitemapindex", rsLN("up", capabilityList), rsMD(`capability="resourcelist" at="`+w3c(s.at.Add(10*time.Hour))+`"`), strings.Join(parts, ""))
		}
		part := func(at time.Time, loc string) string {
			return "<sitemap>" + rsMD(`at="`+w3c(at)+`"`) + "<loc>" + s.URL + loc + "</loc></sitemap>"
		}
		stream := func(index, at string, some ...foreignResource) string {
			return foreignDoc("urlset", rsLN("up", s.URL+index), rsMD(`capability="resourcelist" at="`+at+`"`), join(some, func(r foreignResource) string {
				return "<url>" + rsMD(fmt.Sprintf(`hash="md5:%s" type="application/marcxml+xml" length="%d"`, md5Of(r.body), len(r.body))) + "<loc>" + s.URL + r.path + "</loc>" + lastmodXML(w3c(r.when)) + "</url>"
			}))
		}
		one, two := s.at.Add(-2*time.Hour), s.at.Add(-time.Hour)
		raw, marcXML, marc21 := "/organizations/resourcelist", "/organizations/normalized_resourcelist/marcxml", "/organizations/normalized_resourcelist/marc21"
		switch r.URL.Path {
		case "/.well-known/resourcesync":
			return send(out, "application/xml; charset=utf-8", foreignDoc("urlset", rsMD(`capability="description"`),
				entryXML(wellKnown+"/capabilitylist", rsMD(`capability="capabilitylist"`)),
				entryXML(wellKnown+"/normalized-capabilitylist/marcxml", rsMD(`capability="capabilitylist"`)),
				entryXML(wellKnown+"/normalized-capabilitylist/marc21", rsMD(`capability="capabilitylist"`))))
		case "/.well-known/resourcesync/capabilitylist":
			return send(out, "application/xml; charset=utf-8", set(raw))
		case "/.well-known/resourcesync/normalized-capabilitylist/marcxml":
			return send(out, "application/xml; charset=utf-8", set(marcXML))
		case "/.well-known/resourcesync/normalized-capabilitylist/marc21":
			return send(out, "application/xml; charset=utf-8", set(marc21))
		case raw:
			return send(out, "application/xml; charset=utf-8", index(wellKnown+"/capabilitylist", part(one, "/organizations/one/streams/1/resourcelist"), part(two, "/organizations/two/streams/2/resourcelist")))
		case marcXML: // the newest delta is newer than the full dump, and the part tells only of that
			return send(out, "application/xml; charset=utf-8", index(wellKnown+"/normalized-capabilitylist/marcxml", part(two, "/organizations/two/streams/2/normalized_resourcelist/marcxml")))
		case marc21:
			return send(out, "application/xml; charset=utf-8", index(wellKnown+"/normalized-capabilitylist/marc21", part(one, "/organizations/one/streams/1/normalized_resourcelist/marc21")))
		case "/organizations/one/streams/1/resourcelist":
			return send(out, "application/xml; charset=utf-8", stream(raw, w3c(one), s.numbered(1, 2, 7)...))
		case "/organizations/two/streams/2/resourcelist":
			return send(out, "application/xml; charset=utf-8", stream(raw, w3c(two), s.numbered(4, 5)...))
		case "/organizations/two/streams/2/normalized_resourcelist/marcxml":
			return send(out, "application/xml; charset=utf-8", stream(marcXML, w3c(foreignStart.Add(-80*time.Hour)), s.numbered(3, 6)...))
		case "/organizations/one/streams/1/normalized_resourcelist/marc21":
			return send(out, "application/xml; charset=utf-8", stream(marc21, ""))
		}
		return false
	},
}

// numbered are the resources with these numbers that exist.
func (s *foreignSite) numbered(numbers ...int) []foreignResource {
	var some []foreignResource
	for _, n := range numbers {
		for _, r := range s.resources {
			if r.path == s.shape.pathOf(n) {
				some = append(some, r)
			}
		}
	}
	return some
}

// The records of DSpace are of items: those of odd numbers are files, with length and
// digest, the others metadata, without. Only of files is a deletion told of the URI by which
// they were listed (DSpaceChangeList.java:103); here one is deleted.
var dspaceShape = shape{
	name: "DSpace", start: "/dspace-resourcesync/sourcedescription.xml",
	from:  "DSpace/DSpaceResourceSync@bb841db9 DSpaceResourceList.java, DSpaceChangeList.java, ResourceSyncGenerator.java by DSpace/ResourceSyncJava@40012cfc ResourceSyncDocument.java",
	says:  "a prefix for the Sitemap namespace, `from` and no `at` on its Resource List, metadata without length and digest, a Resource Dump whose package is refused with its own settings, a Change List of another name at each update, deletions first and without any time, local time called Z",
	lacks: "say what changed before the first Change List that it links (exit 4)",
	why:   "Its first Change List is linked by nothing (ResourceSyncGenerator.java:203-206), and the next one begins where that ended: what changed between the Resource List and that is told nowhere",
	path: func(n int) string {
		if n%2 == 1 {
			return fmt.Sprintf("/dspace-resourcesync/bitstreams/%d", n)
		}
		return fmt.Sprintf("/dspace-resourcesync/resource/123456789/%d/qdc", n)
	},
	baseline: "baseline: +6 ~0 −0 by get", incremental: "baseline: +1 ~1 −1 by get, exit 4", audit: "partial: =3 +0 −0 *0 ?3, exit 4",
	files: "6 of 6, 0 more",
	serve: func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool {
		base := s.URL + "/dspace-resourcesync/"
		doc := func(parts ...string) string {
			return foreignHead + `<sm:urlset xmlns:sm="` + smNamespace + `" xmlns:rs="` + rsNamespace + `">` + "\n" + strings.Join(parts, "\n") + "\n</sm:urlset>\n"
		}
		named := func(name, capability string) string {
			return "<sm:url><sm:loc>" + base + name + "</sm:loc>" + rsMD(`capability="`+capability+`"`) + "</sm:url>"
		}
		up := rsLN("up", base+"capabilitylist.xml")
		listed := func(r foreignResource) string {
			change := ""
			if r.change != "" {
				change = `change="` + r.change + `" `
			}
			said := rsMD(fmt.Sprintf(`%shash="md5:%s" length="%d" type="application/pdf"`, change, md5Of(r.body), len(r.body)))
			if strings.HasSuffix(r.path, "/qdc") {
				said = rsMD(change+`type="application/xml"`) + rsLN("profile", "http://purl.org/dc/terms/")
			}
			return "<sm:url><sm:loc>" + s.URL + r.path + "</sm:loc><sm:lastmod>" + w3c(r.when) + "</sm:lastmod>" + said + rsLN("collection", "http://www.example.org/handle/123456789/99") + "</sm:url>"
		}
		switch r.URL.Path {
		case "/dspace-resourcesync/sourcedescription.xml":
			return send(out, "application/xml", doc(rsMD(`capability="description"`), named("capabilitylist.xml", "capabilitylist")))
		case "/dspace-resourcesync/capabilitylist.xml":
			parts := []string{rsMD(`capability="capabilitylist"`), rsLN("describedby", base+"about.txt"), rsLN("up", base+"sourcedescription.xml"),
				named("resourcelist.xml", "resourcelist"), named("resourcedump.xml", "resourcedump")}
			if s.changed() { // the first, empty one is linked by nothing
				parts = append(parts, named("changelist_2026-03-02-120000.xml", "changelist"))
			}
			return send(out, "application/xml", doc(parts...))
		case "/dspace-resourcesync/resourcelist.xml":
			return send(out, "application/xml", doc(rsMD(`capability="resourcelist" from="`+w3c(foreignStart)+`"`), up, join(s.atFirst(), listed)))
		case "/dspace-resourcesync/resourcedump.xml":
			return send(out, "application/xml", doc(rsMD(`capability="resourcedump" from="`+w3c(foreignStart)+`"`), up,
				"<sm:url><sm:loc>"+base+"resourcedump.zip</sm:loc><sm:lastmod>"+w3c(foreignStart)+"</sm:lastmod>"+rsMD(`length="1234" type="application/zip"`)+"</sm:url>"))
		case "/dspace-resourcesync/resourcedump.zip": // made on the fly, for a path with a handle in it, which this is not
			http.Error(out, "", http.StatusBadRequest)
			return true
		case "/dspace-resourcesync/changelist_2026-03-02-120000.xml":
			parts := []string{rsMD(`capability="changelist" from="` + w3c(foreignStart.Add(time.Minute)) + `" until="` + w3c(s.at) + `"`), up}
			for _, c := range s.changes {
				if c.change == "deleted" {
					parts = append(parts, "<sm:url><sm:loc>"+s.URL+c.path+"</sm:loc>"+rsMD(`change="deleted"`)+"</sm:url>")
				}
			}
			for _, c := range s.changes {
				if c.change != "deleted" {
					parts = append(parts, listed(c))
				}
			}
			return send(out, "application/xml", doc(parts...))
		}
		return false
	},
}

// atFirst are the resources as the first lists had them.
func (s *foreignSite) atFirst() []foreignResource {
	if !s.changed() {
		return s.resources
	}
	return s.shape.first()
}

var wekoShape = shape{
	name: "WEKO", start: "/",
	from:     "RCOSDP/weko@bb556204 modules/invenio-resourcesyncserver/invenio_resourcesyncserver/{utils,api}.py",
	says:     "a Source Description whose Capability List is called `capability`, no `at`, no length and no digest, a package for each record whose members are other resources, an index of Change Lists that is a urlset and ends now, Change Lists without `from`, changes with `at`, a deletion told only beside another change of the record, created told of a URI that is not listed",
	lacks:    "serve the earlier versions that its Change List names (exit 4)",
	why:      "Its Change List gives each version of a record but the last a URI of its own (api.py:761-769), at which there is nothing: one resource fails, and the audit calls it missing",
	path:     func(n int) string { return fmt.Sprintf("/resync/%d/records/%d", 1+n%2, n) },
	baseline: "baseline: +6 ~0 −0 by get", incremental: "baseline: +1 ~1 −1 by get, exit 4", audit: "not-in-sync: =0 +1 −0 *0 ?6, exit 3",
	files: "6 of 6, 0 more",
	serve: func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool {
		micro := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
		out.Header().Set("Date", s.at.Format(http.TimeFormat)) // an index says until now
		up := rsLN("up", s.URL+"/resync/capability.xml")
		var index int
		var rest string
		if n, _ := fmt.Sscanf(r.URL.Path, "/resync/%d/%s", &index, &rest); n != 2 {
			rest = r.URL.Path
		}
		base := fmt.Sprintf("%s/resync/%d/", s.URL, index)
		own := func(r foreignResource) bool { return strings.HasPrefix(s.URL+r.path, base) }
		id := func(r foreignResource) string { return r.path[strings.LastIndexByte(r.path, '/')+1:] }
		switch rest {
		case "/.well-known/resourcesync", "/resync/source.xml":
			return send(out, "application/xml", foreignDoc("urlset", rsLN("describedby", s.URL+"/"), rsMD(`capability="description"`),
				entryXML(s.URL+"/resync/capability.xml", rsMD(`capability="capability"`))))
		case "/resync/capability.xml":
			parts := []string{rsLN("up", s.URL+"/resync/source.xml"), rsMD(`capability="capabilitylist"`)}
			for _, kinds := range [][]string{{"resourcelist", "resourcedump"}, {"changelist", "changedump"}} {
				for _, index := range s.wekoIndexes() {
					for _, c := range kinds {
						parts = append(parts, entryXML(s.URL+index+c+".xml", rsMD(`capability="`+c+`"`)))
					}
				}
			}
			return send(out, "application/xml", foreignDoc("urlset", parts...))
		case "resourcelist.xml":
			return send(out, "application/xml", foreignDoc("urlset", up, rsMD(`capability="resourcelist"`), join(s.resources, func(r foreignResource) string {
				if !own(r) {
					return ""
				}
				return entryXML(s.URL+r.path, lastmodXML(micro(r.when)))
			})))
		case "resourcedump.xml":
			return send(out, "application/xml", foreignDoc("urlset", up, rsMD(`capability="resourcedump"`), join(s.resources, func(r foreignResource) string {
				if !own(r) {
					return ""
				}
				return entryXML(base+id(r)+"/file_content.zip", lastmodXML(micro(r.when)), `<rs:ln href="`+base+id(r)+`/resourcedump_manifest.xml" rel="contents" type="application/xml"/>`)
			})))
		case "changelist.xml", "changedump.xml": // one period, which began at midnight ten days before
			kind := strings.TrimSuffix(rest, ".xml")
			return send(out, "application/xml", foreignDoc("urlset", up, rsMD(`capability="`+kind+`"`),
				entryXML(base+"20260220/"+rest, rsMD(`capability="`+kind+`" from="2026-02-20T00:00:00+00:00" until="`+micro(s.at)+`"`))))
		case "20260220/changelist.xml":
			parts := []string{up, rsLN("index", base+"changelist.xml"), rsMD(`capability="changelist"`)}
			for _, c := range s.wekoChanges() {
				if own(c) {
					parts = append(parts, entryXML(s.URL+c.path, lastmodXML(micro(c.when)), rsMD(fmt.Sprintf(`at="%s" change="%s"`, micro(c.when), c.change))))
				}
			}
			return send(out, "application/xml", foreignDoc("urlset", parts...))
		case "20260220/changedump.xml":
			parts := []string{up, rsLN("index", base+"changedump.xml"), rsMD(`capability="changedump"`)}
			for _, c := range s.wekoChanges() {
				if own(c) && c.change != "deleted" {
					parts = append(parts, entryXML(base+id(c)+"/change_dump_content.zip", lastmodXML(micro(c.when)), rsMD(fmt.Sprintf(`from="%s" type="application/zip" until="%s"`, micro(c.when), micro(s.at)))))
				}
			}
			return send(out, "application/xml", foreignDoc("urlset", parts...))
		}
		return false
	},
}

// wekoIndexes are the indexes that have records: an administrator chooses those of which there
// are lists (models.py:37, 74), of each four documents; the root index has all records.
func (s *foreignSite) wekoIndexes() []string {
	var all []string
	for _, r := range s.resources {
		index, _, _ := strings.Cut(r.path, "records/")
		all = append(all, index)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// wekoChanges are all versions of all records: of one that has a later version, the first
// is told of a URI of its own (api.py:761). A deletion is told if the record has another
// change in the period (utils.py:118), so the record is updated before it is deleted.
func (s *foreignSite) wekoChanges() []foreignResource {
	var all []foreignResource
	for _, r := range s.atFirst() {
		r.change = "created"
		for _, c := range s.changes {
			if c.path == r.path && c.change == "updated" {
				r.path += ".1"
			}
		}
		all = append(all, r)
	}
	for _, c := range s.changes {
		if c.change == "deleted" {
			before := c
			before.when, before.change = c.when.Add(-time.Minute), "updated"
			all = append(all, before)
		}
		all = append(all, c)
	}
	return all
}

var hyraxShape = shape{
	name: "Hyrax", start: "/", media: "text/html; charset=utf-8",
	from:     "samvera/hyrax@3be706ec lib/hyrax/resource_sync/*_writer.rb",
	says:     "a circle of `up` between description and Capability List, pages for people as resources, other bytes at each request, lastmod only, every record in the Change List, newest first, deletions never listed, documents a week old",
	lacks:    "list deletions: what is gone stays until the monthly baseline",
	why:      "Its Change List names what exists (change_list_writer.rb:56-60), and the Resource List is not asked for while that goes on",
	path:     func(n int) string { return fmt.Sprintf("/concern/generic_works/%d", n) },
	baseline: "baseline: +6 ~0 −0 by get", incremental: "incremental: +1 ~1 −0 by get", audit: "not-in-sync: =0 +0 −1 *0 ?6, exit 3",
	files: "6 of 6, 1 more",
	serve: func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool {
		named := func(name, capability string) string {
			return entryXML(s.URL+name, rsMD(`capability="`+capability+`"`))
		}
		up := rsLN("up", s.URL+"/capabilitylist")
		switch r.URL.Path {
		case "/.well-known/resourcesync":
			return send(out, "application/xml; charset=utf-8", foreignDoc("urlset", up, rsMD(`capability="description"`), named("/capabilitylist", "capabilitylist")))
		case "/capabilitylist":
			return send(out, "application/xml; charset=utf-8", foreignDoc("urlset", rsLN("up", s.URL+"/.well-known/resourcesync"), rsMD(`capability="capabilitylist"`), named("/resourcelist", "resourcelist"), named("/changelist", "changelist")))
		case "/resourcelist":
			return send(out, "application/xml; charset=utf-8", foreignDoc("urlset", up, rsMD(`capability="resourcelist" at="`+w3c(s.at)+`"`),
				join(s.resources, func(r foreignResource) string { return entryXML(s.URL+r.path, lastmodXML(w3c(r.when))) })))
		case "/changelist":
			all := slices.Clone(s.resources)
			slices.SortStableFunc(all, func(a, b foreignResource) int { return b.when.Compare(a.when) })
			return send(out, "application/xml; charset=utf-8", foreignDoc("urlset", up, rsMD(`capability="changelist" from="`+w3c(all[len(all)-1].when)+`"`), join(all, func(r foreignResource) string {
				change := "created"
				if r.change == "updated" {
					change = "updated"
				}
				return entryXML(s.URL+r.path, lastmodXML(w3c(r.when)), rsMD(`change="`+change+`"`))
			})))
		}
		for _, res := range s.resources {
			if r.URL.Path == res.path { // a token in each form
				s.asked++
				return send(out, s.shape.media, fmt.Sprintf("<!DOCTYPE html>\n<html><head><title>Work</title><meta name=\"csrf-token\" content=\"%d\"></head><body>%s</body></html>\n", s.asked, res.body))
			}
		}
		return false
	},
}

var coreShape = shape{
	name: "CORE", start: "/.well-known/resourcesync",
	from:     "none is public; nathj07/go-resourcesync@90e0f278 resourcesync/resourcesync_test.go reads such documents",
	says:     "`describedBy`, line breaks around loc, times without zone and with a blank, base64 digests, a Change List of tar.xz packages without a kind of change",
	lacks:    "list changes that can be read (exit 4)",
	why:      "Its Change List names archives (tar.xz) and says of none what changed (go-resourcesync: resourcesync/resourcesync_test.go:176-191)",
	baseline: "baseline: +6 ~0 −0 by get, exit 4", incremental: "baseline: +1 ~1 −1 by get, exit 4", audit: "partial: =6 +0 −0 *0 ?0, exit 4",
	files: "6 of 6, 0 more",
	serve: func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool {
		blank := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
		switch r.URL.Path {
		case "/.well-known/resourcesync":
			return send(out, "application/xml", foreignDoc("urlset", `<rs:ln rel="describedBy" href="`+s.URL+`/about"/>`, `<rs:md capability="description"/>`,
				`<url><loc>`+s.URL+`/rs/capabilitylist.xml</loc><rs:md capability="capabilitylist"/></url>`))
		case "/rs/capabilitylist.xml":
			return send(out, "application/xml", foreignDoc("urlset", `<rs:ln rel="up" href="`+s.URL+`/.well-known/resourcesync"/>`, `<rs:md capability="capabilitylist"/>`,
				`<url><loc>`+s.URL+`/rs/resourcelist.xml</loc><rs:md capability="resourcelist"/></url>`,
				`<url><loc>`+s.URL+`/rs/changelist.xml</loc><rs:md capability="changelist"/></url>`))
		case "/rs/resourcelist.xml":
			return send(out, "application/xml", foreignDoc("urlset", `<rs:ln rel="up" href="`+s.URL+`/rs/capabilitylist.xml"/>`, `<rs:md capability="resourcelist" at="`+blank(s.at)+`"/>`,
				join(s.resources, func(r foreignResource) string {
					return fmt.Sprintf("<url><loc>\n      %s\n    </loc><lastmod>%s</lastmod><rs:md hash=\"SHA256:%s\" length=\"%d\"/></url>", s.URL+r.path, blank(r.when), strings.ToUpper(sha256Of(r.body)), len(r.body))
				})))
		case "/rs/changelist.xml":
			return send(out, "application/xml", foreignDoc("urlset", `<rs:ln rel="up" href="`+s.URL+`/rs/capabilitylist.xml"/>`, `<rs:md capability="changelist" from="`+blank(foreignStart)+`"/>`,
				fmt.Sprintf(`<url><loc>%s/rs/changes-1.tar.xz</loc><lastmod>%s</lastmod><rs:md type="application/x-xz" length="1234"/></url>`, s.URL, blank(s.at))))
		}
		return false
	},
}

// pinakesPage is how many records a page has here; in Pinakes 500.
const pinakesPage = 3

var pinakesShape = shape{
	name: "Pinakes", start: "/", media: "application/ld+json",
	from:     "fabiodalez-dev/Pinakes@71613716 storage/plugins/resource-sync/ResourceSyncPlugin.php",
	says:     "lists in pages with `next` and `prev` of which each has the moment of its rendering, and an empty one at the end, `at` where it does not belong, offsets for UTC, further relations, no length and no digest, a Change List without `from` that has all records, newest first, and the deletions of 30 days",
	lacks:    "prove bytes (no length, no digest)",
	path:     func(n int) string { return fmt.Sprintf("/api/bibframe/book/%d", n) },
	baseline: "baseline: +6 ~0 −0 by get", incremental: "baseline: +1 ~1 −1 by get", audit: "in-sync: =0 +0 −0 *0 ?6",
	files: "6 of 6, 0 more",
	serve: func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool {
		zone := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05+00:00") }
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		now := s.at.Add(time.Duration(page) * time.Second)
		at := zone(now)
		out.Header().Set("Date", now.Format(http.TimeFormat))
		list := func(name, capability string, all []foreignResource, part func(foreignResource) string) bool {
			uri := s.URL + "/resync/" + name
			self := uri
			if page > 0 {
				self = fmt.Sprintf("%s?page=%d", uri, page)
			}
			links := rsLN("self", self) + rsLN("up", s.URL+"/resync/capabilitylist.xml")
			if page > 0 {
				links += rsLN("prev", fmt.Sprintf("%s?page=%d", uri, page-1))
			}
			some := all[min(page*pinakesPage, len(all)):min((page+1)*pinakesPage, len(all))]
			if len(some) == pinakesPage {
				links += rsLN("next", fmt.Sprintf("%s?page=%d", uri, page+1))
			}
			return send(out, "application/xml; charset=UTF-8", foreignDoc("urlset", rsMD(`capability="`+capability+`" at="`+at+`"`), links, join(some, part)))
		}
		switch r.URL.Path {
		case "/.well-known/resourcesync":
			return send(out, "application/xml; charset=UTF-8", foreignDoc("urlset", rsMD(`capability="description" at="`+at+`"`), rsLN("self", s.URL+r.URL.Path),
				entryXML(s.URL+"/resync/capabilitylist.xml", rsMD(`capability="capabilitylist"`))))
		case "/resync/capabilitylist.xml":
			again := rsLN("resourcesync", s.URL+r.URL.Path)
			return send(out, "application/xml; charset=UTF-8", foreignDoc("urlset", rsMD(`capability="capabilitylist" at="`+at+`"`), rsLN("self", s.URL+r.URL.Path), rsLN("up", s.URL+"/.well-known/resourcesync"),
				entryXML(s.URL+"/resync/resourcelist.xml", rsMD(`capability="resourcelist"`), again), entryXML(s.URL+"/resync/changelist.xml", rsMD(`capability="changelist"`), again)))
		case "/resync/resourcelist.xml":
			return list("resourcelist.xml", "resourcelist", s.resources, func(r foreignResource) string {
				return entryXML(s.URL+r.path, lastmodXML(zone(r.when)), rsMD(`type="application/ld+json"`))
			})
		case "/resync/changelist.xml":
			all := slices.Clone(s.resources)
			for _, c := range s.changes {
				if c.change == "deleted" {
					all = append(all, c)
				}
			}
			slices.SortStableFunc(all, func(a, b foreignResource) int { return b.when.Compare(a.when) })
			return list("changelist.xml", "changelist", all, func(r foreignResource) string {
				change := "updated"
				if r.change == "deleted" {
					change = r.change
				}
				return entryXML(s.URL+r.path, lastmodXML(zone(r.when)), rsMD(`change="`+change+`" type="application/ld+json"`))
			})
		}
		return false
	},
}

//go:build unix

package main

import (
	"archive/zip"
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
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

var foreignShapes = []shape{podShape, dspaceShape, wekoShape, hyraxShape, coreShape, pinakesShape}

var podShape = shape{
	name: "POD", start: "/.well-known/resourcesync/capabilitylist", token: "pod-token",
	says:     "a token for everything, a Capability List below the well-known path, `resourceList` in camel case, an index that is a urlset, rs:md before loc, no Change List",
	baseline: "baseline: +6 ~0 −0 by get", incremental: "baseline: +1 ~1 −1 by get", audit: "in-sync: =6 +0 −0 *0 ?0",
	serve: func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/.well-known/resourcesync/capabilitylist":
			return send(out, "application/xml; charset=utf-8", foreignDoc("urlset", `<rs:md capability="capabilitylist"/>`,
				`<url><rs:md capability="resourceList"/><loc>`+s.URL+`/organizations/one/resourcelist</loc></url>`))
		case "/organizations/one/resourcelist":
			return send(out, "text/xml", foreignDoc("urlset", `<rs:md capability="resourcelist" at="`+w3c(s.at)+`"/>`,
				`<url><rs:md capability="resourcelist"/><loc>`+s.URL+`/organizations/one/streams/1</loc></url>`))
		case "/organizations/one/streams/1":
			return send(out, "text/xml", foreignDoc("urlset", `<?xml-stylesheet type="text/xsl" href="/style.xsl"?>`,
				`<rs:ln rel="up" href="`+s.URL+`/.well-known/resourcesync/capabilitylist"/>`,
				`<rs:md capability="resourcelist" at="`+w3c(s.at)+`"/>`,
				join(s.resources, func(r foreignResource) string {
					return fmt.Sprintf(`<url><rs:md hash="md5:%s" length="%d" type="application/marcxml+xml"/><loc>%s</loc><lastmod>%s</lastmod></url>`,
						md5Of(r.body), len(r.body), s.URL+r.path, w3c(r.when))
				})))
		}
		return false
	},
}

var dspaceShape = shape{
	name: "DSpace", start: "/resync/sourcedescription.xml",
	says:     "a prefix for the Sitemap namespace, its own name of the Source Description, `changelistindex`, a package where a Resource Dump belongs, `from` on lists, changes by lastmod, deletions first, local time called Z",
	baseline: "baseline: +6 ~0 −0 by dump", incremental: "incremental: +1 ~1 −1 by get", audit: "in-sync: =6 +0 −0 *0 ?0",
	serve: func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool {
		doc := func(parts ...string) string {
			return foreignHead + `<sm:urlset xmlns:sm="` + smNamespace + `" xmlns:rs="` + rsNamespace + `">` + strings.Join(parts, "\n") + "</sm:urlset>"
		}
		up := `<rs:ln href="` + s.URL + `/resync/capabilitylist.xml" rel="up"/>`
		named := func(name, capability string) string {
			return `<sm:url><sm:loc>` + s.URL + "/resync/" + name + `</sm:loc><rs:md capability="` + capability + `"/></sm:url>`
		}
		switch r.URL.Path {
		case "/resync/sourcedescription.xml":
			return send(out, "application/xml", doc(`<rs:md capability="description"/>`, named("capabilitylist.xml", "capabilitylist")))
		case "/resync/capabilitylist.xml":
			return send(out, "application/xml", doc(`<rs:ln href="`+s.URL+`/resync/sourcedescription.xml" rel="up"/>`, `<rs:md capability="capabilitylist"/>`,
				named("resourcelist.xml", "resourcelist"), named("resourcedump.zip", "resourcedump"), named("changelist.xml", "changelist"), named("changelistindex.xml", "changelistindex")))
		case "/resync/resourcelist.xml":
			return send(out, "application/xml", doc(up, `<rs:md at="`+w3c(foreignStart)+`" from="`+w3c(foreignStart)+`" capability="resourcelist"/>`,
				join(s.atFirst(), func(r foreignResource) string {
					return fmt.Sprintf(`<sm:url><sm:loc>%s</sm:loc><sm:lastmod>%s</sm:lastmod><rs:md hash="md5:%s" length="%d" type="text/xml"/></sm:url>`, s.URL+r.path, w3c(r.when), md5Of(r.body), len(r.body))
				})))
		case "/resync/changelist.xml":
			changes := slices.Clone(s.changes)
			slices.SortStableFunc(changes, func(a, b foreignResource) int { // deletions first
				return strings.Compare(fmt.Sprint(a.change != "deleted"), fmt.Sprint(b.change != "deleted"))
			})
			return send(out, "application/xml", doc(up, `<rs:md from="`+w3c(foreignStart)+`" capability="changelist"/>`,
				join(changes, func(r foreignResource) string {
					if r.change == "deleted" {
						return fmt.Sprintf(`<sm:url><sm:loc>%s</sm:loc><sm:lastmod>%s</sm:lastmod><rs:md change="deleted"/></sm:url>`, s.URL+r.path, w3c(r.when))
					}
					return fmt.Sprintf(`<sm:url><sm:loc>%s</sm:loc><sm:lastmod>%s</sm:lastmod><rs:md change="%s" hash="md5:%s" length="%d"/></sm:url>`, s.URL+r.path, w3c(r.when), r.change, md5Of(r.body), len(r.body))
				})))
		case "/resync/resourcedump.zip":
			return send(out, "application/zip", s.dspacePackage())
		}
		return false
	},
}

// atFirst are the resources as the first lists had them.
func (s *foreignSite) atFirst() []foreignResource {
	if !s.changed() {
		return s.resources
	}
	var all []foreignResource
	for i := range 6 {
		all = append(all, foreignResource{
			path: fmt.Sprintf("/records/%d.xml", i+1), body: strings.Repeat(fmt.Sprintf("<record>%d</record>\n", i+1), i+1),
			when: foreignStart.Add(-time.Duration(100-i) * time.Hour),
		})
	}
	return all
}

// dspacePackage is a package whose members begin with a slash and whose manifest comes last.
func (s *foreignSite) dspacePackage() string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name, body string) {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(body))
		}
		if err != nil {
			panic(fmt.Errorf("writing a package into memory: %w", err))
		}
	}
	manifest := `<rs:md capability="resourcedump-manifest" at="` + w3c(foreignStart) + `"/>`
	for _, r := range s.atFirst() {
		add("/resources"+r.path, r.body)
		manifest += fmt.Sprintf(`<url><loc>%s</loc><lastmod>%s</lastmod><rs:md hash="md5:%s" length="%d" path="/resources%s"/></url>`, s.URL+r.path, w3c(r.when), md5Of(r.body), len(r.body), r.path)
	}
	add("manifest.xml", foreignDoc("urlset", manifest))
	if err := z.Close(); err != nil {
		panic(fmt.Errorf("writing a package into memory: %w", err))
	}
	return b.String()
}

var wekoShape = shape{
	name: "WEKO", start: "/resync/source.xml",
	says:     "an index that is a urlset, a capability nobody knows, several Resource Lists, no `at`, changes with `at`, lastmod of the moment, the newest changes only, query strings",
	baseline: "baseline: +6 ~0 −0 by get", incremental: "baseline: +1 ~1 −0 by get", audit: "in-sync: =4 +0 −0 *0 ?3",
	serve: func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool {
		if body, ok := s.wekoRecord(r); ok {
			return send(out, "application/xml", body)
		}
		up := func(name string) string { return `<rs:ln rel="up" href="` + s.URL + "/resync/" + name + `"/>` }
		url := func(name, capability string) string {
			return `<url><loc>` + s.URL + "/resync/" + name + `</loc><rs:md capability="` + capability + `"/></url>`
		}
		switch r.URL.Path {
		case "/resync/source.xml":
			return send(out, "application/xml", foreignDoc("urlset", `<rs:md capability="description"/>`, url("capability.xml", "capabilitylist")))
		case "/resync/capability.xml":
			return send(out, "application/xml", foreignDoc("urlset", up("source.xml"), `<rs:md capability="capabilitylist"/>`,
				url("1/resourcelist.xml", "resourcelist"), url("2/resourcelist.xml", "resourcelist"), url("1/changelist.xml", "changelist"), url("odd.xml", "capability")))
		case "/resync/1/resourcelist.xml", "/resync/2/resourcelist.xml":
			half := s.resources[:3]
			if strings.Contains(r.URL.Path, "/2/") {
				half = s.resources[3:]
			}
			return send(out, "application/xml", foreignDoc("urlset", up("capability.xml"), `<rs:md capability="resourcelist"/>`,
				join(half, func(r foreignResource) string {
					return fmt.Sprintf(`<url><loc>%s</loc><lastmod>%s</lastmod><rs:md hash="sha-256:%s" length="%d"/></url>`, s.weko(r), w3c(s.at), sha256Of(r.body), len(r.body))
				})))
		case "/resync/1/changelist.xml":
			return send(out, "application/xml", foreignDoc("urlset", up("capability.xml"), `<rs:md capability="changelist" from="`+w3c(foreignStart)+`"/>`,
				join(s.changes, func(r foreignResource) string {
					return fmt.Sprintf(`<url><loc>%s</loc><lastmod>%s</lastmod><rs:md change="%s" at="%s"/></url>`, s.weko(r), w3c(s.at), r.change, w3c(r.when))
				})))
		}
		return false
	},
}

// weko is the URI of a record: all that tells it from another is the query.
func (s *foreignSite) weko(r foreignResource) string {
	id := strings.TrimSuffix(r.path[strings.LastIndexByte(r.path, '/')+1:], ".xml")
	return s.URL + "/oai?verb=GetRecord&amp;metadataPrefix=jpcoar&amp;identifier=" + id
}

func (s *foreignSite) wekoRecord(r *http.Request) (string, bool) {
	for _, res := range s.resources {
		if r.URL.Path == "/oai" && strings.HasSuffix(s.weko(res), "identifier="+r.URL.Query().Get("identifier")) {
			return res.body, true
		}
	}
	return "", false
}

var hyraxShape = shape{
	name: "Hyrax", start: "/",
	says:     "found at the well-known URI, a circle of `up` between description and Capability List, lastmod only, newest change first, deletions never listed",
	baseline: "baseline: +6 ~0 −0 by get", incremental: "incremental: +1 ~1 −0 by get", audit: "not-in-sync: =0 +0 −1 *0 ?6, exit 3",
	serve: func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool {
		ln := func(rel, name string) string { return `<rs:ln rel="` + rel + `" href="` + s.URL + name + `"/>` }
		url := func(name, capability string) string {
			return `<url><loc>` + s.URL + name + `</loc><rs:md capability="` + capability + `"/></url>`
		}
		switch r.URL.Path {
		case "/.well-known/resourcesync", "/resourcesync":
			return send(out, "application/xml", foreignDoc("urlset", ln("up", "/capabilitylist"), `<rs:md capability="description"/>`, url("/capabilitylist", "capabilitylist")))
		case "/capabilitylist":
			return send(out, "application/xml", foreignDoc("urlset", ln("up", "/.well-known/resourcesync"), `<rs:md capability="capabilitylist"/>`, url("/resourcelist", "resourcelist"), url("/changelist", "changelist")))
		case "/resourcelist":
			return send(out, "application/xml", foreignDoc("urlset", ln("up", "/capabilitylist"), `<rs:md capability="resourcelist" at="`+w3c(s.at)+`"/>`,
				join(s.resources, func(r foreignResource) string {
					return fmt.Sprintf(`<url><loc>%s</loc><lastmod>%s</lastmod></url>`, s.URL+r.path, w3c(r.when))
				})))
		case "/changelist":
			changes := slices.DeleteFunc(slices.Clone(s.changes), func(r foreignResource) bool { return r.change == "deleted" })
			slices.Reverse(changes)
			return send(out, "application/xml", foreignDoc("urlset", ln("up", "/capabilitylist"), `<rs:md capability="changelist" from="`+w3c(foreignStart.AddDate(0, 0, -30))+`"/>`,
				join(changes, func(r foreignResource) string {
					return fmt.Sprintf(`<url><loc>%s</loc><lastmod>%s</lastmod><rs:md change="%s"/></url>`, s.URL+r.path, w3c(r.when), r.change)
				})))
		}
		return false
	},
}

var coreShape = shape{
	name: "CORE", start: "/.well-known/resourcesync",
	says:     "`describedBy`, line breaks around loc, times without zone and with a blank, base64 digests, a Change List of tar.xz packages without a kind of change",
	baseline: "baseline: +6 ~0 −0 by get", incremental: "baseline: +1 ~1 −1 by get", audit: "in-sync: =6 +0 −0 *0 ?0",
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

var pinakesShape = shape{
	name: "Pinakes", start: "/resourcesync/capabilitylist.xml",
	says:     "lists in pages with `next` and `prev`, `at` where it does not belong, offsets for UTC, further relations, changes by lastmod of the last 90 days, query strings",
	baseline: "baseline: +6 ~0 −0 by get", incremental: "incremental: +1 ~1 −1 by get", audit: "in-sync: =6 +0 −0 *0 ?0",
	serve: func(s *foreignSite, out http.ResponseWriter, r *http.Request) bool {
		zone := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05+00:00") }
		up := `<rs:ln rel="up" href="` + s.URL + `/resourcesync/capabilitylist.xml"/><rs:ln rel="resourcesync" href="` + s.URL + `/resourcesync/capabilitylist.xml"/>`
		switch r.URL.Path {
		case "/resourcesync/capabilitylist.xml":
			return send(out, "text/html", foreignDoc("urlset", `<rs:md capability="capabilitylist" at="`+zone(s.at)+`"/>`,
				`<url><loc>`+s.URL+`/resourcesync/resourcelist.xml?page=1</loc><rs:md capability="resourcelist"/></url>`,
				`<url><loc>`+s.URL+`/resourcesync/changelist.xml</loc><rs:md capability="changelist"/></url>`))
		case "/resourcesync/resourcelist.xml":
			page := s.resources[:3]
			links := `<rs:ln rel="next" href="` + s.URL + `/resourcesync/resourcelist.xml?page=2"/>`
			if r.URL.Query().Get("page") == "2" {
				page = s.resources[3:]
				links = `<rs:ln rel="prev" href="` + s.URL + `/resourcesync/resourcelist.xml?page=1"/>`
			}
			return send(out, "application/xml", foreignDoc("urlset", up, links, `<rs:md capability="resourcelist" at="`+zone(s.at)+`"/>`,
				join(page, func(r foreignResource) string {
					return fmt.Sprintf(`<url><loc>%s</loc><lastmod>%s</lastmod><rs:md hash="sha-256:%s" length="%d"/><rs:ln rel="self" href="%s"/></url>`, s.URL+r.path, zone(r.when), sha256Of(r.body), len(r.body), s.URL+r.path)
				})))
		case "/resourcesync/changelist.xml":
			return send(out, "application/xml", foreignDoc("urlset", up, `<rs:md capability="changelist" at="`+zone(s.at)+`" from="`+zone(s.at.AddDate(0, 0, -90))+`"/>`,
				join(s.changes, func(r foreignResource) string {
					return fmt.Sprintf(`<url><loc>%s</loc><lastmod>%s</lastmod><rs:md change="%s"/></url>`, s.URL+r.path, zone(r.when), r.change)
				})))
		}
		return false
	},
}

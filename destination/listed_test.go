package destination_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/pack"
	"instep/resourcesync"
)

// aState is the state of a set that documents describe: first 20 resources, then the same
// but for one that changed (/r/2), one that was deleted (/r/3) and a new one.
type aState struct {
	*aSource
	n     int      // its moment
	first bool     // it is the first one
	paths []string // its resources
	old   string   // the entry of /r/2 in the state before
}

func (s *aState) root(c string, n int) string { return fmt.Sprintf("capability=%q at=%q", c, at(n)) }

func (s *aState) all() []string { return s.rawEntries(s.paths...) }

// halves returns the entries of all resources in two parts.
func (s *aState) halves() (a, b []string) {
	all := s.all()
	return all[:10], all[10:]
}

// list writes a Resource List of the state.
func (s *aState) list(path, links string, entries ...string) {
	s.raw(path, s.root("resourcelist", s.n), links, entries...)
}

// dump writes a Resource Dump of the state.
func (s *aState) dump(path, links string, entries ...string) {
	s.raw(path, s.root("resourcedump", s.n), links, entries...)
}

// index writes an index; md is its rs:md.
func (s *aState) index(path, md, links string, entries ...string) {
	s.raw(path, md, links, entries...)
	s.put(path, asIndex(s.served(path)))
}

func asIndex(doc []byte) []byte {
	return []byte(strings.NewReplacer("urlset", "sitemapindex", "<url>", "<sitemap>", "</url>", "</sitemap>").Replace(string(doc)))
}

// lists writes a Resource List Index of these parts.
func (s *aState) lists(path, links string, parts ...string) {
	s.index(path, s.root("resourcelist", s.n), links, s.items(parts...)...)
}

func (s *aState) items(paths ...string) (entries []string) {
	for _, p := range paths {
		entries = append(entries, s.item(p, ""))
	}
	return entries
}

func (s *aState) item(path, attrs string) string {
	return fmt.Sprintf("<url><loc>%s</loc><rs:md %s/></url>", s.uri(path), attrs)
}

// damaged removes a document of the second state.
func (s *aState) damaged(path string) {
	if !s.first {
		s.remove(path)
	}
}

func (s *aState) redirect(from, to string) {
	s.answer(from, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
}

func (s *aState) link(rel, path string) string {
	return fmt.Sprintf("<rs:ln rel=%q href=%q/>", rel, s.uri(path))
}

// two writes two lists of half the resources each.
func (s *aState) two(links ...string) {
	a, b := s.halves()
	links = append(links, "", "")
	s.list("/1.xml", links[0], a...)
	s.list("/2.xml", links[1], b...)
}

// manifest returns the manifest of a package of these resources.
func (s *aState) manifest(n int, links string, paths ...string) string {
	var entries []string
	for i, p := range paths {
		entries = append(entries, s.rawEntry(p, fmt.Sprintf(`path="/m/%d"`, i), ""))
	}
	s.raw("/manifest", s.root("resourcedump-manifest", n), links, entries...)
	defer s.remove("/manifest")
	return string(s.served("/manifest"))
}

// zip writes a package with this manifest and returns its entry.
func (s *aState) zip(path, manifest string, paths ...string) string {
	members := []zipMember{{pack.ManifestName, []byte(manifest)}}
	for i, p := range paths {
		members = append(members, zipMember{fmt.Sprintf("m/%d", i), s.served(p)})
	}
	s.put(path, zipOf(s.t, members))
	return s.rawEntry(path, `type="application/zip"`, "")
}

func (s *aState) pack(path string, paths ...string) string {
	return s.zip(path, s.manifest(s.n, "", paths...), paths...)
}

func (s *aState) withCopy(entry, path, manifest string) string {
	s.put(path, []byte(manifest))
	return strings.Replace(entry, "</url>", s.link("contents", path)+"</url>", 1)
}

// each returns the entries of all resources, changed.
func (s *aState) each(oldnew ...string) []string {
	all := s.all()
	for i := range all {
		all[i] = strings.NewReplacer(oldnew...).Replace(all[i])
	}
	return all
}

func dated(entry string, n int) string {
	return strings.Replace(entry, "</loc>", fmt.Sprintf("</loc><lastmod>%s</lastmod>", at(n)), 1)
}

// stale returns the entry of the state before with its lastmod, and gives the present one
// its own.
func (s *aState) stale(all []string) (entries []string, old string) {
	for i := range all {
		all[i] = dated(all[i], s.n)
	}
	if s.old == "" {
		return all, s.item("/none", "")
	}
	return all, dated(s.old, s.n-5)
}

const (
	right = ""                // the mirror is what the documents say, and an idle run does nothing
	keeps = "deletes nothing" // likewise, but the documents are no evidence of absence
	tells = "does not succeed"
)

// A mirror has what Resource Lists and Resource Dumps of any shape say, or the run does not
// end with success and deletes nothing. Once the documents are usable again, all is well.
func TestListsAndDumpsOfUnusualShape(t *testing.T) {
	list, dump := []string{"resourcelist", "/list.xml"}, []string{"resourcedump", "/list.xml"}
	both := []string{"resourcelist", "/list.xml", "resourcedump", "/dump.xml"}
	for name, tt := range map[string]struct {
		want    string
		offers  []string
		publish func(s *aState)
	}{
		"a plain list": {right, list, func(s *aState) { s.list("/list.xml", "", s.all()...) }},

		// one URI twice
		"twice, the stale entry first": {right, list, func(s *aState) { s.list("/list.xml", "", append([]string{s.old}, s.all()...)...) }},
		"twice, the entry with the older lastmod last": {right, list, func(s *aState) {
			all, old := s.stale(s.all())
			s.list("/list.xml", "", slices.DeleteFunc(append(all, old), func(e string) bool { return strings.Contains(e, "/none") })...)
		}},
		"twice on two pages, the stale one first": {right, list, func(s *aState) {
			s.list("/list.xml", s.link("next", "/2.xml"), s.old)
			s.list("/2.xml", s.link("prev", "/list.xml"), s.all()...)
		}},
		"twice on two pages, the stale one last": {right, list, func(s *aState) {
			s.list("/list.xml", s.link("next", "/2.xml"), s.all()...)
			s.list("/2.xml", s.link("prev", "/list.xml"), s.old)
		}},
		"twice in two parts, the stale one first": {right, list, func(s *aState) {
			s.list("/1.xml", "", s.old)
			s.list("/2.xml", "", s.all()...)
			s.lists("/list.xml", "", "/1.xml", "/2.xml")
		}},
		"twice in two parts, the older lastmod last": {right, list, func(s *aState) {
			all, old := s.stale(s.all())
			s.list("/1.xml", "", all...)
			if s.list("/2.xml", ""); !s.first {
				s.list("/2.xml", "", old)
			}
			s.lists("/list.xml", "", "/1.xml", "/2.xml")
		}},
		"twice in two lists, the older lastmod last": {right, []string{"resourcelist", "/list.xml", "resourcelist", "/2.xml"}, func(s *aState) {
			all, old := s.stale(s.all())
			s.list("/list.xml", "", all...)
			if s.list("/2.xml", ""); !s.first {
				s.list("/2.xml", "", old)
			}
		}},
		"twice in two packages, the stale one first": {right, dump, func(s *aState) {
			m := strings.Replace(s.manifest(s.n, ""), "</urlset>", s.old+"</urlset>", 1)
			s.dump("/list.xml", "", s.zip("/o.zip", m), s.pack("/p.zip", s.paths...))
		}},

		// indexes
		"an index that names a part twice": {right, list, func(s *aState) {
			s.two()
			s.lists("/list.xml", "", "/1.xml", "/2.xml", "/1.xml")
		}},
		"an index that names itself": {tells, list, func(s *aState) {
			if s.two(); s.first {
				s.lists("/list.xml", "", "/1.xml", "/2.xml")
				return
			}
			s.lists("/list.xml", "", "/1.xml", "/2.xml", "/list.xml")
		}},
		"an index in an index": {tells, list, func(s *aState) {
			s.two()
			s.lists("/i.xml", "", "/2.xml")
			if s.lists("/list.xml", "", "/1.xml", "/i.xml"); s.first {
				s.lists("/list.xml", "", "/1.xml", "/2.xml")
			}
		}},
		"an index that names a Change List": {tells, list, func(s *aState) {
			if s.two(); !s.first {
				s.raw("/2.xml", fmt.Sprintf(`capability="changelist" from=%q`, at(0)), "")
			}
			s.lists("/list.xml", "", "/1.xml", "/2.xml")
		}},
		"an index that names a Resource Dump": {tells, list, func(s *aState) {
			if s.two(); !s.first {
				s.dump("/2.xml", "", s.pack("/p.zip", s.paths[10:]...))
			}
			s.lists("/list.xml", "", "/1.xml", "/2.xml")
		}},
		"two parts that are one document": {tells, list, func(s *aState) {
			s.two()
			s.lists("/list.xml", "", "/1.xml", "/2.xml")
			s.answer("/2.xml", nil)
			if !s.first {
				s.answer("/2.xml", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/1.xml", http.StatusFound) })
			}
		}},
		"a part is offered, and links to its index": {right, []string{"resourcelist", "/1.xml"}, func(s *aState) {
			s.two(s.link("index", "/list.xml"), s.link("index", "/list.xml"))
			s.lists("/list.xml", "", "/1.xml", "/2.xml")
		}},
		"a list that links to itself as its index":              {right, list, func(s *aState) { s.list("/list.xml", s.link("index", "/list.xml"), s.all()...) }},
		"a list that links to its Capability List as its index": {right, list, func(s *aState) { s.list("/list.xml", s.link("index", "/caps.xml"), s.all()...) }},
		"a part is offered, and its index is missing": {tells, []string{"resourcelist", "/1.xml"}, func(s *aState) {
			s.two(s.link("index", "/list.xml"), s.link("index", "/list.xml"))
			s.lists("/list.xml", "", "/1.xml", "/2.xml")
			s.damaged("/list.xml")
		}},
		"its index is an HTML page": {keeps, list, func(s *aState) {
			s.list("/list.xml", s.link("index", "/i.html"), s.all()...)
			s.put("/i.html", []byte("<!DOCTYPE html><title>Lists</title>"))
		}},
		"its index is said to be HTML": {right, list, func(s *aState) {
			s.list("/list.xml", strings.Replace(s.link("index", "/i.html"), "/>", ` type="text/html"/>`, 1), s.all()...)
		}},
		"its index names only the list and has no at": {right, list, func(s *aState) {
			s.list("/list.xml", s.link("index", "/i.xml"), s.all()...)
			s.index("/i.xml", `capability="resourcelist"`, "", s.items("/list.xml")...)
		}},
		"its index names only the list and stands still": {right, list, func(s *aState) {
			if s.list("/list.xml", s.link("index", "/i.xml"), s.all()...); s.first {
				s.lists("/i.xml", "", "/list.xml")
			}
		}},
		"its index names the list by another URI": {right, list, func(s *aState) {
			s.list("/list.xml", s.link("index", "/i.xml"), s.all()...)
			s.lists("/i.xml", "", "/l.xml")
			s.redirect("/l.xml", "/list.xml")
		}},
		"an index without at": {keeps, list, func(s *aState) {
			s.two()
			s.index("/list.xml", `capability="resourcelist"`, "", s.items("/1.xml", "/2.xml")...)
		}},
		"parts without at": {keeps, list, func(s *aState) {
			s.raw("/1.xml", `capability="resourcelist"`, "", s.all()...)
			s.lists("/list.xml", "", "/1.xml")
		}},
		"a part that is newer than its index": {keeps, list, func(s *aState) {
			a, b := s.halves()
			s.list("/1.xml", "", a...)
			s.raw("/2.xml", s.root("resourcelist", s.n+1), "", b...)
			s.lists("/list.xml", "", "/1.xml", "/2.xml")
		}},
		"a part that is older than its index": {tells, list, func(s *aState) {
			if s.two(); !s.first {
				_, b := s.halves()
				s.raw("/2.xml", s.root("resourcelist", s.n-1), "", b...)
			}
			s.lists("/list.xml", "", "/1.xml", "/2.xml")
		}},
		"an index of url elements": {right, list, func(s *aState) {
			s.two()
			s.lists("/list.xml", "", "/1.xml", "/2.xml")
			s.put("/list.xml", []byte(strings.NewReplacer("<sitemap>", "<url>", "</sitemap>", "</url>").Replace(string(s.served("/list.xml")))))
		}},
		"a urlset of sitemap elements": {right, list, func(s *aState) {
			s.two()
			s.lists("/list.xml", "", "/1.xml", "/2.xml")
			s.put("/list.xml", []byte(strings.ReplaceAll(string(s.served("/list.xml")), "sitemapindex", "urlset")))
		}},
		"a urlset that names lists": {right, list, func(s *aState) {
			s.two()
			s.list("/list.xml", "", s.item("/1.xml", `capability="resourcelist"`), s.item("/2.xml", `capability="resourcelist"`))
		}},
		"a list that names a Capability List": {right, list, func(s *aState) {
			s.list("/list.xml", "", append(s.all()[1:], s.rawEntry(s.paths[0], `capability="capabilitylist"`, ""))...)
		}},
		"a list that names a Resource Dump": {tells, list, func(s *aState) {
			entry := s.pack("/p.zip", s.paths[10:]...)
			s.dump("/d.xml", "", entry)
			if s.list("/list.xml", "", append(s.all()[:10], s.item("/d.xml", `capability="resourcedump"`))...); s.first {
				s.list("/list.xml", "", s.all()...)
			}
		}},

		// pages
		"pages beside an index": {right, list, func(s *aState) {
			s.two(s.link("next", "/2.xml"), s.link("prev", "/1.xml"))
			s.lists("/list.xml", "", "/1.xml", "/2.xml")
		}},
		"an index that names the second page only": {tells, list, func(s *aState) {
			s.two(s.link("next", "/2.xml"), s.link("prev", "/1.xml"))
			if s.lists("/list.xml", "", "/2.xml"); s.first {
				s.lists("/list.xml", "", "/1.xml")
			}
		}},
		"previous pages that lead to parts": {right, list, func(s *aState) {
			s.two(s.link("next", "/b.xml"), s.link("prev", "/a.xml"))
			s.lists("/list.xml", "", "/1.xml", "/2.xml")
			s.redirect("/a.xml", "/1.xml")
			s.redirect("/b.xml", "/2.xml")
		}},
		"a previous page with https": {right, list, func(s *aState) {
			s.two("", strings.Replace(s.link("prev", "/1.xml"), "http:", "https:", 1))
			s.lists("/list.xml", "", "/1.xml", "/2.xml")
		}},
		"a next page that is linked twice": {right, list, func(s *aState) {
			a, b := s.halves()
			s.list("/list.xml", s.link("next", "/2.xml")+`<rs:ln rel="next" href="2.xml"/>`, a...)
			s.list("/2.xml", s.link("prev", "/list.xml"), b...)
		}},
		"pages of an index": {right, list, func(s *aState) {
			s.two()
			s.lists("/list.xml", s.link("next", "/l2.xml"), "/1.xml")
			s.lists("/l2.xml", s.link("prev", "/list.xml"), "/2.xml")
		}},
		"a page that is an index": {right, list, func(s *aState) {
			a, _ := s.halves()
			s.two()
			s.list("/list.xml", s.link("next", "/l2.xml"), a...)
			s.lists("/l2.xml", s.link("prev", "/list.xml"), "/2.xml")
		}},
		"several next pages": {tells, list, func(s *aState) {
			a, b := s.halves()
			s.list("/2.xml", "", a[5:]...)
			s.list("/3.xml", "", b...)
			if s.list("/list.xml", s.link("next", "/2.xml")+s.link("next", "/3.xml"), a[:5]...); s.first {
				s.list("/list.xml", "", s.all()...)
			}
		}},
		"a page that leads to the first one": {tells, list, func(s *aState) {
			a, b := s.halves()
			s.list("/list.xml", s.link("next", "/2.xml"), a...)
			s.list("/2.xml", s.link("prev", "/list.xml"), b...)
			s.answer("/2.xml", nil)
			if !s.first {
				s.answer("/2.xml", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/list.xml", http.StatusFound) })
			}
		}},
		"pages of which one has no at": {keeps, list, func(s *aState) {
			a, b := s.halves()
			s.list("/list.xml", s.link("next", "/2.xml"), a...)
			s.raw("/2.xml", `capability="resourcelist"`, s.link("prev", "/list.xml"), b...)
		}},

		// bytes and values
		"a byte order mark": {right, list, func(s *aState) {
			s.list("/list.xml", "", s.all()...)
			s.put("/list.xml", append([]byte("\xef\xbb\xbf"), s.served("/list.xml")...))
		}},
		"gzip in two members": {right, list, func(s *aState) {
			s.list("/list.xml", "", s.all()...)
			b := s.served("/list.xml")
			s.put("/list.xml", append(gzipped(b[:500]), gzipped(b[500:])...))
		}},
		"gzip that is cut": {tells, list, func(s *aState) {
			s.list("/list.xml", "", s.all()...)
			if z := gzipped(s.served("/list.xml")); !s.first {
				s.put("/list.xml", z[:len(z)-9])
			}
		}},
		"an empty part": {tells, list, func(s *aState) {
			s.two()
			s.lists("/list.xml", "", "/1.xml", "/2.xml")
			if !s.first {
				s.put("/2.xml", nil)
			}
		}},
		"two root elements": {tells, list, func(s *aState) {
			if s.list("/list.xml", "", s.all()...); !s.first {
				s.put("/list.xml", append(s.served("/list.xml"), s.served("/list.xml")...))
			}
		}},
		"entries of no namespace": {tells, list, func(s *aState) {
			if s.list("/list.xml", "", s.all()...); !s.first {
				s.list("/list.xml", "", s.each("<url>", `<url xmlns="">`)...)
			}
		}},
		"entries of an earlier namespace": {tells, list, func(s *aState) {
			if s.list("/list.xml", "", s.all()...); !s.first {
				s.list("/list.xml", "", s.each("<url>", `<url xmlns="http://www.google.com/schemas/sitemap/0.84">`)...)
			}
		}},
		"spaces around URIs":           {right, list, func(s *aState) { s.list("/list.xml", "", s.each("<loc>", "<loc>\n ", "</loc>", "\t</loc>")...) }},
		"URIs without scheme and host": {right, list, func(s *aState) { s.list("/list.xml", "", s.each(s.srv.URL, "")...) }},
		"CDATA and comments": {right, list, func(s *aState) {
			s.list("/list.xml", "", s.each("<loc>", "<loc><![CDATA[", "</loc>", "]]><!-- --></loc>")...)
		}},
		"parts with fragments": {right, list, func(s *aState) {
			s.two()
			s.lists("/list.xml", "", "/1.xml#top", "/2.xml", "/1.xml")
		}},
		"entries with change attributes": {keeps, list, func(s *aState) { s.list("/list.xml", "", s.each("hash=", `change="updated" hash=`)...) }},

		// dumps
		"a dump": {right, dump, func(s *aState) { s.dump("/list.xml", "", s.pack("/p.zip", s.paths...)) }},
		"an index of dumps": {right, dump, func(s *aState) {
			s.dump("/1.xml", "", s.pack("/p.zip", s.paths[:10]...))
			s.dump("/2.xml", "", s.pack("/q.zip", s.paths[10:]...))
			s.index("/list.xml", s.root("resourcedump", s.n), "", s.items("/1.xml", "/2.xml")...)
		}},
		"a dump is offered, and links to its index": {right, []string{"resourcedump", "/1.xml"}, func(s *aState) {
			s.dump("/1.xml", s.link("index", "/list.xml"), s.pack("/p.zip", s.paths[:10]...))
			s.dump("/2.xml", s.link("index", "/list.xml"), s.pack("/q.zip", s.paths[10:]...))
			s.index("/list.xml", s.root("resourcedump", s.n), "", s.items("/1.xml", "/2.xml")...)
		}},
		"an index of packages": {right, dump, func(s *aState) {
			s.pack("/p.zip", s.paths[:10]...)
			s.pack("/q.zip", s.paths[10:]...)
			s.index("/list.xml", s.root("resourcedump", s.n), "", s.items("/p.zip", "/q.zip")...)
		}},
		"pages of a dump": {right, dump, func(s *aState) {
			s.dump("/list.xml", s.link("next", "/2.xml"), s.pack("/p.zip", s.paths[:10]...))
			s.dump("/2.xml", s.link("prev", "/list.xml"), s.pack("/q.zip", s.paths[10:]...))
		}},
		"a dump that names a Resource List": {tells, dump, func(s *aState) {
			if s.dump("/list.xml", "", s.pack("/p.zip", s.paths...)); !s.first {
				s.list("/2.xml", "", s.all()[10:]...)
				s.dump("/1.xml", "", s.pack("/p.zip", s.paths[:10]...))
				s.index("/list.xml", s.root("resourcedump", s.n), "", s.items("/1.xml", "/2.xml")...)
			}
		}},
		"a dump that lists resources": {tells, dump, func(s *aState) {
			if s.dump("/list.xml", "", s.pack("/p.zip", s.paths...)); !s.first {
				s.dump("/list.xml", "", append(s.all()[10:], s.pack("/p.zip", s.paths[:10]...))...)
			}
		}},
		"a package that is missing": {tells, dump, func(s *aState) {
			s.dump("/list.xml", "", s.pack("/p.zip", s.paths[:10]...), s.pack("/q.zip", s.paths[10:]...))
			s.damaged("/q.zip")
		}},
		"a package without manifest": {tells, dump, func(s *aState) {
			s.dump("/list.xml", "", s.pack("/p.zip", s.paths[:10]...), s.pack("/q.zip", s.paths[10:]...))
			if !s.first {
				s.put("/q.zip", zipOf(s.t, []zipMember{{"m/1", nil}}))
			}
		}},
		"a manifest of another kind": {tells, dump, func(s *aState) {
			m := s.manifest(s.n, "", s.paths...)
			if !s.first {
				m = strings.Replace(m, "resourcedump-manifest", "changedump-manifest", 1)
			}
			s.dump("/list.xml", "", s.zip("/p.zip", m, s.paths...))
		}},
		"a manifest with another page": {tells, dump, func(s *aState) {
			if s.dump("/list.xml", "", s.pack("/p.zip", s.paths...)); !s.first {
				s.put("/m2.xml", []byte(s.manifest(s.n, "", s.paths[10:]...)))
				s.dump("/list.xml", "", s.zip("/p.zip", s.manifest(s.n, s.link("next", "/m2.xml"), s.paths[:10]...), s.paths[:10]...))
			}
		}},
		"manifests that link to each other": {right, dump, func(s *aState) {
			m, n := s.manifest(s.n, s.link("next", "/m2.xml"), s.paths[:10]...), s.manifest(s.n, s.link("prev", "/m1.xml"), s.paths[10:]...)
			s.dump("/list.xml", "", s.withCopy(s.zip("/p.zip", m, s.paths[:10]...), "/m1.xml", m), s.withCopy(s.zip("/q.zip", n, s.paths[10:]...), "/m2.xml", n))
		}},
		"the copy of a manifest is an index": {right, dump, func(s *aState) {
			s.put("/m1.xml", []byte(s.manifest(s.n, "", s.paths[:10]...)))
			index := asIndex([]byte(strings.Replace(s.manifest(s.n, ""), "</urlset>", s.item("/m1.xml", "")+"</urlset>", 1)))
			s.dump("/list.xml", "", s.withCopy(s.pack("/p.zip", s.paths...), "/m.xml", string(index)))
		}},
		"a manifest that is older than its dump": {tells, dump, func(s *aState) {
			n := s.n
			if !s.first {
				n--
			}
			s.dump("/list.xml", "", s.zip("/p.zip", s.manifest(n, "", s.paths...), s.paths...))
		}},
		"a manifest that is newer than its dump": {keeps, dump, func(s *aState) {
			s.dump("/list.xml", "", s.zip("/p.zip", s.manifest(s.n+1, "", s.paths...), s.paths...))
		}},
		"a manifest that names a deleted resource": {keeps, dump, func(s *aState) {
			m := s.manifest(s.n, "", s.paths...)
			if !s.first {
				m = strings.Replace(m, "</urlset>", s.item("/r/3", `change="deleted"`)+"</urlset>", 1)
			}
			s.dump("/list.xml", "", s.zip("/p.zip", m, s.paths...))
		}},
		"one path for two resources": {right, dump, func(s *aState) {
			m := strings.Replace(s.manifest(s.n, "", s.paths...), `path="/m/1"`, `path="/m/0"`, 1)
			s.dump("/list.xml", "", s.zip("/p.zip", m, s.paths...))
		}},
		"a resource without path": {right, dump, func(s *aState) {
			m := strings.Replace(s.manifest(s.n, "", s.paths...), `path="/m/1"`, "", 1)
			s.dump("/list.xml", "", s.zip("/p.zip", m, s.paths...))
		}},
		"a dump without at": {keeps, dump, func(s *aState) {
			s.raw("/list.xml", `capability="resourcedump"`, "", s.pack("/p.zip", s.paths...))
		}},
		"a dump that is broken beside a list": {right, both, func(s *aState) {
			s.list("/list.xml", "", s.all()...)
			s.dump("/dump.xml", "", s.item("/none.zip", ""))
		}},
		"a list that is broken beside a dump": {right, both, func(s *aState) {
			s.put("/list.xml", nil)
			s.dump("/dump.xml", "", s.pack("/p.zip", s.paths...))
		}},
		"a stale dump beside a list": {right, both, func(s *aState) {
			s.list("/list.xml", "", s.all()...)
			if s.first {
				s.dump("/dump.xml", "", s.pack("/p.zip", s.paths...))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			paths := s.fill(20)
			s.offers(tt.offers...)
			tt.publish(&aState{aSource: s, first: true, paths: paths})
			m := newMirror(t, s)
			anyNumberOfDeletions(t, m)
			if rep, err := m.sync(); err != nil || tt.want != tells && lacks(rep, err) != "" {
				t.Fatal(rep, err)
			}
			old := s.rawEntry("/r/2", "", "")
			s.put("/r/2", []byte("changed, and longer"))
			s.put("/r/new", []byte("new"))
			gone := s.served("/r/3")
			s.remove("/r/3")
			now := append(without(paths, "/r/3"), "/r/new")
			tt.publish(&aState{aSource: s, n: 10, paths: now, old: old})
			for run := range 2 {
				rep, err := m.sync()
				why := lacks(rep, err)
				switch tt.want {
				case tells:
					if why == "" {
						t.Errorf("the run ended with success: %+v", rep)
					}
					if held := m.files(); slices.ContainsFunc(paths, func(p string) bool { return held[p] == "" }) {
						t.Errorf("resources were deleted: got %d", len(held))
					}
					continue
				case keeps:
					s.put("/r/3", gone)
					m.wantFiles(append(slices.Clone(now), "/r/3")...)
					s.remove("/r/3")
				default:
					m.wantFiles(now...)
				}
				if why != "" || run > 0 && rep.Created+rep.Updated+rep.Deleted > 0 {
					t.Errorf("run %d: %s; got %+v", run, why, rep)
				}
			}
			s.fresh("/2.xml")
			(&aState{aSource: s, n: 20, paths: now}).list("/again.xml", "", s.rawEntries(now...)...)
			s.offer("/again.xml", "")
			m.recovers(now...)
		})
	}
}

// A list is used although another one and the index to which it links cannot be read, and
// it is read once if it links to itself where it is.
func TestListBesideOneThatCannotBeRead(t *testing.T) {
	s := newSource(t)
	st := &aState{aSource: s, paths: s.fill(20)}
	s.offerLists("/list.xml", "/none.xml")
	st.list("/list.xml", st.link("index", "/i.xml"), st.all()...)
	m := newMirror(t, s)
	m.mustTell()
	m.wantFiles(st.paths...)
	s.offer("/list.xml", "")
	st.list("/v/list.xml", `<rs:ln rel="index" href="list.xml"/>`, st.all()...)
	st.redirect("/list.xml", "/v/list.xml")
	s.asked("/")
	m.mustSucceed()
	if n := s.asked("/v/"); n != 1 {
		t.Errorf("requests for the list: got %d, want 1", n)
	}
}

// Versions that documents of one time describe lead to one request, in the first run that
// reads them.
func TestVersionsOfOneMomentAreRequestedOnce(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	s.listOf("/1.xml", 0, s.entries(paths...)...)
	s.listOf("/2.xml", 0)
	s.offerLists("/1.xml", "/2.xml")
	m := newMirror(t, s)
	m.mustSucceed()
	other := s.entry("/r/2")
	other.Digests, other.Length = s.entry("/r/3").Digests, s.entry("/r/3").Length
	s.listOf("/1.xml", 5, s.entries(paths...)...)
	s.listOf("/2.xml", 5, other)
	for run, want := range []int{1, 0, 0} {
		s.asked("/r/")
		m.mustSucceed()
		m.wantFiles(paths...)
		if n := s.asked("/r/"); n != want {
			t.Errorf("run %d: got %d requests for resources, want %d", run, n, want)
		}
	}
}

// A package that a dump names twice is read once.
func TestPackageThatIsNamedTwiceIsReadOnce(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	st := &aState{aSource: s, paths: paths}
	e := st.pack("/p.zip", paths...)
	s.offers("resourcedump", "/dump.xml")
	st.dump("/dump.xml", "", e)
	newMirror(t, s).mustSucceed()
	once := s.asked("/p.zip")
	st.dump("/dump.xml", "", e, e, e)
	m := newMirror(t, s)
	m.mustSync(destination.Baseline, 0, 20, 0, 0)
	if n := s.asked("/p.zip"); n != once {
		t.Errorf("requests for the package: got %d, want %d", n, once)
	}
}

// A lastmod without a time of day does not show that nothing changed on that day.
func TestLastmodOfADay(t *testing.T) {
	s := newSource(t)
	paths := s.fill(20)
	publish := func(n int) {
		var entries []resourcesync.Entry
		for _, p := range paths {
			day, err := resourcesync.ParseDatetime("2026-03-01")
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, resourcesync.Entry{Loc: s.uri(p), LastMod: day})
		}
		s.listOf("/list.xml", n, entries...)
	}
	s.offer("/list.xml", "")
	now := func(hours int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.clock = t0.Add(time.Duration(hours) * time.Hour)
	}
	m := newMirror(t, s)
	now(1)
	publish(1)
	m.mustSucceed()
	s.put("/r/2", []byte(strings.Repeat("x", len(s.served("/r/2")))))
	publish(90)
	now(2)
	m.mustSucceed()
	m.wantFiles(paths...)
	s.asked("/r/")
	m.mustSucceed()
	if n := s.asked("/r/"); n > 0 {
		t.Errorf("requests because of the same list: got %d, want none", n)
	}
	now(30)
	m.mustSucceed()
	s.asked("/r/")
	m.mustSucceed()
	if n := s.asked("/r/"); n > 0 {
		t.Errorf("requests on the day after: got %d, want none", n)
	}
}

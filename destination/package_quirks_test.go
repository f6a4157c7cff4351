package destination_test

import (
	"bytes"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"instep/destination"
	"instep/resourcesync"
)

// A Capability List leads to a package itself.
func TestQuirk_21(t *testing.T) {
	for _, tt := range []struct {
		name   string
		source func(*aSource)
	}{
		{"by its parts", func(s *aSource) { s.ranges("/d/1.zip", `"1"`) }},
		{"by a server that gives no parts", func(*aSource) {}},
		{"without its length", func(s *aSource) {
			s.answer("/d/1.zip", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(s.served("/d/1.zip")[:10])
				w.(http.Flusher).Flush()
				_, _ = w.Write(s.served("/d/1.zip")[10:])
			})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths := onePackage(t, 12)
			s.put("/new", []byte("new"))
			s.changes(-1, s.change(3, resourcesync.Created, "/new"))
			tt.source(s)
			s.offers("resourcedump", "/d/1.zip", "changelist", "/changes.xml")
			m := newMirror(t, s)
			met := m.quirks()
			rep := m.mustSync(destination.Baseline, 0, 13, 0, 0)
			if got := rep.Via[destination.ViaDump] + rep.Via[destination.ViaRange]; got != 12 {
				t.Errorf("members taken out of the package: got %d, want 12", got)
			}
			wantQuirk(t, met, resourcesync.QuirkPackageLink)
			m.wantFiles(append(paths, "/new")...)
			m.mustSync(destination.Incremental, 0, 0, 0, 0)
		})
	}
	t.Run("that is none", func(t *testing.T) {
		s, paths := onePackage(t, 12)
		s.put("/d/1.zip", []byte("PK\x03\x04, and no more"))
		s.offers("resourcelist", "/list.xml", "resourcedump", "/d/1.zip")
		m := newMirror(t, s)
		wantWays(t, m.mustSync(destination.Baseline, 0, 12, 0, 0), "get=12")
		m.wantFiles(paths...)
	})
}

// A Change List that names packages, without a change, changes nothing here.
func TestQuirk_22(t *testing.T) {
	s, paths, m := inStep(t, 12)
	met := m.quirks()
	s.put("/packages/1.tar.xz", []byte("\xfd7zXZ\x00"))
	s.raw("/changes.xml", `capability="changelist" from="`+at(0).String()+`"`, "",
		s.rawEntry("/packages/1.tar.xz", `type="application/x-xz"`, "<lastmod>"+at(3).String()+"</lastmod>"))
	rep, err := m.sync()
	if err != nil || rep.Created+rep.Updated+rep.Deleted != 0 {
		t.Errorf("got %+v, %v; want that nothing changes", rep, err)
	}
	wantQuirk(t, met, resourcesync.QuirkNoChange)
	m.wantFiles(paths...)
	if n := s.asked("/packages/"); n != 0 {
		t.Errorf("requests for the package: got %d, want 0", n)
	}
}

func TestQuirk_52(t *testing.T) {
	for name, written := range map[string]func(string) string{
		"a slash before names":       func(s string) string { return "/" + s },
		"a backslash before names":   func(s string) string { return `\` + s },
		"backslashes within names":   func(s string) string { return strings.ReplaceAll("dump/"+s, "/", `\`) },
		"names that begin with dots": func(s string) string { return "./" + s },
		"the manifest has one too":   func(s string) string { return "/" + s },
	} {
		t.Run(name, func(t *testing.T) {
			s, paths := onePackage(t, 12)
			all := s.members("/d/1.zip")
			for i := range all[1:] {
				all[i+1].name = written(all[i+1].name)
			}
			if strings.HasPrefix(name, "the manifest") {
				all[0].name = written(all[0].name)
			}
			if strings.Contains(all[1].name, "dump") {
				all[0].body = bytes.ReplaceAll(all[0].body, []byte(`path="/`), []byte(`path="/dump/`))
				s.put("/d/1.xml", all[0].body)
			}
			slices.Reverse(all) // the manifest is the last
			s.repack(zipOf(t, all))
			m := newMirror(t, s)
			wantWays(t, m.mustSync(destination.Baseline, 0, 12, 0, 0), "dump=12")
			m.wantFiles(paths...)
		})
	}
}

func TestQuirk_53(t *testing.T) {
	for name, path := range map[string]string{
		"no slash":                             `path="$1"`,
		"relative to a directory above":        `path="/exports/2026/$1"`,
		"the path on the machine of who wrote": `path="/srv/data/dumps/$1"`,
	} {
		t.Run(name, func(t *testing.T) {
			s, paths := onePackage(t, 12)
			all := s.members("/d/1.zip")
			all[0].body = regexp.MustCompile(`path="/([^"]*)"`).ReplaceAll(all[0].body, []byte(path))
			s.put("/d/1.xml", all[0].body)
			s.repack(zipOf(t, all))
			m := newMirror(t, s)
			met := m.quirks()
			wantWays(t, m.mustSync(destination.Baseline, 0, 12, 0, 0), "dump=12")
			m.wantFiles(paths...)
			if name == "no slash" {
				wantQuirk(t, met, resourcesync.QuirkPath)
			}
		})
	}
	t.Run("relative to a directory below", func(t *testing.T) {
		s, paths := onePackage(t, 12)
		all := s.members("/d/1.zip")
		for i := range all[1:] {
			all[i+1].name = "content/" + all[i+1].name
		}
		s.repack(zipOf(t, all))
		m := newMirror(t, s)
		wantWays(t, m.mustSync(destination.Baseline, 0, 12, 0, 0), "dump=12")
		m.wantFiles(paths...)
	})
	t.Run("what no digest proves is not guessed", func(t *testing.T) {
		s, paths := onePackage(t, 4)
		all := s.members("/d/1.zip")
		for i := range all[1:] {
			all[i+1].name = "content/" + all[i+1].name
		}
		all[0].body = bare(all[0].body)
		s.put("/d/1.xml", all[0].body)
		s.repack(zipOf(t, all))
		s.offers("resourcedump", "/dump.xml")
		m := newMirror(t, s)
		wantWays(t, m.mustSync(destination.Baseline, 0, 4, 0, 0), "get=4")
		m.wantFiles(paths...)
	})
}

// The copy of a manifest gives another digest than the manifest in the package, which
// is right.
func TestQuirk_54(t *testing.T) {
	for name, parts := range map[string]bool{"and the server gives parts": true, "and the server gives only all of it": false} {
		t.Run(name, func(t *testing.T) {
			s, paths := onePackage(t, 12)
			text := string(s.served("/d/1.xml"))
			e := entryOf([]byte(text), "/r/4")
			wrong := regexp.MustCompile(`hash="[^"]*"`).ReplaceAllString(e, `hash="sha-256:`+strings.Repeat("0", 64)+`"`)
			s.put("/d/1.xml", []byte(strings.Replace(text, e, wrong, 1)))
			if parts {
				s.ranges("/d/1.zip", `"1"`)
			}
			m := newMirror(t, s)
			wantWays(t, m.mustSync(destination.Baseline, 0, 12, 0, 0), "dump=12")
			m.wantFiles(paths...)
			if v := m.audit(); v[destination.VerdictSame] != 12 || len(v) != 1 {
				t.Errorf("audit: got %v, want 12 the same", v)
			}
		})
	}
}

func TestQuirk_55(t *testing.T) {
	s, paths := onePackage(t, 12)
	s.repack(zipOf(t, append(s.members("/d/1.zip"), zipMember{"extra.tsv", []byte("a\tb")})))
	m := newMirror(t, s)
	met := m.quirks()
	wantWays(t, m.mustSync(destination.Baseline, 0, 12, 0, 0), "dump=12")
	wantQuirk(t, met, resourcesync.QuirkManifest)
	m.wantFiles(paths...)

	t.Run("no manifest", func(t *testing.T) {
		s.repack(zipOf(t, s.members("/d/1.zip")[1:]))
		s.remove("/d/1.xml")
		m := newMirror(t, s)
		met := m.quirks()
		wantWays(t, m.mustSync(destination.Baseline, 0, 12, 0, 0), "get=12")
		wantQuirk(t, met, resourcesync.QuirkManifest)
		m.wantFiles(paths...)
	})
}

// Packages in other formats are told, and the Resource List is used.
func TestQuirk_56(t *testing.T) {
	xz := []byte("\xfd7zXZ\x00" + strings.Repeat("x", 2_000))
	for _, mediaType := range []string{"application/x-xz", "application/zip", ""} {
		for _, copied := range []bool{false, true} {
			t.Run(mediaType, func(t *testing.T) {
				s, paths := onePackage(t, 12)
				s.put("/d/1.tar.xz", xz)
				e := s.entry("/d/1.tar.xz")
				e.Type = mediaType
				if copied {
					e.Links = []resourcesync.Link{{Rel: "contents", Href: s.uri("/d/1.xml")}}
				}
				s.doc("/dump.xml", head(resourcesync.CapabilityResourceDump, func(h *resourcesync.Header) { h.At = at(0) }), e)
				m := newMirror(t, s)
				met := m.quirks()
				wantWays(t, m.mustSync(destination.Baseline, 0, 12, 0, 0), "get=12")
				wantQuirk(t, met, resourcesync.QuirkPackageFormat)
				m.wantNote("is xz where a package in ZIP format was promised")
				m.wantFiles(paths...)
			})
		}
	}
}

// A manifest of a Change Dump that does not say what happened has brought bytes all the
// same; its deletions need no path.
func TestQuirk_57(t *testing.T) {
	for name, drop := range map[string]string{"without change": ` change="updated"`, "with change": ""} {
		t.Run(name, func(t *testing.T) {
			s, paths, m := inStep(t, 12)
			s.put(paths[2], []byte("changed"))
			s.changeDump(0, aPackage{path: "/c/1", from: 0, until: 5, entries: []resourcesync.Entry{
				s.change(2, resourcesync.Updated, paths[2]), s.change(3, resourcesync.Deleted, paths[11]),
			}})
			all := s.members("/c/1.zip")
			all[0].body = bytes.Replace(all[0].body, []byte(drop), nil, 1)
			s.put("/c/1.xml", all[0].body)
			s.put("/c/1.zip", zipOf(t, all))
			e := s.entry("/c/1.zip")
			e.Links = []resourcesync.Link{{Rel: "contents", Href: s.uri("/c/1.xml")}}
			e.From, e.Until = at(0), at(5)
			s.doc("/changedump.xml", head(resourcesync.CapabilityChangeDump, func(h *resourcesync.Header) { h.From = at(0) }), e)
			s.offers("changedump", "/changedump.xml", "resourcelist", "/list.xml")
			met := m.quirks()
			m.mustSync(destination.Incremental, 0, 0, 1, 1)
			if drop != "" {
				wantQuirk(t, met, resourcesync.QuirkNoChange)
			}
			m.wantFiles(paths[:11]...)
		})
	}
}

// A package named by a path on the Source's machine is refused, and nothing is read
// from ours.
func TestQuirk_58(t *testing.T) {
	for _, loc := range []string{"file:///etc/passwd", "FILE:/var/dumps/1.zip", `C:\dumps\1.zip`} {
		t.Run(loc, func(t *testing.T) {
			s, paths := onePackage(t, 12)
			s.raw("/dump.xml", `capability="resourcedump" at="`+at(0).String()+`"`, "", `<url><loc>`+loc+`</loc><rs:md type="application/zip"/></url>`)
			m := newMirror(t, s)
			met := m.quirks()
			wantWays(t, m.mustSync(destination.Baseline, 0, 12, 0, 0), "get=12")
			wantQuirk(t, met, resourcesync.QuirkLocalPackage)
			m.wantFiles(paths...)
		})
	}
}

// A deviation that only the manifest in the package has is tolerated and reported while
// the members are taken.
func TestDeviationInThePackageAloneIsReported(t *testing.T) {
	s, paths := onePackage(t, 12)
	all := s.members("/d/1.zip")
	all[0].body = bytes.Replace(all[0].body, []byte("</urlset>"), []byte("<url><loc></loc></url></urlset>"), 1)
	s.repack(zipOf(t, all))
	m := newMirror(t, s)
	wantWays(t, m.mustSync(destination.Baseline, 0, 12, 0, 0), "dump=12")
	m.wantNote("/d/1.zip!manifest.xml")
	m.wantFiles(paths...)
}

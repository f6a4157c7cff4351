package destination_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/mirror"
	"instep/resourcesync"
)

// ranges has the server give parts of path, of the version tag.
func (s *aSource) ranges(path, tag string) {
	s.answer(path, func(w http.ResponseWriter, r *http.Request) {
		if tag != "" {
			w.Header().Set("ETag", tag)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.served(path)))
	})
}

// onePackage is a Source of n resources in the package /d/1.zip, with a copy of its
// manifest, and a Resource List if it is wanted.
func onePackage(t *testing.T, n int) (*aSource, []string) {
	s := newSource(t)
	paths := s.fill(n)
	s.list(0, paths...)
	s.dump(0, aPackage{path: "/d/1", entries: s.entries(paths...)})
	s.offers("resourcelist", "/list.xml", "resourcedump", "/dump.xml")
	return s, paths
}

// members are those of a package.
func (s *aSource) members(path string) (all []zipMember) {
	s.t.Helper()
	b := s.served(path)
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			s.t.Fatal(err)
		}
		var body bytes.Buffer
		if _, err := body.ReadFrom(r); err != nil {
			s.t.Fatal(err)
		}
		all = append(all, zipMember{f.Name, body.Bytes()})
	}
	return all
}

// repack puts other bytes in the place of the package; the dump then tells their length
// and digests.
func (s *aSource) repack(b []byte) { s.repackAt(0, b) }

func (s *aSource) repackAt(n int, b []byte) {
	s.put("/d/1.zip", b)
	e := s.entry("/d/1.zip")
	e.Type = "application/zip"
	e.Links = []resourcesync.Link{{Rel: "contents", Href: s.uri("/d/1.xml")}}
	s.doc("/dump.xml", head(resourcesync.CapabilityResourceDump, func(h *resourcesync.Header) { h.At = at(n) }), e)
}

// inManifest changes the text of the manifest that is in the package.
func inManifest(old, with string) func([]zipMember) []zipMember {
	return func(all []zipMember) []zipMember {
		all[0].body = bytes.Replace(all[0].body, []byte(old), []byte(with), 1)
		return all
	}
}

// entryOf is the text of the manifest's entry of the resource at path.
func entryOf(manifest []byte, path string) string {
	for part := range strings.SplitAfterSeq(string(manifest), "</url>") {
		if i := strings.Index(part, "<url>"); i >= 0 && strings.Contains(part, path+"</loc>") {
			return part[i:]
		}
	}
	return ""
}

// TestCat_DMP_04: dump, package, the manifest in it and its copy say different things.
// What cannot be had as it should be is requested from where it is; nothing is stored
// that is not proved, and everything arrives.
func TestCat_DMP_04(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func([]zipMember) []zipMember
		bytes  func([]byte) []byte
		source func(*aSource)
		want   string
		quirk  resourcesync.Quirk
		note   string
	}{
		{name: "everything agrees", want: "dump=12"},
		{
			name:   "a member is missing",
			change: func(all []zipMember) []zipMember { return slices.Delete(all, 3, 4) },
			want:   "get=1 dump=11", note: "1 member could not be taken", quirk: resourcesync.QuirkManifest,
		},
		{
			name:   "all members are missing",
			change: func(all []zipMember) []zipMember { return all[:1] },
			want:   "get=12", note: "12 members could not be taken",
		},
		{
			name:   "a member has other bytes",
			change: func(all []zipMember) []zipMember { all[3].body[0] ^= 1; return all },
			want:   "get=1 dump=11", note: "differs",
		},
		{
			name:   "a member is longer",
			change: func(all []zipMember) []zipMember { all[3].body = append(all[3].body, '!'); return all },
			want:   "get=1 dump=11", note: "length differs",
		},
		{
			name:   "a member is shorter",
			change: func(all []zipMember) []zipMember { all[3].body = all[3].body[:2]; return all },
			want:   "get=1 dump=11", note: "length differs",
		},
		{
			name:   "a member is much longer than listed",
			change: func(all []zipMember) []zipMember { all[3].body = make([]byte, 1<<20); return all },
			want:   "get=1 dump=11", note: "limit reached",
		},
		{
			name: "two members are exchanged",
			change: func(all []zipMember) []zipMember {
				all[3].body, all[4].body = all[4].body, all[3].body
				return all
			},
			want: "get=2 dump=10", note: "2 members could not be taken",
		},
		{
			name:   "two names are exchanged, and the manifest says so",
			change: exchanged,
			want:   "dump=12",
		},
		{
			name: "the manifest in the package does not name a resource",
			change: func(all []zipMember) []zipMember {
				return inManifest(entryOf(all[0].body, "/r/4"), "")(all)
			},
			want: "get=1 dump=11", note: "according to its manifest",
		},
		{
			name: "the manifest in the package gives another digest",
			change: func(all []zipMember) []zipMember {
				return inManifest(`hash="md5:`, `hash="md5:0000000000000000000000000000000f md5:`)(all)
			},
			want: "get=1 dump=11", note: "differs",
		},
		{
			name:   "the manifest in the package gives another length",
			change: inManifest(` length="`, ` length="1`),
			want:   "get=1 dump=11", note: "differs",
		},
		{
			name: "members that no manifest names",
			change: func(all []zipMember) []zipMember {
				return append(all, zipMember{"extra.tsv", []byte("a\tb")}, zipMember{"../../etc/passwd", []byte("root")})
			},
			want: "dump=12", note: "2 members missing from its manifest", quirk: resourcesync.QuirkManifest,
		},
		{
			name:   "no manifest",
			change: func(all []zipMember) []zipMember { return all[1:] },
			want:   "get=12", note: "no manifest", quirk: resourcesync.QuirkManifest,
		},
		{
			name:   "the manifest is in a directory",
			change: func(all []zipMember) []zipMember { all[0].name = "dump/manifest.xml"; return all },
			want:   "get=12", note: "at the top level",
		},
		{
			name:   "the manifest is of another capability",
			change: inManifest("resourcedump-manifest", "resourcelist"),
			want:   "get=12", note: `of capability "resourcelist"`,
		},
		{
			name:   "the manifest is cut off",
			change: func(all []zipMember) []zipMember { all[0].body = all[0].body[:400]; return all },
			want:   "get=12", note: "cannot be used",
		},
		{
			name:   "two members of one name",
			change: func(all []zipMember) []zipMember { return append(all, all[3]) },
			want:   "get=12", note: "two members have the name",
		},
		{
			name:  "the package is cut off",
			bytes: func(b []byte) []byte { return b[:len(b)-100] },
			want:  "get=12", note: "not a ZIP file",
		},
		{
			name:  "the package is empty",
			bytes: func([]byte) []byte { return nil },
			want:  "get=12", note: "not a ZIP file",
		},
		{
			name:   "the package is another one than the dump says",
			source: func(s *aSource) { s.put("/d/1.zip", zipOf(s.t, exchanged(s.members("/d/1.zip")))) },
			want:   "get=12", note: "differs",
		},
		{
			name:   "the package is longer than the dump says",
			source: func(s *aSource) { s.put("/d/1.zip", append(s.served("/d/1.zip"), 0)) },
			want:   "get=12", note: "length differs",
		},
		{
			name:   "the package is gone",
			source: func(s *aSource) { s.remove("/d/1.zip") },
			want:   "get=12", note: "404",
		},
		{
			name: "the package is refused",
			source: func(s *aSource) {
				s.answer("/d/1.zip", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
			},
			want: "get=12", note: "403",
		},
		{
			name: "a page in the place of the package",
			source: func(s *aSource) {
				s.answer("/d/1.zip", func(w http.ResponseWriter, _ *http.Request) {
					_, _ = w.Write([]byte("<!DOCTYPE html><html><body>log in first" + strings.Repeat(" ", 1000)))
				})
			},
			want: "get=12", note: "d/1.zip",
		},
		{
			name:   "the copy of the manifest is gone",
			source: func(s *aSource) { s.remove("/d/1.xml") },
			want:   "dump=12", note: "is used instead of its copy", quirk: resourcesync.QuirkManifestCopy,
		},
		{
			name:   "the copy of the manifest is a Resource List",
			source: func(s *aSource) { s.put("/d/1.xml", s.served("/list.xml")) },
			want:   "dump=12", note: "is used instead of its copy", quirk: resourcesync.QuirkManifestCopy,
		},
		{
			name: "the copy names a path that climbs",
			source: func(s *aSource) {
				s.put("/d/1.xml", bytes.ReplaceAll(s.served("/d/1.xml"), []byte(`path="/0003`), []byte(`path="/../../0003`)))
			},
			want: "dump=12", note: "names no file of a package",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths := onePackage(t, 12)
			b := s.served("/d/1.zip")
			if tt.change != nil {
				b = zipOf(t, tt.change(s.members("/d/1.zip")))
			}
			if tt.bytes != nil {
				b = tt.bytes(b)
			}
			s.repack(b)
			if tt.source != nil {
				tt.source(s)
			}
			m := newMirror(t, s)
			met := m.quirks()
			rep := m.mustSync(destination.Baseline, 0, 12, 0, 0)
			wantWays(t, rep, tt.want)
			m.wantNote(tt.note)
			if tt.quirk != 0 {
				wantQuirk(t, met, tt.quirk)
			}
			if n := strings.Count(strings.Join(m.notes, "\n"), "/d/1.zip"); n > 4 {
				t.Errorf("notes about one package: got %d: %q", n, m.notes)
			}
			m.wantFiles(paths...)
			if v := m.audit(); v[destination.VerdictSame] != 12 || len(v) != 1 {
				t.Errorf("audit: got %v, want 12 the same", v)
			}
		})
	}
}

// The manifest in the package has the length and the checksum of its copy: it says nothing
// new, so it may well be one that cannot be read.
func TestManifestOfWhichTheCopyWasReadIsNotReadInThePackage(t *testing.T) {
	for name, tt := range map[string]struct{ copied, want string }{
		"the copy is the same": {"", "dump=12"},
		"the copy is another":  {"<!-- another -->", "get=12"},
	} {
		t.Run(name, func(t *testing.T) {
			s, paths := onePackage(t, 12)
			manifest := s.served("/d/1.xml")
			damaged := bytes.ToUpper(manifest)
			s.repack(bytes.Replace(s.served("/d/1.zip"), manifest, damaged, 1))
			s.put("/d/1.xml", append(manifest, tt.copied...))
			m := newMirror(t, s)
			wantWays(t, m.mustSync(destination.Baseline, 0, 12, 0, 0), tt.want)
			m.wantFiles(paths...)
		})
	}
}

// A copy of the manifest lacks a resource. What it says is not the last word: neither
// is the resource deleted where it is held, nor is the mirror in step without it.
func TestCat_DMP_04_copy(t *testing.T) {
	for name, parts := range map[string]bool{"and the server gives parts of packages": true, "and the server gives only all of them": false} {
		t.Run(name, func(t *testing.T) {
			s, paths := onePackage(t, 12)
			whole := s.served("/d/1.xml")
			s.put("/d/1.xml", bytes.Replace(whole, []byte(entryOf(whole, "/r/4")), nil, 1))
			if parts {
				s.ranges("/d/1.zip", `"1"`)
			}
			s.offers("resourcedump", "/dump.xml")
			m := newMirror(t, s)
			met := m.quirks()
			rep, err := m.sync()
			if err != nil || rep.Created != 11 || rep.Partial == nil {
				t.Fatalf("got %+v, %v; want 11 resources, and that it is not complete", rep, err)
			}
			wantQuirk(t, met, resourcesync.QuirkManifestCopy)
			if m.followed() {
				t.Error("the set is followed from there")
			}
			if parts {
				m.mustSync(destination.Baseline, 11, 1, 0, 0)
				m.wantFiles(paths...)
			}

			s.put("/d/1.xml", whole)
			m = newMirror(t, s)
			m.mustSync(destination.Baseline, 0, 12, 0, 0)
			s.put(paths[7], []byte("changed"))
			s.dump(1, aPackage{path: "/d/1", entries: s.entries(paths...)})
			whole = s.served("/d/1.xml")
			s.put("/d/1.xml", bytes.Replace(whole, []byte(entryOf(whole, "/r/4")), nil, 1))
			m.set = func(d *destination.Destination) { d.Prefer = destination.PreferDump }
			if rep, err = m.sync(); err != nil || rep.Updated != 1 || rep.Deleted != 0 {
				t.Fatalf("got %+v, %v; want one update and no deletion", rep, err)
			}
			m.wantFiles(paths...)
		})
	}
}

// exchanged exchanges the names of two members, in the manifest too.
func exchanged(all []zipMember) []zipMember {
	a, b := all[3].name, all[4].name
	all[3].name, all[4].name = b, a
	return inManifest(`path="/#"`, `path="/`+b+`"`)(inManifest(`path="/`+b+`"`, `path="/`+a+`"`)(inManifest(`path="/`+a+`"`, `path="/#"`)(all)))
}

// A member that nothing proves is believed only by the word of the manifest in its own
// package, and never as part of a package that may be of several versions.
func TestMembersWithoutDigest(t *testing.T) {
	for _, tt := range []struct {
		name   string
		source func(*aSource)
		want   string
	}{
		{"with a manifest that agrees", func(*aSource) {}, "dump=4"},
		{"whose manifest gives digests that prove nothing else", func(s *aSource) {
			s.put("/d/1.xml", bare(s.served("/d/1.xml")))
		}, "dump=4"},
		{"with exchanged bytes, proved by the manifest in the package", func(s *aSource) {
			s.put("/d/1.xml", bare(s.served("/d/1.xml")))
			all := s.members("/d/1.zip")
			all[1].body, all[2].body = all[2].body, all[1].body
			s.repack(zipOf(s.t, all))
		}, "get=2 dump=2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, paths := onePackage(t, 4)
			tt.source(s)
			s.offers("resourcedump", "/dump.xml")
			m := newMirror(t, s)
			wantWays(t, m.mustSync(destination.Baseline, 0, 4, 0, 0), tt.want)
			m.wantFiles(paths...)
		})
	}
}

// bare is a document without digests and lengths.
func bare(text []byte) []byte {
	var out strings.Builder
	for i, part := range strings.Split(string(text), ` hash="`) {
		if i > 0 {
			_, part, _ = strings.Cut(part, `"`)
		}
		before, after, found := strings.Cut(part, ` length="`)
		if out.WriteString(before); found {
			_, after, _ = strings.Cut(after, `"`)
			out.WriteString(after)
		}
	}
	return []byte(out.String())
}

// TestCat_DMP_01: whatever a package and its manifest call a member, its bytes go where
// those of its URI belong, and nowhere else.
func TestCat_DMP_01(t *testing.T) {
	for i, name := range []string{"../escaped", "../../../../escaped", "/escaped", `..\..\escaped`, `C:\escaped`, ".instep/escaped", "a/../../escaped", "manifest.xml/../escaped", "CON", "e\u0301"} {
		t.Run(fmt.Sprint(i), func(t *testing.T) { // its name is part of a path
			s, paths := onePackage(t, 5)
			all := s.members("/d/1.zip")
			old := all[2].name
			all[2].name = name
			all = inManifest(`path="/`+old+`"`, `path="`+name+`"`)(all)
			s.put("/d/1.xml", all[0].body)
			s.repack(zipOf(t, all))
			m := newMirror(t, s)
			rep := m.mustSync(destination.Baseline, 0, 5, 0, 0)
			if n := rep.Via[destination.ViaDump]; n < 4 {
				t.Errorf("members taken out of the package: got %d, want 4 or 5", n)
			}
			m.wantFiles(paths...)
			err := filepath.WalkDir(filepath.Dir(m.dir), func(path string, _ fs.DirEntry, err error) error {
				if strings.Contains(filepath.Base(path), "escaped") {
					t.Errorf("written to %s", path)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat("/escaped"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("/escaped: %v", err)
			}
		})
	}
}

// TestCat_DMP_05: a dump that is older than what is held takes nothing back, and what
// both it and the changes tell is applied once.
func TestCat_DMP_05(t *testing.T) {
	s, paths, m := inStep(t, 20)
	for i := range 5 {
		s.put(paths[i], []byte(fmt.Sprintf("newer %d", i)))
	}
	var changed []resourcesync.Entry
	for i := range 5 {
		changed = append(changed, s.change(5, resourcesync.Updated, paths[i]))
	}
	changed = append(changed, s.change(6, resourcesync.Deleted, paths[19]))
	newest := map[string][]byte{}
	for _, p := range paths {
		newest[p] = s.served(p)
	}
	s.changes(0, changed...)
	m.mustSync(destination.Incremental, 0, 0, 5, 1)
	for i := range 5 { // what the dump holds
		s.put(paths[i], []byte(fmt.Sprintf("older %d", i)))
	}
	s.dump(2, aPackage{path: "/d/1", entries: s.entries(paths...)})
	for p, b := range newest {
		s.put(p, b)
	}
	for name, offer := range map[string][]string{
		"without changes":  {"resourcedump", "/dump.xml"},
		"with the changes": {"resourcedump", "/dump.xml", "changelist", "/changes.xml"},
	} {
		for _, prefer := range []destination.Prefer{"", destination.PreferDump} {
			t.Run(name+", "+string(prefer), func(t *testing.T) {
				s.offers(offer...)
				m.set = func(d *destination.Destination) { d.Prefer = prefer }
				rep, err := m.sync()
				if err != nil || rep.Created+rep.Updated+rep.Deleted+rep.Failed != 0 {
					t.Fatalf("got %+v, %v; want that nothing changes", rep, err)
				}
				m.wantFiles(paths[:19]...)
			})
		}
	}
	t.Run("into an empty mirror", func(t *testing.T) {
		s.offers("resourcedump", "/dump.xml", "changelist", "/changes.xml")
		s.changes(0, changed...)
		m := newMirror(t, s)
		wantWays(t, m.mustSync(destination.Baseline, 0, 19, 0, 0), "get=5 dump=14")
		m.wantFiles(paths[:19]...)
	})
}

// TestCat_DMP_05_several: of several bitstreams of one URI the last one counts.
func TestCat_DMP_05_several(t *testing.T) {
	s := newSource(t)
	paths := s.fill(5)
	entries := s.entries(paths...)
	s.put(paths[2], []byte("the last version"))
	entries = append(entries, s.entry(paths[2]))
	s.dump(0, aPackage{path: "/d/1", entries: entries})
	s.offers("resourcedump", "/dump.xml")
	m := newMirror(t, s)
	wantWays(t, m.mustSync(destination.Baseline, 0, 5, 0, 0), "dump=5")
	m.wantFiles(paths...)
}

// A package that cannot be used costs a request for each of its members, a manifest that
// cannot be used nothing.
func TestPackageThatCannotBeUsed(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(s *aSource)
		want  string
		note  string
	}{
		{"missing", func(s *aSource) { s.answer("/d/1.zip", http.NotFound) }, "get=20 dump=20", "404"},
		{"another", func(s *aSource) { s.put("/d/1.zip", s.served("/d/2.zip")) }, "get=20 dump=20", "because the package cannot be used"},
		{
			"a member is damaged", func(s *aSource) {
				b := s.served("/d/1.zip")
				b[bytes.Index(b, s.served("/r/3"))] ^= 1
				s.put("/d/1.zip", b)
			},
			"get=20 dump=20", "requested one by one",
		},
		{
			"out of reach", func(s *aSource) {
				s.answer("/d/1.zip", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
			},
			"get=20 dump=20", "403",
		},
		{"its copied manifest is gone", func(s *aSource) { s.remove("/d/1.xml") }, "dump=40", "is used instead of its copy"},
		{"its copied manifest is another", func(s *aSource) { s.put("/d/1.xml", append(s.served("/d/1.xml"), ' ')) }, "dump=40", ""},
	} {
		for _, byParts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, by parts %v", tt.name, byParts), func(t *testing.T) {
				s, paths := dumped(t, 40)
				if byParts {
					s.ranges("/d/1.zip", `"1"`)
				}
				tt.spoil(s)
				m := newMirror(t, s)
				wantWays(t, m.mustSync(destination.Baseline, 0, 40, 0, 0), tt.want)
				m.wantNote(tt.note)
				m.wantFiles(paths...)
			})
		}
	}
}

// planned is the plan of the only set, while do looks at it.
func (m *aMirror) planned(do func(*destination.SetPlan)) {
	m.t.Helper()
	err := m.with(func(ctx context.Context, d *destination.Destination, _ *mirror.Mirror) error {
		plan, err := d.Plan(ctx)
		if err != nil {
			return err
		}
		defer plan.Close()
		do(plan.Sets[0])
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// A plan reads the copies of manifests, and nothing of the packages.
func TestPlanTransfersNoPackage(t *testing.T) {
	for name, set := range map[string]func(*destination.Destination){
		"of all":           nil,
		"of what is asked": func(d *destination.Destination) { d.Include = []string{"**/*1"} },
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := dumped(t, 40)
			m := newMirror(t, s)
			m.set = set
			m.planned(func(*destination.SetPlan) {})
			for _, path := range []string{"/d/1.zip", "/d/2.zip"} {
				if n := s.asked(path); n != 0 {
					t.Errorf("requests for %s: got %d, want none", path, n)
				}
			}
		})
	}
}

package replay

import (
	"archive/zip"
	"bytes"
	"fmt"
	"strings"
	"testing"
)

const base = "https://collection.example.org/"

// site is a small Source: two closed Change Lists and an open one, a Resource List
// of the moment t1, a Resource Dump of t1 and a Change Dump since.
type site map[string]string

func document(root, header, entries string) string {
	return `<?xml version="1.0"?><` + root + ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:ln rel="up" href="` + base + `capabilitylist.xml"/>` + header + entries + `</` + root + `>`
}

func entry(loc, md string) string {
	return `<url><loc>` + base + loc + `</loc><rs:md ` + md + `/></url>`
}

func hashed(data string) string {
	return fmt.Sprintf(`hash="sha-256:%s" length="%d"`, sum([]byte(data)), len(data))
}

func day(n int) string { return fmt.Sprintf("2026-05-%02dT00:00:00Z", n) }

func (s site) read(uri string) ([]byte, error) {
	data, ok := s[strings.TrimPrefix(uri, base)]
	if !ok {
		return nil, fmt.Errorf("%s: not found", uri)
	}
	return []byte(data), nil
}

// pack adds a package, its manifest and the entry that a dump has of it.
func (s site) pack(name, manifest string, files map[string]string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	files["manifest.xml"] = manifest
	for name, data := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(data))
		}
		if err != nil {
			panic(err) // of a buffer
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	s[name+".zip"], s[name+"-manifest.xml"] = b.String(), manifest
	return `<url><loc>` + base + name + `.zip</loc><rs:md ` + hashed(b.String()) + `/><rs:ln rel="contents" href="` + base + name + `-manifest.xml"/></url>`
}

func newSite() site {
	s := site{}
	s["description.xml"] = document("urlset", `<rs:md capability="description"/>`, entry("capabilitylist.xml", `capability="capabilitylist"`))
	s["capabilitylist.xml"] = document("urlset", `<rs:md capability="capabilitylist"/>`,
		entry("list.xml", `capability="resourcelist"`)+entry("changes.xml", `capability="changelist"`)+
			entry("dump.xml", `capability="resourcedump"`)+entry("changedump.xml", `capability="changedump"`))
	s["list.xml"] = document("urlset", `<rs:md capability="resourcelist" at="`+day(1)+`"/>`, entry("a", hashed("a1"))+entry("b", hashed("b1")))
	s["changes.xml"] = document("sitemapindex", `<rs:md capability="changelist" from="`+day(1)+`"/>`,
		`<sitemap><loc>`+base+`c1.xml</loc></sitemap><sitemap><loc>`+base+`c2.xml</loc></sitemap>`)
	s["c1.xml"] = document("urlset", `<rs:md capability="changelist" from="`+day(1)+`" until="`+day(3)+`"/>`,
		entry("a", `change="updated" datetime="`+day(2)+`" `+hashed("a2")))
	s["c2.xml"] = document("urlset", `<rs:md capability="changelist" from="`+day(3)+`"/>`,
		entry("b", `change="deleted" datetime="`+day(4)+`"`)+entry("c", `change="created" datetime="`+day(5)+`" `+hashed("c1")))
	s["dump.xml"] = document("urlset", `<rs:md capability="resourcedump" at="`+day(1)+`"/>`, s.pack("p1",
		document("urlset", `<rs:md capability="resourcedump-manifest" at="`+day(1)+`"/>`,
			entry("a", `path="/a" `+hashed("a1"))+entry("b", `path="/b" `+hashed("b1"))), map[string]string{"a": "a1", "b": "b1"}))
	s["changedump.xml"] = document("urlset", `<rs:md capability="changedump" from="`+day(1)+`"/>`, s.pack("p2",
		document("urlset", `<rs:md capability="changedump-manifest" from="`+day(1)+`"/>`,
			entry("a", `change="updated" datetime="`+day(2)+`" path="/1" `+hashed("a2"))+
				entry("b", `change="deleted" datetime="`+day(4)+`"`)+
				entry("c", `change="created" datetime="`+day(5)+`" path="/2" `+hashed("c1"))), map[string]string{"1": "a2", "2": "c1"}))
	return s
}

func replayAll(s site) ([]Replayed, error) {
	tree, err := Walk(s.read, base+"description.xml")
	if err != nil {
		return nil, err
	}
	return tree.Sets[0].Replay()
}

func TestBothWaysLeadToThePresentState(t *testing.T) {
	all, err := replayAll(newSite())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 {
		t.Fatalf("got %d snapshots, want a Resource List and a Resource Dump", len(all))
	}
	for _, r := range all {
		if len(r.State) != 2 || r.State[base+"a"] != sum([]byte("a2")) || r.State[base+"c"] != sum([]byte("c1")) {
			t.Errorf("from %s: got %v", r.URI, r.State)
		}
	}
}

func TestWhatDoesNotHoldTogetherIsFound(t *testing.T) {
	for _, c := range []struct {
		name, want string
		harm       func(s site)
	}{
		{"a part that is not there", "target of a link cannot be read", func(s site) { delete(s, "c2.xml") }},
		{"an up link into nothing", "up", func(s site) { s["list.xml"] = strings.Replace(s["list.xml"], "capabilitylist", "other", 1) }},
		{"a document of another capability", "expected", func(s site) { s["list.xml"] = s["c1.xml"] }},
		{"a gap between lists", "a gap", func(s site) { s["c1.xml"] = strings.Replace(s["c1.xml"], day(3), day(2), 1) }},
		{"changes that begin after the snapshot", "no list of changes begins at or before", func(s site) { s["list.xml"] = strings.Replace(s["list.xml"], day(1), "2026-04-30T00:00:00Z", 1) }},
		{"changes out of order", "out of order", func(s site) { s["c2.xml"] = strings.Replace(s["c2.xml"], day(4), day(6), 1) }},
		{"a change after the end of its list", "not before", func(s site) { s["c1.xml"] = strings.Replace(s["c1.xml"], `datetime="`+day(2), `datetime="`+day(3), 1) }},
		{"a package with other bytes", "sha-256", func(s site) { s["p1.zip"] = s["p1.zip"][:40] + "x" + s["p1.zip"][41:] }},
		{"contents that is another manifest", "contents", func(s site) { s["p1-manifest.xml"] += "\n" }},
		{"a resource listed twice", "twice", func(s site) { s["list.xml"] = strings.Replace(s["list.xml"], "/b<", "/a<", 1) }},
		{"a document cut short", "c1.xml", func(s site) { s["c1.xml"] = s["c1.xml"][:300] }},
	} {
		s := newSite()
		c.harm(s)
		if _, err := replayAll(s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

// TestArchiveMayBeginLater: what is offered reaches further back than what is archived.
func TestArchiveMayBeginLater(t *testing.T) {
	s := newSite()
	s["capabilitylist.xml"] = strings.Replace(s["capabilitylist.xml"], "</urlset>", entry("archive.xml", `capability="changelist-archive"`)+"</urlset>", 1)
	s["archive.xml"] = document("urlset", `<rs:md capability="changelist-archive"/>`, entry("c2-archived.xml", `from="`+day(3)+`"`))
	s["c2-archived.xml"] = s["c2.xml"]
	all, err := replayAll(s)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].State[base+"a"] != sum([]byte("a2")) {
		t.Errorf("got %v", all)
	}
}

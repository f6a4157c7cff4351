package publish

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// foreign writes documents of another program: pairs of key and text, in which NS are
// the namespaces.
func (w *world) foreign(pairs ...string) {
	w.t.Helper()
	ns := strings.NewReplacer("NS", `xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"`, "BASE", base)
	for i := 0; i < len(pairs); i += 2 {
		name := filepath.Join(w.o.Out, pairs[i])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(ns.Replace(pairs[i+1])), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
}

const foreignCapabilities = `<urlset NS><rs:md capability="capabilitylist"/><url><loc>BASEresourcelist.xml</loc><rs:md capability="resourcelist"/></url>` +
	`<url><loc>BASEchangelist.xml</loc><rs:md capability="changelist"/></url></urlset>`

func foreignList(capability, attributes, entries string) string {
	return `<urlset NS><rs:ln rel="up" href="BASEcapabilitylist.xml"/><rs:md capability="` + capability + `" ` + attributes + `/>` + entries + `</urlset>`
}

// What is adopted either can be published, also as deleted, or is refused before
// anything is done.
func TestAdoptedEntriesCanBePublished(t *testing.T) {
	for name, entry := range map[string]string{
		"refused: space":     `<url><loc>BASEa b.txt</loc></url>`,
		"refused: IRI":       `<url><loc>BASEä.txt</loc></url>`,
		"refused: quote":     `<url><loc>BASEa"b.txt</loc></url>`,
		"up":                 `<url><loc>BASE../../x</loc></url>`,
		"escaped up":         `<url><loc>BASE%2e%2e/x</loc></url>`,
		"refused: percent":   `<url><loc>BASE100%.txt</loc></url>`,
		"fragment":           `<url><loc>BASEa.txt#x</loc></url>`,
		"query":              `<url><loc>BASEx?y=1</loc></url>`,
		"encoding":           `<url><loc>BASEx</loc><rs:md encoding="a b c&#9;"/></url>`,
		"type":               `<url><loc>BASEx</loc><rs:md type="text / plain; x=y"/></url>`,
		"refused: long type": `<url><loc>BASEx</loc><rs:md type="text/` + strings.Repeat("x", 60_000) + `"/></url>`,
		"long":               `<url><loc>BASE` + strings.Repeat("x", 8000) + `</loc></url>`,
		"own document":       `<url><loc>BASEresourcesync/description.xml</loc></url>`,
		"alias":              `<url><loc>BASEresourcelist.xml</loc></url>`,
		"twice":              `<url><loc>BASEx</loc><rs:md length="1"/></url><url><loc>BASEx</loc><rs:md length="2"/></url>`,
		"directory":          `<url><loc>BASEdir/</loc></url>`,
		"future":             `<url><loc>BASEx</loc><lastmod>2999-01-01T00:00:00Z</lastmod></url>`,
		"hash":               `<url><loc>BASEx</loc><rs:md hash="md5:1 sha-256:zz foo:bar"/></url>`,
		"NUL":                `<url><loc>BASEa%00b</loc></url>`,
		"not UTF-8":          `<url><loc>BASEa%FFb</loc></url>`,
	} {
		for _, at := range []string{`at="2024-01-01T00:00:00Z"`, `at="2999-01-01T00:00:00Z"`, ``} {
			t.Run(name+" "+at, func(t *testing.T) {
				w := newWorld(t)
				w.fill(2)
				change := strings.Replace(entry, `<rs:md `, `<rs:md change="updated" datetime="2024-01-02T00:00:00Z" `, -1)
				if !strings.Contains(change, "rs:md") {
					change = strings.Replace(change, `</url>`, `<rs:md change="updated" datetime="2024-01-02T00:00:00Z"/></url>`, -1)
				}
				w.foreign("capabilitylist.xml", foreignCapabilities, "resourcelist.xml", foreignList("resourcelist", at, entry),
					"changelist.xml", foreignList("changelist", `from="2024-01-01T00:00:00Z"`, change))
				w.o.Adopt, w.set.MaxDelete = true, "100%"
				before := files(t, w.o.Out)
				_, err := w.try()
				if errors.As(err, new(*AdoptError)) {
					if !strings.Contains(err.Error(), "line 1") || !strings.HasPrefix(name, "refused") {
						t.Errorf("got %v, want the line if it is to be refused", err)
					}
					if got := files(t, w.o.Out); len(got) != len(before) {
						t.Errorf("got %v, want %v as before", got, before)
					}
					return
				}
				if err != nil || strings.HasPrefix(name, "refused") {
					t.Fatalf("got %.300v, want it adopted, or refused", err)
				}
				w.now = w.now.Add(time.Minute)
				w.write("new", "x")
				if rep, err := w.try(); err != nil || rep.Created != 1 {
					t.Errorf("next: %+v, %.300v", rep, err)
				}
				w.check()
			})
		}
	}
}

// What stands where our documents go would stop every publication after the adoption.
func TestAdoptRefusesWhatIsInTheWay(t *testing.T) {
	index := `<urlset NS><rs:md capability="capabilitylist"/><url><loc>BASEresourcelist.xml</loc><rs:md capability="resourcelist"/></url>` +
		`<url><loc>BASEindex.xml</loc><rs:md capability="changelist"/></url></urlset>`
	list := foreignList("changelist", `from="2024-01-01T00:00:00Z"`, `<url><loc>BASEx</loc><rs:md change="updated" datetime="2024-01-02T00:00:00Z"/></url>`)
	for _, key := range []string{
		"resourcesync/changes/1.xml", "resourcesync/changes/2.xml", "resourcesync/changelist-index.xml", "resourcesync/resourcelist.xml",
		"resourcesync/lists/1/resourcelist.xml", "resourcesync/description.xml",
	} {
		t.Run(key, func(t *testing.T) {
			w := newWorld(t)
			w.fill(2)
			w.foreign("capabilitylist.xml", index, "resourcelist.xml", foreignList("resourcelist", `at="2024-01-01T00:00:00Z"`, ""), key, list,
				"index.xml", `<sitemapindex NS><rs:md capability="changelist" from="2024-01-01T00:00:00Z"/><sitemap><loc>BASE`+key+`</loc></sitemap></sitemapindex>`)
			w.o.Adopt, w.set.MaxDelete = true, "100%"
			var refused *AdoptError
			if _, err := w.try(); !errors.As(err, &refused) || refused.Key != key {
				t.Fatalf("got %v, want %q named", err, key)
			}
			if err := os.Rename(filepath.Join(w.o.Out, key), filepath.Join(w.o.Out, "away.xml")); err != nil {
				t.Fatal(err)
			}
			w.foreign("index.xml", `<sitemapindex NS><rs:md capability="changelist" from="2024-01-01T00:00:00Z"/><sitemap><loc>BASEaway.xml</loc></sitemap></sitemapindex>`)
			if _, err := w.try(); err != nil {
				t.Errorf("once it is away: %v", err)
			}
		})
	}
	t.Run("ours without publication.json", func(t *testing.T) {
		w := newWorld(t)
		w.fill(2)
		w.run()
		w.write("new", "x")
		w.run()
		w.lose()
		info := filepath.Join(w.o.Out, infoKey)
		if err := os.Rename(info, info+".away"); err != nil {
			t.Fatal(err)
		}
		w.o.Adopt = true
		if _, err := w.try(); !errors.As(err, new(*AdoptError)) {
			t.Fatalf("got %v, want an *AdoptError", err)
		}
		if err := os.Rename(info+".away", info); err != nil {
			t.Fatal(err)
		}
		if _, err := w.try(); err != nil {
			t.Errorf("once it is back: %v", err)
		}
	})
}

// The URI of a file is as a scan makes it: one that is merely written like its name goes.
func TestAdoptedURIWithTheNameOfAFileIsNotThatFile(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	w.write("x?y=1", "one")
	w.foreign("capabilitylist.xml", foreignCapabilities, "resourcelist.xml", foreignList("resourcelist", `at="2024-01-01T00:00:00Z"`, `<url><loc>BASEx?y=1</loc></url>`),
		"changelist.xml", foreignList("changelist", `from="2024-01-01T00:00:00Z"`, ""))
	w.o.Adopt, w.set.MaxDelete = true, "100%"
	if rep, err := w.try(); err != nil || rep.Deleted != 1 || rep.Created != 2 {
		t.Errorf("got %+v, %v; want one gone and the files created", rep.SetReport, err)
	}
	w.check()
}

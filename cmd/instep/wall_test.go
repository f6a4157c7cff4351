//go:build unix

package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

const (
	aWall = `<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>Verify you are human</body></html>`
	aPage = `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>Welcome</title></head></html>`
)

// TestCat_FET_10_page: a page with status 200 where the Source has a document ends
// a run with 5 and a sentence of its own, changes nothing, and the next run works.
func TestCat_FET_10_page(t *testing.T) {
	for _, path := range []string{"/.well-known/resourcesync", "/caps.xml", "/list.xml", "everything"} {
		for name, page := range map[string]string{"a wall": aWall, "a page": aPage} {
			t.Run(path+" is "+name, func(t *testing.T) {
				h := newHostile(t)
				h.give("/x", "hello")
				h.site(urlset(resourceList, listed(h.URL+"/x", "hello")))
				dir := filepath.Join(t.TempDir(), "m")
				mustDo(t, "sync", h.URL, dir)
				before := listTree(dir)
				paths := []string{path}
				if path == "everything" {
					paths = []string{"/", "/robots.txt", "/.well-known/resourcesync", "/caps.xml", "/list.xml"}
				}
				for _, p := range paths {
					h.replace(p, given(page))
				}
				for _, command := range []string{"sync", "audit"} {
					o := attempt(t, command, h.URL, dir)
					if o.code != exitTemporary || !strings.Contains(o.stderr, "instead of the document") || !strings.Contains(o.stderr, "block programs") {
						t.Errorf("%s: exit code %d\n%s%s", command, o.code, o.stdout, o.stderr)
					}
				}
				for name := range before {
					if _, there := listTree(dir)[name]; !there && !strings.Contains(name, ".instep/") {
						t.Errorf("%s is gone", name)
					}
				}
				for _, p := range paths {
					h.replace(p, nil)
				}
				if o := mustDo(t, "sync", h.URL, dir); *o.Same+*o.Created != 1 || *o.Updated+*o.Deleted != 0 {
					t.Errorf("next run: %+v", o.summary)
				}
			})
		}
	}
}

// TestPageBeforeASourceWasFound: at a site that nobody has read, a page that keeps
// programs out ends the search with 5, and any other is a site without a Source. A
// document that the Source names is never a plain page.
func TestPageBeforeASourceWasFound(t *testing.T) {
	for name, tt := range map[string]struct {
		setup func(h *hostile)
		code  int
	}{
		"a site":                        {func(h *hostile) { h.give("/", aPage) }, exitFailed},
		"a wall":                        {func(h *hostile) { h.give("/", aWall) }, exitTemporary},
		"a wall in place of the set":    {func(h *hostile) { h.site(""); h.replace("/caps.xml", given(aWall)) }, exitTemporary},
		"a page in place of the set":    {func(h *hostile) { h.site(""); h.replace("/caps.xml", given(aPage)) }, exitTemporary},
		"a page in place of the list":   {func(h *hostile) { h.site(aPage) }, exitTemporary},
		"something broken for the list": {func(h *hostile) { h.site("<urlset><") }, exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t)
			tt.setup(h)
			if o := attempt(t, "sync", h.URL, filepath.Join(t.TempDir(), "m")); o.code != tt.code {
				t.Errorf("exit code %d, want %d\n%s", o.code, tt.code, o.stderr)
			}
		})
	}
	t.Run("a home page with a captcha that links to the Source", func(t *testing.T) {
		h := newHostile(t)
		h.give("/x", "hello")
		h.site(urlset(resourceList, listed(h.URL+"/x", "hello")))
		h.replace("/.well-known/resourcesync", http.NotFound)
		h.give("/{$}", `<!DOCTYPE html><html><head><script src="recaptcha.js"></script><link rel="resourcesync" href="/caps.xml"></head></html>`)
		mustDo(t, "sync", h.URL+"/", filepath.Join(t.TempDir(), "m"))
	})
}

// TestOneOfTwoSetsBehindAWall: the other set comes, and the run says that another time
// may be better.
func TestOneOfTwoSetsBehindAWall(t *testing.T) {
	h := newHostile(t)
	h.give("/x", "hello")
	h.site(urlset(resourceList, listed(h.URL+"/x", "hello")))
	h.give("/other.xml", aWall)
	h.replace("/.well-known/resourcesync", given(urlset(`capability="description"`, entryOf(h.URL+"/caps.xml", "capabilitylist"), entryOf(h.URL+"/other.xml", "capabilitylist"))))
	o := instep(t, "sync", h.URL, filepath.Join(t.TempDir(), "m"))
	if o.code != exitTemporary || *o.Created != 1 || o.Status != "partial" {
		t.Errorf("exit code %d, %+v", o.code, o.summary)
	}
}

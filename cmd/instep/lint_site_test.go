//go:build unix

package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// siteFlags leave out what the documents of a hostile Source lack.
func siteFlags() (flags []string) {
	for _, rule := range []string{
		"capabilitylist-up-required", "resourcelist-up-required", "description-describedby-recommended",
		"description-entry-describedby-recommended", "capabilitylist-describedby-recommended", "quirk-13-media-type",
	} {
		flags = append(flags, "--ignore", rule)
	}
	return flags
}

func refused(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }

// TestLintOfASite: the URL of a site leads to the documents of its Source; a site without
// one, and one that keeps programs out, is never clean.
func TestLintOfASite(t *testing.T) {
	const home = `<!doctype html><html><head><title>Harbour museum</title></head><body>Welcome</body></html>`
	for name, c := range map[string]struct {
		change func(h *hostile)
		code   int
		want   []string
		not    string
	}{
		"without a home page":        {func(*hostile) {}, exitOK, []string{"the Source was found at", "/caps.xml: capabilitylist", "/list.xml: resourcelist", "Status: CLEAN"}, ""},
		"whose home page is refused": {func(h *hostile) { h.replace("/", refused) }, exitOK, []string{"the Source was found at", "/list.xml: resourcelist", "Status: CLEAN"}, ""},
		"that refuses everything": {func(h *hostile) {
			for _, p := range []string{"/", "/robots.txt", "/.well-known/resourcesync"} {
				h.replace(p, refused)
			}
		}, exitTemporary, []string{"the server refuses this request (403)", "Status: FAILED"}, "CLEAN"},
		"with a home page": {func(h *hostile) { h.replace("/", given(home)) }, exitOK, []string{"HTML page: OK", "/list.xml: resourcelist", "Status: CLEAN"}, ""},
		"with a broken list": {func(h *hostile) {
			h.replace("/list.xml", given(urlset(`capability="resourcelist"`, listed(h.URL+"/x", "hello"))))
		}, exitDifferences, []string{"/list.xml: resourcelist", "the rs:md of the root has no at", "Status: FINDINGS"}, ""},
		"with a broken description": {func(h *hostile) {
			h.replace("/.well-known/resourcesync", given("<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url>"))
		},
			exitDifferences, []string{"/.well-known/resourcesync", "error", "Status: FINDINGS"}, ""},
		"with a broken Capability List": {func(h *hostile) {
			h.replace("/caps.xml", given("<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url>"))
		}, exitDifferences, []string{"/caps.xml", "error", "Status: FINDINGS"}, "does not offer ResourceSync"},
		"without its Capability List": {func(h *hostile) {
			h.replace("/caps.xml", http.NotFound)
		}, exitDifferences, []string{"error source-description-published", "/.well-known/resourcesync cannot be used: get \"", "/caps.xml\": expected 200, got 404 Not Found"}, "does not offer ResourceSync"},
		"without a Source": {func(h *hostile) {
			h.replace("/", given(home))
			h.replace("/.well-known/resourcesync", given(home))
			h.replace("/robots.txt", given("User-agent: *\n"))
		}, exitDifferences, []string{"error source-description-published", "does not offer ResourceSync", "robots.txt (no list of ResourceSync)"}, "CLEAN"},
		"behind a bot wall": {func(h *hostile) {
			for _, p := range []string{"/", "/robots.txt", "/.well-known/resourcesync", "/caps.xml", "/list.xml"} {
				h.replace(p, given(aWall))
			}
		}, exitTemporary, []string{"blocks programs", "Status: FAILED"}, "CLEAN"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t)
			h.give("/x", "hello")
			h.site(urlset(resourceList, listed(h.URL+"/x", "hello")))
			c.change(h)
			code, stdout, stderr := lintNow(t.Context(), append(siteFlags(), h.URL+"/")...)
			if code != c.code || c.not != "" && strings.Contains(stdout, c.not) {
				t.Errorf("exit code %d, want %d\n%s%s", code, c.code, stdout, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stdout+stderr, want) {
					t.Errorf("%q is not in\n%s%s", want, stdout, stderr)
				}
			}
		})
	}
}

// TestLintOfASiteReadsTheHeadOfALongList: of a list of a site only the beginning is read,
// and that it is cut off there is no finding.
func TestLintOfASiteReadsTheHeadOfALongList(t *testing.T) {
	h := newHostile(t)
	h.give("/x", "hello")
	var entries strings.Builder
	for i := range 20_000 {
		entries.WriteString(listed(fmt.Sprintf("%s/x?%d", h.URL, i), "hello"))
	}
	h.site(urlset(resourceList, entries.String()))
	code, stdout, stderr := lintNow(t.Context(), append(siteFlags(), h.URL+"/")...)
	if code != exitOK || !strings.Contains(stdout, "entries at its beginning; the rest of the document and the listed resources were not checked: OK") {
		t.Errorf("exit code %d, want 0 and that only the beginning was checked\n%s%s", code, stdout, stderr)
	}
}

// TestLintThatIsStoppedCountsWhatItDidNotCheck: the warning about private addresses comes although the
// run ends early.
func TestLintThatIsStoppedCountsWhatItDidNotCheck(t *testing.T) {
	h := newHostile(t)
	h.give("/list.xml", urlset(resourceList, listed("http://127.0.0.1:1/x", "hello")))
	ctx, stop := context.WithCancel(t.Context())
	h.replace("/next.xml", func(http.ResponseWriter, *http.Request) { stop() })
	_, stdout, stderr := lintNow(ctx, h.URL+"/list.xml", h.URL+"/next.xml")
	if !strings.Contains(stderr, "not checked: 1 URI at 127.0.0.1:1, because this host has no public address") {
		t.Errorf("%s%s", stdout, stderr)
	}
}

// TestLintWithAPrivateAuthorityAndAToken: lint is let in by the flags that let sync in.
func TestLintWithAPrivateAuthorityAndAToken(t *testing.T) {
	var url string
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer open-sesame" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, rsRoot+`<rs:ln rel="up" href="`+url+`/caps.xml"/><rs:md capability="resourcelist" at="2026-03-01T08:00:00Z"/></urlset>`)
	}))
	defer srv.Close()
	url = srv.URL
	dir := t.TempDir()
	ca, token := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	for name, text := range map[string][]byte{ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), token: []byte("open-sesame\n")} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"--static"}, exitFailed},
		{[]string{"--static", "--ca", ca}, exitFailed},
		{[]string{"--static", "--ca", ca, "--bearer-file", token}, exitOK},
	} {
		code, stdout, stderr := lintNow(t.Context(), append(c.args, url+"/list.xml")...)
		if code != c.code {
			t.Errorf("%v: exit code %d, want %d\n%s%s", c.args, code, c.code, stdout, stderr)
		}
	}
}

// TestDeniedStartHasOneExitCode: sync and lint agree about a start that the server refuses, although
// nothing is at the well-known address either.
func TestDeniedStartHasOneExitCode(t *testing.T) {
	for status, want := range map[int]int{http.StatusUnauthorized: exitFailed, http.StatusForbidden: exitTemporary} {
		for _, path := range []string{"/", "/list.xml"} {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != path {
					http.NotFound(w, r)
					return
				}
				w.WriteHeader(status)
			}))
			for _, args := range [][]string{{"sync", srv.URL + path, filepath.Join(t.TempDir(), "mirror")}, {"lint", srv.URL + path}} {
				if got := attempt(t, args...); got.code != want {
					t.Errorf("%s of %s with %d: exit code %d, want %d", args[0], path, status, got.code, want)
				}
			}
			srv.Close()
		}
	}
}

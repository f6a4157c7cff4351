//go:build unix

package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// plainServer is a block that serves a directory and nothing else.
const plainServer = "server {\n    listen 80;\n    root /srv/museum;\n}\n"

// worstNames are 1,000 names of files that a file system of Linux takes, and that some
// server, shell, browser or other file system reads otherwise.
func worstNames() []string {
	names := []string{
		"100% cotton.pdf", "M\u00fcller.pdf", "Mu\u0308ller.pdf", "a:b", "%41", "A", "%2541", "%2F", "a%2Fb", "%00", "%", "%%", "%zz.txt", "%index", "100%25.txt",
		"con", "CON.txt", "aux.txt", "nul", "lpt1", "com\u00b9", "end.", "end..", "end ", " begin", "  ", "-rf", "--", "~", "~user", "x~1234567.txt", "x~123456789.txt",
		"q?x=1.txt", "#f", "?", "&", ";", "a;b=c", "+", "a+b", "=", "C:\\x", "\\", "\\..\\x", "\"", "'", "`id`", "$(id)", "$HOME", "|", "*", "<b>", "]]>", "&amp;", "<!--",
		"case", "Case", "CASE", "stra\u00dfe", "strasse", "STRASSE", "\u212a", "K", "k", "\ufb01", "fi", "\u0130", "i\u0307", "zero\u200dwidth", "zerowidth", "\ufefffeff", "soft\u00adhyphen",
		"\u202etxt.exe", "\u2066a\u2069", "\u2028", "\u3000", "\u65e5\u672c\u8a9e.txt", "\U0001f600.html", "e\u0301\u0323", "e\u0323\u0301", "\u1ea1\u0301", "\U000e0001", "\ufffd", "a\u0300\u0301\u0302",
		"index.html", "no. 5 is alive", "archive.tar.gz", "a.b", "a..b", "x...", "page.html", "page.HTML", "data.xml", "data.Xml",
		strings.Repeat("n", 255), strings.Repeat("n", 251) + ".txt", strings.Repeat("\u00e4", 127), strings.Repeat("\U0001f600", 63), strings.Repeat("%25", 85), strings.Repeat(" ", 255),
		"d/d/d", "D/d/d", "d /x", "d./x", "d?/x", "d%2F/x", "d#/\u00fc", "d#/u\u0308", "aux/nul/con", strings.Repeat("d", 255) + "/x.txt",
	}
	seen := map[string]bool{}
	for _, n := range names {
		seen[n] = true
	}
	add := func(name string) {
		if !seen[name] && len(names) < 1000 {
			seen[name] = true
			names = append(names, name)
		}
	}
	const punctuation = " !\"#$%&'()*+,-:;<=>?@[\\]^_`{|}~"
	for _, c := range punctuation {
		for _, pattern := range []string{"x%c", "x%c.txt", "x.%c", "X%cy"} {
			add(fmt.Sprintf(pattern, c))
		}
		for _, other := range punctuation {
			add(fmt.Sprintf("p%c%c", c, other))
		}
	}
	return names
}

// escapedNames are those of which a mirror has a meaning, or that are never safe: their
// files have other names.
var escapedNames = []string{"@host/x", "x~12345678.txt", "catalog.db", "line\nbreak", "\x01", "\x7f", "latin-\xe9"}

// TestCat_STO_02_served: a web server over a mirror answers the URLs of the Source as the
// Source does.
func TestCat_STO_02_served(t *testing.T) {
	dir := t.TempDir()
	site, mirror := filepath.Join(dir, "site"), filepath.Join(dir, "mirror")
	names := worstNames()
	if len(names) != 1000 {
		t.Fatalf("%d names", len(names))
	}
	for i, name := range append(names, escapedNames...) {
		writeFiles(t, site, map[string]string{name: fmt.Sprintf("%d: %q", i, name)})
		at := time.Date(2001, 2, 3, 4, 5, i, 0, time.UTC)
		if err := os.Chtimes(filepath.Join(site, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	source := webServers[0].start(t, plainServer, site)
	mustDo(t, "publish", "--all-files", site, "--base-url", source+"/", "--state", filepath.Join(dir, "state"))
	mustDo(t, "sync", source+"/.well-known/resourcesync", mirror)
	copied := webServers[0].start(t, plainServer, mirror)

	for _, name := range names {
		if same, err := sameFile(filepath.Join(site, name), filepath.Join(mirror, name)); err != nil || !same {
			t.Errorf("%q in the mirror: same %v, %v", name, same, err)
		}
	}
	other := 0
	all := locs(t, filepath.Join(site, "resourcesync", "lists", "1", "resourcelist.xml"))
	if len(all) != len(names)+len(escapedNames) {
		t.Errorf("the Source lists %d resources", len(all))
	}
	for _, loc := range all {
		want, got := answerOf(t, loc), answerOf(t, copied+strings.TrimPrefix(loc, source))
		if got.status == http.StatusNotFound && want.status == http.StatusOK {
			other++ // of those that have other names, and no more
		} else if got != want || want.status != http.StatusOK {
			t.Errorf("%s:\n got %v\nwant %v", loc, got, want)
		}
	}
	if other != len(escapedNames) {
		t.Errorf("%d URLs of the Source are not answered, want %d", other, len(escapedNames))
	}
	mustDo(t, "audit", source+"/.well-known/resourcesync", mirror)
}

// locs are the URIs that a Resource List names.
func locs(t *testing.T, name string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Locs []string `xml:"url>loc"`
	}
	if err := xml.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	return list.Locs
}

// answer is what a server says of a URL.
type answer struct {
	status                   int
	body, modified, mimeType string
}

func answerOf(t *testing.T, uri string) answer {
	t.Helper()
	resp, err := http.Get(uri)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, string(body), resp.Header.Get("Last-Modified"), resp.Header.Get("Content-Type")}
}

//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pageBlocks returns the blocks of one language of docs/webmaster.md, in order.
func pageBlocks(t *testing.T, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "webmaster.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(m[1]))
	}
	return blocks
}

// startNginx serves one server block of the page, with the museum at dir.
func startNginx(t *testing.T, block, dir string) (base string) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx" // not on everybody's PATH
		if _, err := os.Stat(program); err != nil {
			t.Skip("SKIPPED: nginx is not installed")
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	block = strings.ReplaceAll(block, "/srv/museum", dir)
	block = strings.ReplaceAll(block, "listen 80;", "listen "+addr+";")
	temp := t.TempDir()
	conf := fmt.Sprintf(`daemon off;
pid %[1]s/pid;
error_log stderr;
events { }
http {
    access_log off;
    client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
    types { text/plain txt; application/xml xml; text/html html; application/zip zip; }
%[2]s}
`, temp, block)
	if os.Geteuid() == 0 {
		conf = "user root;\n" + conf // the workers read what lies in the test's own directory
	}
	name := filepath.Join(temp, "nginx.conf")
	if err := os.WriteFile(name, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-p", temp, "-c", name)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	if err := waitForListener(addr); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return "http://" + addr
}

// head returns status and header of what nginx serves at a URL.
func head(t *testing.T, url string) (int, http.Header) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode, resp.Header
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWebmasterServesAFolderByNginx(t *testing.T) {
	dir := t.TempDir()
	collection := filepath.Join(dir, "collection")
	writeFiles(t, collection, map[string]string{"pictures/one.txt": "one", "two words.txt": "two", ".git/config": "secret"})
	base := startNginx(t, pageBlocks(t, "nginx")[0], dir)
	mustDo(t, "publish", collection, "--base-url", base+"/", "--state", filepath.Join(dir, "state"))

	for path, want := range map[string]struct {
		status             int
		mediaType, caching string
		linked             bool
	}{
		"/pictures/one.txt":                      {200, "text/plain", "", true},
		"/.well-known/resourcesync":              {200, "application/xml", "", false},
		"/resourcesync/capabilitylist.xml":       {200, "application/xml", "no-cache", false},
		"/resourcesync/lists/1/resourcelist.xml": {200, "application/xml", "public, max-age=31536000, immutable", false},
		"/.git/config":                           {404, "text/html", "", false},
	} {
		status, h := head(t, base+path)
		linked := h.Get("Link") == `</resourcesync/capabilitylist.xml>; rel="resourcesync"`
		if status != want.status || h.Get("Content-Type") != want.mediaType || h.Get("Cache-Control") != want.caching || linked != want.linked {
			t.Errorf("%s: got %d, %v", path, status, h)
		}
	}
	mustDo(t, "lint", base+"/.well-known/resourcesync", "--fail-on", "warning")
	mirror := filepath.Join(dir, "mirror")
	mustDo(t, "sync", base+"/pictures/one.txt", mirror) // found by the Link of any file
	for _, name := range []string{"pictures/one.txt", "two words.txt"} {
		if same, err := sameFile(filepath.Join(collection, name), filepath.Join(mirror, name)); err != nil || !same {
			t.Errorf("%s in the mirror: same %v, %v", name, same, err)
		}
	}
}

func TestWebmasterServesBelowAPathByNginx(t *testing.T) {
	dir := t.TempDir()
	objects, documents := filepath.Join(dir, "objects"), filepath.Join(dir, "documents")
	writeFiles(t, objects, map[string]string{"one.txt": "one", ".htaccess": "secret"})
	base := startNginx(t, pageBlocks(t, "nginx")[1], dir)
	mustDo(t, "publish", objects, "--base-url", base+"/museum/", "--out", documents, "--state", filepath.Join(dir, "state"))
	if left := leftovers(t, filepath.Join(objects, "resourcesync")); len(left) > 0 {
		t.Errorf("the folder was written into: %q", left)
	}
	for path, want := range map[string]int{"/museum/one.txt": 200, "/museum/sitemap.xml": 200, "/museum/.well-known/resourcesync": 200, "/museum/.htaccess": 404} {
		if status, h := head(t, base+path); status != want {
			t.Errorf("%s: got %d, %v", path, status, h)
		}
	}
	source := base + "/museum/resourcesync/description.xml"
	mustDo(t, "lint", source) // no error; a warning tells that nothing is at the root of the host
	mustDo(t, "lint", base+"/museum/.well-known/resourcesync")
	mustDo(t, "sync", source, filepath.Join(dir, "mirror"))
	mustDo(t, "sync", base+"/museum/", filepath.Join(dir, "mirror"))
	mustDo(t, "audit", base+"/museum/one.txt", filepath.Join(dir, "mirror"))
}

func TestWebmasterScriptHasTheFileOfThePage(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("testdata", "script", "webmaster.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if file := pageBlocks(t, "yaml")[0]; !strings.Contains(string(script), "-- site.yaml --\n"+file) {
		t.Error("webmaster.txtar has another site.yaml than docs/webmaster.md")
	}
}

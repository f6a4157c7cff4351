//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
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

// webServer is a web server that the page has configurations for.
type webServer struct {
	language, program string
	// files writes the configuration with the block, which listens at addr, into dir and
	// returns the arguments that run it in the foreground.
	files func(t *testing.T, block, addr, dir string) []string
}

var webServers = []webServer{{"nginx", "nginx", nginxFiles}, {"apache", "apache2", apacheFiles}, {"caddy", "caddy", caddyFiles}}

func nginxFiles(t *testing.T, block, addr, dir string) []string {
	types := "types { text/plain txt; text/xml xml; text/html html; }" // text/xml as Debian has it
	conf := fmt.Sprintf(`daemon off;
pid %[1]s/pid;
error_log stderr;
events { }
http {
    access_log off;
    client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
    %[3]s
%[2]s}
`, dir, strings.ReplaceAll(block, "listen 80;", "listen "+addr+";"), types)
	if os.Geteuid() == 0 {
		conf = "user root;\n" + conf // the workers read what lies in the test's own directory
	}
	writeFiles(t, dir, map[string]string{"nginx.conf": conf})
	return []string{"-p", dir, "-c", filepath.Join(dir, "nginx.conf")}
}

func apacheFiles(t *testing.T, block, addr, dir string) []string {
	conf := "ServerName localhost\nPidFile pid\nMutex file:" + dir + "\nErrorLog /dev/stderr\nListen " + addr + "\n"
	for _, module := range []string{"mpm_event", "authz_core", "mime", "headers", "alias", "dir"} {
		conf += fmt.Sprintf("LoadModule %[1]s_module /usr/lib/apache2/modules/mod_%[1]s.so\n", module)
	}
	conf += "TypesConfig /etc/mime.types\n" + strings.ReplaceAll(block, "*:80", addr)
	writeFiles(t, dir, map[string]string{"apache.conf": conf})
	return []string{"-X", "-d", dir, "-f", filepath.Join(dir, "apache.conf")}
}

func caddyFiles(t *testing.T, block, addr, dir string) []string {
	conf := "{\n\tadmin off\n\tauto_https off\n}\n" + strings.ReplaceAll(block, "museum.example.org {", "http://"+addr+" {")
	writeFiles(t, dir, map[string]string{"Caddyfile": conf})
	return []string{"run", "--adapter", "caddyfile", "--config", filepath.Join(dir, "Caddyfile")}
}

// start serves one block of the page, with the museum at dir.
func (s webServer) start(t *testing.T, block, dir string) (base string) {
	t.Helper()
	program, err := exec.LookPath(s.program)
	if err != nil {
		program = "/usr/sbin/" + s.program // not on everybody's PATH
		if _, err := os.Stat(program); err != nil {
			t.Skipf("SKIPPED: %s is not installed", s.program)
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
	temp := t.TempDir()
	cmd := exec.Command(program, s.files(t, strings.ReplaceAll(block, "/srv/museum", dir), addr, temp)...)
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+temp, "XDG_CONFIG_HOME="+temp)
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

// head returns status and header of what is served at a URL.
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

// TestWebServers runs each configuration of the page for a folder: what is served has the
// headers that the page promises, our own linter finds nothing, and a mirror is made.
func TestWebServers(t *testing.T) {
	for _, server := range webServers {
		t.Run(server.language, func(t *testing.T) {
			dir := t.TempDir()
			collection := filepath.Join(dir, "collection")
			writeFiles(t, collection, map[string]string{"pictures/one.txt": "one", "two words.txt": "two", ".git/config": "secret"})
			base := server.start(t, pageBlocks(t, server.language)[0], dir)
			mustDo(t, "publish", collection, "--base-url", base+"/", "--dump", "--state", filepath.Join(dir, "state"))
			checkHeaders(t, base)
			checkHome(t, base, filepath.Join(collection, "index.html"))
			robots := attempt(t, "publish", collection, "--base-url", base+"/", "--state", filepath.Join(dir, "state"), "--show", "robots").stdout
			writeFiles(t, collection, map[string]string{"robots.txt": robots})
			for _, uri := range []string{"/.well-known/resourcesync", "/resourcesync/lists/1/resourcelist.xml", "/sitemap.xml", "/robots.txt"} {
				mustDo(t, "lint", base+uri, "--fail-on", "info")
			}
			mirror := filepath.Join(dir, "mirror")
			mustDo(t, "sync", base+"/pictures/one.txt", mirror) // found by the Link of any file
			for _, name := range []string{"pictures/one.txt", "two words.txt"} {
				if same, err := sameFile(filepath.Join(collection, name), filepath.Join(mirror, name)); err != nil || !same {
					t.Errorf("%s in the mirror: same %v, %v", name, same, err)
				}
			}
		})
	}
}

// checkHeaders looks at what a server sends.
func checkHeaders(t *testing.T, base string) {
	t.Helper()
	for path, want := range map[string]struct {
		status             int
		mediaType, caching string
		linked             bool
	}{
		"/pictures/one.txt":                      {200, "text/plain", "", true},
		"/.well-known/resourcesync":              {200, "application/xml", "", false},
		"/sitemap.xml":                           {200, "application/xml", "", false},
		"/resourcesync/about.html":               {200, "text/html", "no-cache", false},
		"/resourcesync/capabilitylist.xml":       {200, "application/xml", "no-cache", false},
		"/resourcesync/lists/1/resourcelist.xml": {200, "application/xml", "public, max-age=31536000, immutable", false},
		"/resourcesync/dumps/1/00001.zip":        {200, "application/zip", "public, max-age=31536000, immutable", false},
		"/.git/config":                           {404, "", "", false},
	} {
		status, h := head(t, base+path)
		linked := h.Get("Link") == `</resourcesync/capabilitylist.xml>; rel="resourcesync"`
		mediaType, _, _ := strings.Cut(h.Get("Content-Type"), ";")
		switch {
		case status != want.status || want.status == 200 && mediaType != want.mediaType || h.Get("Cache-Control") != want.caching && status == 200:
			t.Errorf("%s: got %d, %v", path, status, h)
		case want.linked && !linked:
			t.Errorf("%s: got %v, want a Link", path, h)
		}
	}
}

// checkHome looks at the root of a site: it leads to the page about the Source as long as the site
// has no page of its own.
func checkHome(t *testing.T, base, index string) {
	t.Helper()
	about := func() bool {
		resp, err := http.Get(base + "/")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("/: got %d", resp.StatusCode)
		}
		return resp.Request.URL.Path == "/resourcesync/about.html"
	}
	if !about() {
		t.Error("/ does not lead to about.html")
	}
	if err := os.WriteFile(index, []byte("<!doctype html><title>Museum</title>"), 0o644); err != nil {
		t.Fatal(err)
	}
	if about() {
		t.Error("/ leads to about.html instead of index.html")
	}
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
}

func TestWebmasterServesBelowAPathByNginx(t *testing.T) {
	dir := t.TempDir()
	objects, documents := filepath.Join(dir, "objects"), filepath.Join(dir, "documents")
	writeFiles(t, objects, map[string]string{"one.txt": "one", ".htaccess": "secret"})
	base := webServers[0].start(t, pageBlocks(t, "nginx")[1], dir)
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

// TestWebmasterUploadsToABucket runs the uploads of the page with a directory in the place
// of the bucket: all that was published arrives, and what was deleted goes.
func TestWebmasterUploadsToABucket(t *testing.T) {
	if _, err := exec.LookPath("rclone"); err != nil {
		t.Skip("SKIPPED: rclone is not installed")
	}
	var uploads []string
	for _, block := range pageBlocks(t, "sh") {
		for line := range strings.Lines(block) {
			if strings.HasPrefix(line, "rclone ") {
				uploads = append(uploads, strings.ReplaceAll(line, "museum:collection", "./bucket"))
			}
		}
	}
	dir := t.TempDir()
	writeFiles(t, filepath.Join(dir, "objects"), map[string]string{"one.txt": "one", "two words.txt": "two", "old.txt": "old"})
	bucket := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(dir, "bucket"))))
	defer bucket.Close()
	publish := func() {
		t.Helper()
		mustDo(t, "publish", filepath.Join(dir, "objects"), "--base-url", bucket.URL+"/", "--dump", "--out", filepath.Join(dir, "documents"), "--state", filepath.Join(dir, "state"), "--max-delete", "1")
		for _, line := range uploads {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "RCLONE_CONFIG="+filepath.Join(dir, "rclone.conf"))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
		}
	}
	if len(uploads) != 5 {
		t.Fatalf("got %d uploads on the page, want 5", len(uploads))
	}
	publish()
	mirror := filepath.Join(dir, "mirror")
	mustDo(t, "sync", bucket.URL+"/", mirror)
	if err := os.Remove(filepath.Join(dir, "objects", "old.txt")); err != nil {
		t.Fatal(err)
	}
	publish()
	if _, err := os.Stat(filepath.Join(dir, "bucket", "old.txt")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a deleted file is in the bucket: %v", err)
	}
	mustDo(t, "sync", bucket.URL+"/", mirror)
	mustDo(t, "audit", bucket.URL+"/", mirror)
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

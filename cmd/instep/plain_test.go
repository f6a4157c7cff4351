package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"instep/internal/flock"
)

// bench is what the prepared failures work on.
type bench struct {
	t                 *testing.T
	dir               string
	site, refused     string // a Source that works, and an address where nothing listens
	tls, denied, wall string
	forbidden, busy   string
	blog, broken      string
	other             string // another Source
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir()}
	t.Chdir(b.dir)
	t.Setenv("XDG_STATE_HOME", filepath.Join(b.dir, ".xdg"))
	t.Setenv("HOME", b.dir)
	answer := func(status int, body string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(srv.Close)
		return srv.URL + "/"
	}
	b.denied, b.forbidden, b.busy = answer(401, ""), answer(403, ""), answer(503, "")
	b.wall = answer(200, `<!DOCTYPE html><html><head><title>Just a moment...</title></head></html>`)
	b.blog = answer(200, `<!DOCTYPE html><html><head><title>My blog</title></head></html>`)
	b.broken = answer(200, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="description"/><url>`)
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	b.tls = secure.URL + "/"
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.refused = "http://" + ln.Addr().String() + "/"
	_ = ln.Close()
	b.site, b.other = b.publish("collection"), b.publish("archive")
	b.run("sync", b.site, "mirror")
	return b
}

// publish makes a directory and a Source of it, at the URL returned.
func (b *bench) publish(dir string) string {
	srv := httptest.NewServer(http.FileServer(http.Dir(dir)))
	b.t.Cleanup(srv.Close)
	for n := range 8 {
		b.write(fmt.Sprintf("%s/%d.txt", dir, n), "hello")
	}
	b.run("publish", dir, "--base-url", srv.URL+"/")
	return srv.URL + "/"
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// raw returns the URL of a server that answers each request with a text and closes the connection.
// "silence" is no answer at all.
func (b *bench) raw(text string) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			if text != "silence" {
				_, _ = conn.Write([]byte(text))
				_ = conn.Close()
			}
		}
	}()
	return "http://" + ln.Addr().String() + "/"
}

// run runs a command and returns its exit code and its messages.
func (b *bench) run(args ...string) (code int, messages string) {
	var stdout, stderr strings.Builder
	code = run(args, &stdout, &stderr)
	return code, stderr.String()
}

// placesAndURLs are what does not count for the length of a message.
var placesAndURLs = regexp.MustCompile(`https?://\S+|postgres://\S+|\S*/\S+|\b[0-9.]+:[0-9]+\b`)

// clause divides a message into what it says.
var clause = regexp.MustCompile(`[:;,()\n?]+ *`)

// checkMessage holds what a failed command has said against the rules: short, nothing
// twice, and what to do next.
func checkMessage(t *testing.T, name, messages string) {
	t.Helper()
	messages = strings.TrimSpace(messages)
	t.Logf("%s:\n%s\n", name, messages)
	if n := utf8.RuneCountInString(placesAndURLs.ReplaceAllString(messages, "")); n > 300 || n == 0 {
		t.Errorf("%s: %d characters without URLs and paths, want 1 to 300:\n%s", name, n, messages)
	}
	var said []string
	for _, c := range clause.Split(placesAndURLs.ReplaceAllString(messages, ""), -1) {
		if c = strings.TrimSpace(c); utf8.RuneCountInString(c) >= 15 && slices.Contains(said, c) {
			t.Errorf("%s: %q is said twice:\n%s", name, c, messages)
		}
		said = append(said, c)
	}
	if !strings.Contains(messages, "hint: ") && !regexp.MustCompile(`instep [a-z]|did you mean|expected `).MatchString(messages) {
		t.Errorf("%s: no word of what to do:\n%s", name, messages)
	}
}

// TestThirtyPreparedFailures shows what people see when something goes wrong.
func TestThirtyPreparedFailures(t *testing.T) {
	b := newBench(t)
	b.write("urls.txt", b.site+"0.txt\n")
	b.write("private.yaml", "base_url: https://museum.example.org/\nout: out1\nsets:\n  - from: {urls: urls.txt}\n")
	b.write("postgres.yaml", "base_url: https://museum.example.org/\nout: out2\nsets:\n  - from: {sql: {postgres: \"postgres://u@"+strings.TrimPrefix(strings.TrimSuffix(b.refused, "/"), "http://")+"/db\", query: \"select uri from t\"}}\n")
	b.write("unknown.yaml", "base_url: https://museum.example.org/\nbase_dir: x\n")
	b.write("theirs/.well-known/resourcesync", "theirs")
	b.write("theirs/resourcesync/capabilitylist.xml", "theirs")
	b.write("full/file.txt", "mine")
	if err := os.CopyFS("copied", os.DirFS("collection")); err != nil {
		t.Fatal(err)
	}
	b.write("empty.pem", "")
	b.write("logins", "machine 127.0.0.1 login a password b\n")
	b.write("others", "machine museum.example.org login a password b\n")
	b.write("page.html", "<html></html>")
	for _, c := range []struct {
		name string
		code int
		args []string
		want string
	}{
		{"self-signed certificate", exitFailed, []string{"sync", b.tls, "m1"}, "--ca FILE"},
		{"401", exitFailed, []string{"sync", b.denied, "m2"}, "--netrc FILE, --bearer-file FILE"},
		{"401 after a login", exitFailed, []string{"sync", "--netrc", "logins", b.denied, "m2"}, "refuses the login that was sent (401)"},
		{"401, and the file has no login", exitFailed, []string{"sync", "--netrc", "others", b.denied, "m2"}, "others has no login for 127.0.0.1"},
		{"403", exitTemporary, []string{"sync", b.forbidden, "m3"}, "--netrc FILE"},
		{"503", exitTemporary, []string{"sync", b.busy, "m3", "--max-time", "1s"}, "again"},
		{"not a Source", exitFailed, []string{"sync", b.blog, "m4"}, "does not offer ResourceSync"},
		{"bot wall", exitTemporary, []string{"sync", b.wall, "m5"}, "blocks programs"},
		{"broken description", exitFailed, []string{"sync", b.broken, "m6"}, "instep lint"},
		{"nothing listens", exitTemporary, []string{"sync", b.refused, "m7"}, "does not answer"},
		{"no such host", exitTemporary, []string{"sync", "http://no-such-host.invalid/", "m8"}, "no host named no-such-host.invalid"},
		{"password in the URL", exitUsage, []string{"sync", "https://me:secret@museum.example.org/", "m9"}, "--netrc FILE"},
		{"https where http is", exitFailed, []string{"sync", strings.Replace(b.site, "http:", "https:", 1), "m10"}, "begin the URL with " + strings.TrimSuffix(b.site, "/")},
		{"the connection is closed", exitTemporary, []string{"sync", "--retries", "0", b.raw(""), "m10"}, "does not answer: the host closed the connection"},
		{"another protocol", exitTemporary, []string{"sync", "--retries", "0", b.raw("\x15\x03\x01\x00\x02\x02\x16"), "m10"}, "the response cannot be used"},
		{"silence", exitTemporary, []string{"sync", "--retries", "0", "--timeout", "100ms", b.raw("silence"), "m10"}, "does not answer: no response in time"},
		{"a file is the mirror", exitFailed, []string{"sync", b.site, "page.html"}, "page.html is a file, expected a directory"},
		{"a file is on the way to the mirror", exitFailed, []string{"sync", b.site, "page.html/a/mirror"}, "page.html is a file, expected a directory"},
		{"a file is to be published", exitGuard, []string{"publish", "page.html", "--base-url", b.site}, "page.html is a file, expected a directory"},
		{"a word for a number", exitUsage, []string{"sync", "--workers", "many", b.site, "mirror"}, `--workers "many": expected a whole number`},
		{"a word for a fraction", exitUsage, []string{"simulate", "--rate", "fast"}, `--rate "fast": expected a number`},
		{"a negative seed", exitUsage, []string{"simulate", "--seed", "-1"}, "expected a whole number from 0"},
		{"a number too large", exitUsage, []string{"simulate", "--sets", "99999999999999999999"}, "expected a smaller number"},
		{"neither true nor false", exitUsage, []string{"sync", "--adopt=perhaps", b.site, "mirror"}, "expected true or false"},
		{"limit of a transfer", exitTransfer, []string{"sync", "--workers", "1", "--max-transfer", "1", b.site, "m12"}, "the run has reached its transfer limit"},
		{"SOURCE and DIR are exchanged", exitUsage, []string{"sync", "collection", b.site}, "DIR: expected a directory, found the URL"},
		{"neither URL nor file", exitUsage, []string{"sync", "nowhere", "m10"}, "https://nowhere"},
		{"private address in an input", exitFailed, []string{"publish", "-c", "private.yaml"}, "allow_private:"},
		{"PostgreSQL is down", exitTemporary, []string{"publish", "-c", "postgres.yaml"}, "the database at"},
		{"directory to publish is missing", exitGuard, []string{"publish", "nothing", "--base-url", b.site}, "spelled right"},
		{"no base URL", exitUsage, []string{"publish", "full"}, "--base-url"},
		{"another base URL", exitGuard, []string{"publish", "collection", "--base-url", "https://museum.example.org/"}, "--move-to https://museum.example.org/"},
		{"the state is elsewhere", exitGuard, []string{"publish", "collection", "--base-url", b.site, "--state", "other"}, "omit --state"},
		{"the state is lost", exitGuard, []string{"publish", "copied", "--base-url", b.site}, "--adopt"},
		{"a document of others is in the way", exitGuard, []string{"publish", "theirs", "--base-url", b.site}, "--out"},
		{"mirror into a directory with files", exitGuard, []string{"sync", b.site, "full"}, "--adopt"},
		{"no mirror", exitGuard, []string{"report", "nothing"}, "instep sync"},
		{"mirror of another Source", exitGuard, []string{"sync", b.other, "mirror"}, "another directory"},
		{"unknown plan", exitUsage, []string{"approve", "mirror", "0123456789abcdef0123456789abcdef"}, "hash"},
		{"unknown resource", exitFailed, []string{"restore", "mirror", "nothing.txt"}, "instep history"},
		{"unknown run", exitUsage, []string{"undo", "mirror", "99"}, "instep history"},
		{"unknown flag", exitUsage, []string{"sync", "--fast", b.site, "mirror"}, "see instep sync --help"},
		{"unknown command", exitUsage, []string{"synk"}, `did you mean "sync"`},
		{"glob that is none", exitUsage, []string{"sync", "--include", "[", b.site, "mirror"}, ".gitignore"},
		{"time that is none", exitUsage, []string{"sync", "--max-time", "10", b.site, "mirror"}, "such as 10s"},
		{"unknown set", exitUsage, []string{"sync", "--set", "photos", b.site, "mirror"}, "--set"},
		{"no configuration file", exitUsage, []string{"config", "check", "nothing.yaml"}, "nothing.yaml"},
		{"unknown key", exitUsage, []string{"publish", "-c", "unknown.yaml"}, "unknown.yaml:2"},
		{"authorities without a certificate", exitUsage, []string{"sync", "--ca", "empty.pem", b.tls, "m11"}, "empty.pem"},
		{"port in use", exitFailed, []string{"serve", "collection", "--addr", strings.TrimSuffix(strings.TrimPrefix(b.site, "http://"), "/")}, "--addr"},
		{"address without a port", exitFailed, []string{"serve", "collection", "--addr", "8080"}, "missing port in address"},
		{"convert a page", exitFailed, []string{"convert", "page.html"}, ""},
		{"lint of nothing", exitFailed, []string{"lint", "nothing.xml"}, "nothing.xml"},
	} {
		code, messages := b.run(c.args...)
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.name, code, c.code)
		}
		if !strings.Contains(messages, c.want) {
			t.Errorf("%s: %q is not in\n%s", c.name, c.want, messages)
		}
		checkMessage(t, c.name, messages)
	}
	b.locked()
	b.vanished()
	b.loginWithheld()
}

// loginWithheld: the login in the default netrc file is not sent over plain http.
func (b *bench) loginWithheld() {
	b.t.Setenv("NETRC", "logins")
	_, messages := b.run("sync", b.denied, "m2")
	if want := "is not sent, because connections to " + strings.TrimSuffix(b.denied, "/") + " are not encrypted"; !strings.Contains(messages, want) {
		b.t.Errorf("login withheld: %q is not in\n%s", want, messages)
	}
	checkMessage(b.t, "login withheld", messages)
}

// locked: another run holds the mirror.
func (b *bench) locked() {
	lock, err := flock.Acquire(filepath.Join("mirror", ".instep", "lock"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = lock.Release() }()
	code, messages := b.run("sync", b.site, "mirror")
	if code != exitLocked {
		b.t.Errorf("locked: exit code %d, want %d", code, exitLocked)
	}
	checkMessage(b.t, "locked", messages)
}

// vanished: most of what was published is gone.
func (b *bench) vanished() {
	for n := range 7 {
		if err := os.Remove(fmt.Sprintf("collection/%d.txt", n)); err != nil {
			b.t.Fatal(err)
		}
	}
	code, messages := b.run("publish", "collection", "--base-url", b.site)
	if code != exitGuard {
		b.t.Errorf("vanished: exit code %d, want %d", code, exitGuard)
	}
	checkMessage(b.t, "most is gone", messages)
}

// TestDiskFailuresHaveSentences: what a disk refuses is told in one sentence, with what to do.
func TestDiskFailuresHaveSentences(t *testing.T) {
	for name, err := range map[string]error{
		"read-only directory": &fs.PathError{Op: "mkdir", Path: "/srv/www/.instep-publish", Err: syscall.EACCES},
		"read-only disk":      fmt.Errorf("making the output directory: %w", &fs.PathError{Op: "mkdirat", Path: "/srv/www/resourcesync", Err: syscall.EROFS}),
		"unreadable file":     &fs.PathError{Op: "open", Path: "/srv/www/secret", Err: syscall.EACCES},
		"disk full":           errors.Join(&fs.PathError{Op: "write", Path: "/srv/www/x", Err: syscall.ENOSPC}, errors.New("leaving it")),
	} {
		if runtime.GOOS == "windows" && name == "disk full" {
			continue // it has another number there
		}
		_, hint := explain(context.Background(), err)
		checkMessage(t, name, "instep: "+new(output).tell(err).text+"\n  hint: "+hint)
		if !strings.Contains(new(output).tell(err).text, "/srv/www") && name != "disk full" {
			t.Errorf("%s: no word of the place: %q", name, new(output).tell(err).text)
		}
	}
}

// TestBriefSaysNothingTwice: long, repeated and many-lined texts become one short line.
func TestBriefSaysNothingTwice(t *testing.T) {
	long := "https://museum.example.org/" + strings.Repeat("a-long-way/", 30) + "end.xml"
	for text, want := range map[string]string{
		"a\nb": "a; b",
		"read it: not a ResourceSync document: line 1: not a ResourceSync document: a page": "read it: not a ResourceSync document: line 1: a page",
		"get " + long + ": 404": "get https://museum.example.org/a-long-way/a…g-way/a-long-way/a-long-way/end.xml: 404",
	} {
		if got := brief(text); !strings.HasPrefix(got, want[:min(len(want), 40)]) || utf8.RuneCountInString(got) > 120 {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := brief(strings.Repeat("x", 1000)); utf8.RuneCountInString(got) != maxMessage+1 {
		t.Errorf("got %d characters, want %d and a mark", utf8.RuneCountInString(got), maxMessage)
	}
}

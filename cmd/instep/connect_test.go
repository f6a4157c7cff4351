//go:build unix

package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"instep/discover"
	"instep/fetch"
)

// guarded is a site that is served only to who may see it; at first to all.
type guarded struct {
	*httptest.Server
	dir     string // of files of the test
	ca      string // certificates of the site, in PEM
	allowed atomic.Pointer[func(*http.Request) bool]
	refused atomic.Int32
}

// guardSite publishes a small site behind a server of https, or http.
func guardSite(t *testing.T, secure bool) *guarded {
	t.Helper()
	g := &guarded{dir: t.TempDir(), Server: httptest.NewUnstartedServer(nil)}
	site := filepath.Join(g.dir, "site")
	makeSite(t, site, 20)
	scheme := map[bool]string{true: "https://", false: "http://"}[secure]
	backend := publishAt(t, scheme+g.Listener.Addr().String()+"/", site, g.dir)
	g.Config.ErrorLog = log.New(io.Discard, "", 0)
	g.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if allowed := g.allowed.Load(); allowed != nil && !(*allowed)(r) {
			g.refused.Add(1)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	})
	if secure {
		g.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
		g.StartTLS()
		block := &pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw}
		g.ca = g.file(t, "ca.pem", string(pem.EncodeToMemory(block)))
	} else {
		g.Start()
	}
	t.Cleanup(g.Close)
	return g
}

// publishAt publishes a site for a base URL and returns what serves it.
func publishAt(t *testing.T, base, site, dir string) http.Handler {
	t.Helper()
	docs := filepath.Join(dir, "docs")
	mustDo(t, "publish", site, "--base-url", base, "--out", docs, "--state", filepath.Join(dir, "state"))
	served, _ := serveSite(t, site, docs)
	u, err := url.Parse(served)
	if err != nil {
		t.Fatal(err)
	}
	return httputil.NewSingleHostReverseProxy(u)
}

// file writes a file that only its owner can read.
func (g *guarded) file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(g.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sync runs instep sync into a new mirror.
func (g *guarded) sync(t *testing.T, flags ...string) outcome {
	t.Helper()
	args := append([]string{"sync", g.URL + "/", filepath.Join(t.TempDir(), "mirror")}, flags...)
	if g.ca != "" {
		args = append(args, "--ca", g.ca)
	}
	return instep(t, args...)
}

func noHome(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("NETRC", "")
	t.Setenv(envBearer, "")
	return home
}

// Whatever a Source asks for is shown with each request for a document or a resource,
// and appears in nothing that is printed.
func TestCredentialsOpenTheWholeSource(t *testing.T) {
	g := guardSite(t, true)
	home := noHome(t)
	host := strings.TrimPrefix(g.URL, "https://")
	has := func(field, value string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Header.Get(field) == value }
	}
	isReader := func(r *http.Request) bool {
		name, password, _ := r.BasicAuth()
		return name == "reader" && password == "hidden"
	}
	netrc := "machine 127.0.0.1 login reader password hidden\n"
	cert, key := clientCertificate(t)
	tests := []struct {
		name    string
		allowed func(*http.Request) bool
		env     [2]string
		flags   []string
	}{
		{"netrc", isReader, [2]string{}, []string{"--netrc", g.file(t, "netrc", netrc)}},
		{"default of a netrc that is named", isReader, [2]string{}, []string{"--netrc", g.file(t, "default", "default login reader password hidden")}},
		{"netrc of the environment", isReader, [2]string{"NETRC", g.file(t, "env", netrc)}, nil},
		{"token", has("Authorization", "Bearer hidden"), [2]string{}, []string{"--bearer-file", g.file(t, "token", "hidden\n")}},
		{"token of the environment", has("Authorization", "Bearer hidden"), [2]string{envBearer, "hidden"}, nil},
		{"token rather than netrc", has("Authorization", "Bearer hidden"), [2]string{"NETRC", g.file(t, "both", netrc)}, []string{"--bearer-file", g.file(t, "token2", "hidden")}},
		{"header fields", has("X-Api-Key", "hidden"), [2]string{}, []string{"--header-file", g.file(t, "fields", "https://other.example.org X-Api-Key: other\nhttps://"+host+" X-Api-Key: hidden\n")}},
		{"certificate", isCertified, [2]string{}, []string{"--cert", g.file(t, "cert.pem", cert), "--key", g.file(t, "key.pem", key)}},
		{"certificate and key in one file", isCertified, [2]string{}, []string{"--cert", g.file(t, "both.pem", key+cert)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g.allowed.Store(&tt.allowed)
			if o := g.sync(t); o.code == 0 {
				t.Fatalf("without it: exit code %d", o.code)
			}
			if tt.env[0] != "" {
				t.Setenv(tt.env[0], tt.env[1])
			}
			g.refused.Store(0)
			o := g.sync(t, tt.flags...)
			if o.code != 0 || *o.Created != 20 || g.refused.Load() > 0 {
				t.Errorf("exit code %d, %d requests refused\n%s", o.code, g.refused.Load(), o.stderr)
			}
			if all, err := json.Marshal(o.records); err != nil || strings.Contains(string(all)+o.stderr, "hidden") {
				t.Errorf("the secret was printed (%v):\n%s\n%s", err, all, o.stderr)
			}
		})
	}
	t.Run("netrc at home", func(t *testing.T) {
		allowed := isReader
		g.allowed.Store(&allowed)
		if err := os.WriteFile(filepath.Join(home, netrcName()), []byte(netrc), 0o644); err != nil {
			t.Fatal(err)
		}
		if o := g.sync(t); o.code != 0 || !strings.Contains(fmt.Sprint(o.records)+o.stderr, "chmod 600") {
			t.Errorf("exit code %d, want 0 and a warning that others can read the file\n%s", o.code, o.stderr)
		}
	})
}

// What goes to the origin of SOURCE goes nowhere if SOURCE is a file.
func TestSecretsForTheOriginOfAFileAreRefused(t *testing.T) {
	g := &guarded{dir: t.TempDir()}
	noHome(t)
	g.file(t, "resourcelist.xml", `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"><rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/></urlset>`)
	for _, flag := range []string{"--bearer-file", "--cert"} {
		o := instep(t, "sync", g.dir, filepath.Join(g.dir, "mirror"), flag, g.file(t, "token", "hidden"))
		if o.code != exitUsage || !strings.Contains(o.stderr+fmt.Sprint(o.records), "a file has no origin") {
			t.Errorf("%s: exit code %d, want %d and why\n%s", flag, o.code, exitUsage, o.stderr)
		}
	}
}

func isCertified(r *http.Request) bool {
	return len(r.TLS.PeerCertificates) > 0 && r.TLS.PeerCertificates[0].Subject.CommonName == "reader"
}

// clientCertificate makes one for "reader", and its key.
func clientCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "reader"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", secret)
}

// A netrc file that nobody has named sends nothing in plain text, and no default.
func TestNetrcFoundAtHomeIsUsedWithCare(t *testing.T) {
	const entry = "machine 127.0.0.1 login reader password hidden\n"
	for name, tt := range map[string]struct {
		secure bool
		text   string
		flag   bool
		sent   bool
	}{
		"http":                   {false, entry, false, false},
		"http, and it is named":  {false, entry, true, true},
		"https":                  {true, entry, false, true},
		"https, and its default": {true, "default login reader password hidden", false, false},
		"another machine":        {true, "machine example.org login reader password hidden", true, false},
		"not a netrc file":       {true, "password of everything: hidden", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := guardSite(t, tt.secure)
			home := noHome(t)
			var sent atomic.Int32
			count := func(r *http.Request) bool {
				if r.Header.Get("Authorization") != "" {
					sent.Add(1)
				}
				return true
			}
			g.allowed.Store(&count)
			file := filepath.Join(home, netrcName())
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var flags []string
			if tt.flag {
				flags = []string{"--netrc", file}
			}
			if o := g.sync(t, flags...); o.code != 0 || strings.Contains(o.stderr, "hidden") {
				t.Fatalf("exit code %d\n%s", o.code, o.stderr)
			}
			if (sent.Load() > 0) != tt.sent {
				t.Errorf("sent with %d requests, want it sent: %v", sent.Load(), tt.sent)
			}
		})
	}
}

// A token that is meant for no Source in particular goes nowhere where others can read
// it; what is named for the Source goes there, and whoever asked for that is told.
func TestSecretsInPlainTextAreAskedForAndTold(t *testing.T) {
	home := noHome(t)
	file := func(name, text string) string {
		path := filepath.Join(home, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const plain, secure, here = "http://museum.example.org/", "https://museum.example.org/", "http://127.0.0.1:8080/"
	token := []string{"--bearer-file", file("token", "hidden")}
	field := []string{"--header-file", file("field", "http://museum.example.org Authorization: Basic hidden\nhttp://museum.example.org X-Key: hidden\n")}
	netrc := []string{"--netrc", file("netrc", "default login reader password hidden")}
	const notSent, readable = "is not sent", "others can read them"
	for name, tt := range map[string]struct {
		source string
		env    string
		flags  []string
		sent   string // begin of the Authorization for the Source
		told   string
	}{
		"environment":                      {plain, "hidden", nil, "", notSent},
		"environment, https":               {secure, "hidden", nil, "Bearer ", ""},
		"environment, this machine":        {here, "hidden", nil, "Bearer ", ""},
		"environment, localhost":           {"http://LOCALHOST:8080/", "hidden", nil, "Bearer ", ""},
		"environment, IPv6":                {"http://[::1]:8080/", "hidden", nil, "Bearer ", ""},
		"environment, named like it":       {"http://localhost.example.org/", "hidden", nil, "", notSent},
		"environment, documents in a file": {discover.NoHost, "hidden", nil, "", ""},
		"token":                            {plain, "", token, "Bearer ", readable},
		"token before the environment":     {plain, "other", token, "Bearer ", readable},
		"token, https":                     {secure, "", token, "Bearer ", ""},
		"fields":                           {plain, "", field, "Basic ", readable},
		"fields before the environment":    {plain, "other", field, "Basic ", readable},
		"netrc":                            {plain, "", netrc, "Basic ", readable},
		"netrc, this machine":              {here, "", netrc, "Basic ", ""},
		"netrc, documents in a file":       {discover.NoHost, "", netrc, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(envBearer, tt.env)
			sent, told := credentialsFor(t, tt.source, tt.flags)
			if got := sent.Get("Authorization"); !strings.HasPrefix(got, tt.sent) || (got == "") != (tt.sent == "") || got == "Bearer other" {
				t.Errorf("sends %q, want %q...", got, tt.sent)
			}
			if n := strings.Count(told, "\n  hint: "); !strings.Contains(told, tt.told) || (n > 0) != (tt.told != "") || n > 1 || strings.Contains(told, "hidden") {
				t.Errorf("told %q, want %q once", told, tt.told)
			}
		})
	}
}

// credentialsFor returns the header fields for the origin of a Source, and what is told.
func credentialsFor(t *testing.T, source string, flags []string) (sent http.Header, told string) {
	t.Helper()
	var f sourceFlags
	cmd := &cobra.Command{}
	f.register(cmd)
	if err := cmd.ParseFlags(flags); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	a := &app{out: &output{stdout: io.Discard, stderr: &stderr}}
	o, err := a.clientOptions(source, &f)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	sent = http.Header{}
	for _, cr := range o.Credentials {
		if cr.Origin == fetch.Origin(u) {
			maps.Copy(sent, cr.Header)
		}
	}
	return sent, stderr.String()
}

func TestFlagsOfPatience(t *testing.T) {
	for _, c := range []struct {
		flags []string
		want  fetch.Options
	}{
		{nil, fetch.Options{MaxRetries: 3, UserAgent: "instep/" + version + " (ResourceSync Destination)"}},
		{[]string{"--retries", "0", "--timeout", "2m", "--user-agent", "library"}, fetch.Options{MaxRetries: -1, HeaderTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute, UserAgent: "library"}},
		{[]string{"--retries", "7"}, fetch.Options{MaxRetries: 7, UserAgent: "instep/" + version + " (ResourceSync Destination)"}},
	} {
		var f sourceFlags
		cmd := &cobra.Command{}
		f.register(cmd)
		if err := cmd.ParseFlags(c.flags); err != nil {
			t.Fatal(err)
		}
		a := &app{out: &output{stdout: io.Discard, stderr: io.Discard}}
		o, err := a.clientOptions("https://museum.example.org/", &f)
		if err != nil {
			t.Fatal(err)
		}
		got := fetch.Options{MaxRetries: o.MaxRetries, HeaderTimeout: o.HeaderTimeout, IdleTimeout: o.IdleTimeout, UserAgent: o.UserAgent}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: got %+v, want %+v", c.flags, got, c.want)
		}
	}
}

func TestFlagsOfConnectionsThatMakeNoSense(t *testing.T) {
	g := &guarded{dir: t.TempDir()}
	noHome(t)
	cert, _ := clientCertificate(t)
	for _, flags := range [][]string{
		{"--bwlimit", "fast"}, {"--bwlimit", "-1"}, {"--max-transfer", "-1"}, {"--max-time", "-1s"}, {"--max-time", "soon"},
		{"--retries", "-1"}, {"--retries", "101"}, {"--user-agent", "a\nb"}, {"--proxy", "proxy.example.org"}, {"--proxy", "ftp://proxy.example.org"}, {"--proxy", "http://u:hidden@proxy.example.org"},
		{"--ca", g.file(t, "none.pem", "hidden")}, {"--ca", "missing.pem"},
		{"--netrc", "missing"}, {"--netrc", g.file(t, "netrc", "hidden")},
		{"--bearer-file", "missing"}, {"--bearer-file", g.file(t, "tokens", "hidden hidden")}, {"--bearer-file", g.file(t, "empty", "\n")},
		{"--header-file", g.file(t, "fields", "hidden")},
		{"--bearer-file", g.file(t, "token", "hidden"), "--header-file", g.file(t, "basic", "https://museum.example.org Authorization: Basic hidden")},
		{"--cert", g.file(t, "cert.pem", cert)}, {"--key", g.file(t, "key.pem", "hidden")}, {"--cert", "missing"},
	} {
		o := instep(t, append([]string{"sync", "https://museum.example.org/", filepath.Join(g.dir, "mirror")}, flags...)...)
		if o.code != exitUsage || strings.Contains(o.stderr+fmt.Sprint(o.records), "hidden") {
			t.Errorf("%v: exit code %d, want %d and nothing secret\n%s", flags, o.code, exitUsage, o.stderr)
		}
	}
}

// A run that may transfer only so much, or take only so long, says so by its exit code,
// and the same command again goes on.
func TestLimitsOfARun(t *testing.T) {
	g := guardSite(t, false)
	mirror := filepath.Join(g.dir, "mirror")
	runs, created := 0, int64(0)
	for {
		o := instep(t, "sync", g.URL+"/", mirror, "--max-transfer", "500", "--workers", "1")
		runs++
		created += *o.Created
		if o.code == 0 {
			break
		}
		if o.code != exitTransfer || o.Status != "partial" || *o.Created == 0 {
			t.Fatalf("exit code %d, status %s, %d created; want %d\n%s", o.code, o.Status, *o.Created, exitTransfer, o.stderr)
		}
	}
	if runs < 3 || created != 20 {
		t.Errorf("%d runs brought %d files, want 20 in some more", runs, created)
	}
	if o := instep(t, "sync", g.URL+"/", filepath.Join(g.dir, "late"), "--max-time", "1ns"); o.code != exitTime || *o.Created != 0 {
		t.Errorf("exit code %d, %d created; want %d, 0\n%s", o.code, *o.Created, exitTime, o.stderr)
	}
}

// A program that is killed in the middle of a large body goes on from there: the next
// run transfers what lacks, and what came after the last checkpoint.
func TestKillInALargeBodyCostsLittle(t *testing.T) {
	const size, stall, checkpoint = 200 << 20, 150 << 20, 32 << 20
	dir := t.TempDir()
	site := filepath.Join(dir, "site")
	makeSite(t, site, 1)
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(i * i >> 7)
	}
	if err := os.WriteFile(filepath.Join(site, "large.bin"), body, 0o644); err != nil {
		t.Fatal(err)
	}
	front := httptest.NewUnstartedServer(nil)
	backend := publishAt(t, "http://"+front.Listener.Addr().String()+"/", site, dir)
	stalled, gone := make(chan bool), make(chan bool)
	var sent atomic.Int64
	var asked atomic.Bool
	front.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/large.bin":
			backend.ServeHTTP(w, r)
		case asked.CompareAndSwap(false, true):
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Content-Length", fmt.Sprint(size))
			_, _ = w.Write(body[:stall])
			_ = http.NewResponseController(w).Flush()
			close(stalled)
			<-gone
		default:
			w.Header().Set("ETag", `"1"`)
			http.ServeContent(&countingWriter{w, &sent}, r, "", time.Time{}, bytes.NewReader(body))
		}
	})
	front.Start()
	defer front.Close()
	mirror := filepath.Join(dir, "mirror")
	cmd := command(t, "sync", front.URL+"/", mirror)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-stalled // all of it is sent, but for what the buffers of the network hold
	awaitPart(t, mirror, stall-checkpoint)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	close(gone)
	o := mustDo(t, "sync", front.URL+"/", mirror)
	if most := int64(size - stall + 2*checkpoint); sent.Load() > most {
		t.Errorf("the next run was sent %d bytes, want at most %d", sent.Load(), most)
	}
	if got, err := os.ReadFile(filepath.Join(mirror, "large.bin")); err != nil || !bytes.Equal(got, body) {
		t.Errorf("the bytes held are not those of the Source (%v)\n%s", err, o.stderr)
	}
	if left := leftovers(t, filepath.Join(mirror, ".instep", "parts")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// awaitPart waits until a transfer that is under way has that many bytes.
func awaitPart(t *testing.T, mirror string, size int64) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		parts, err := filepath.Glob(filepath.Join(mirror, ".instep", "parts", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			if info, err := os.Stat(p); err == nil && info.Size() >= size {
				return
			}
		}
		<-time.After(5 * time.Millisecond) // between looks at another process
	}
	t.Fatal("the transfer did not get that far in a minute")
}

type countingWriter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.n.Add(int64(n))
	return n, err
}

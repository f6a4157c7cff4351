//go:build unix

package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// site is what the rows of the Destination synchronise from, and where to.
type site struct {
	Dir     string // where everything lies
	Small   int    // files of 1 to 20 KiB
	Large   int    // files of 5 MiB
	Far     int    // files behind latency
	Members int    // resources of a large set without files
	Changes int    // of it

	program string // the binary
	tests   string // the binary of these tests
	side    string // what its targets are called by; "" unless two programs are compared
	server  string // what serves near
	near    string // URL of the server without latency
	far     string // of that with it
	rng     *rand.Rand
	serial  int               // of the last target
	latest  map[string]string // target of each name
}

// The sets of the site. Each has a directory with its tree, and with its documents.
const (
	smallSet  = "small"
	packedSet = "packed" // as small, with a Resource Dump
	largeSet  = "large"
	farSet    = "far"
	dumpSet   = "dump" // the same, with a Resource Dump
	hugeSet   = "huge" // without a tree
)

// latency is how long each answer of the far server takes.
const latency = 50 * time.Millisecond

func (s *site) path(name ...string) string { return filepath.Join(append([]string{s.Dir}, name...)...) }
func (s *site) tree(set string) string     { return s.path(set, "tree") }
func (s *site) docs(set string) string     { return s.path(set, "docs") }

// base is the URI under which a set is.
func (s *site) base(set string) string {
	if set == farSet || set == dumpSet {
		return s.far + "/" + set + "/"
	}
	return s.near + "/" + set + "/"
}

// source is what is given to a Destination.
func (s *site) source(set string) string { return s.base(set) + "resourcesync/capabilitylist.xml" }

// open makes the files, serves and publishes them.
func (s *site) open(t *testing.T) error {
	s.program, s.tests, s.rng, s.latest = s.path("instep"), os.Args[0], rand.New(rand.NewPCG(3, 4)), map[string]string{}
	if _, err := output(exec.Command("go", "build", "-o", s.program, "instep/cmd/instep")); err != nil {
		return err
	}
	for set, n := range map[string]int{smallSet: s.Small, packedSet: s.Small, farSet: s.Far, dumpSet: s.Far} {
		if err := (sourceJob{Dir: s.path(set), Files: n}).makeTree(); err != nil {
			return err
		}
	}
	if err := s.makeLarge(); err != nil {
		return err
	}
	if err := s.serve(t); err != nil {
		return err
	}
	for _, set := range []string{smallSet, largeSet, farSet} {
		if err := s.publish(set); err != nil {
			return err
		}
	}
	return errors.Join(s.publish(packedSet, "--dump"), s.publish(dumpSet, "--dump"))
}

func (s *site) makeLarge() error {
	if err := os.MkdirAll(s.tree(largeSet), 0o755); err != nil {
		return err
	}
	noise := rand.NewChaCha8([32]byte{1})
	data := make([]byte, 5<<20)
	for i := range s.Large {
		noise.Read(data) // never fails
		if err := os.WriteFile(filepath.Join(s.tree(largeSet), fmt.Sprintf("f%03d.bin", i)), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) publish(set string, more ...string) error {
	args := []string{"publish", s.tree(set), "--base-url", s.base(set), "--out", s.docs(set), "--state", s.path(set, "state")}
	_, err := output(exec.Command(s.program, append(args, more...)...))
	return err
}

// ServeHTTP serves the sets.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	set, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	name := filepath.Join(s.tree(set), rest)
	if strings.HasPrefix(rest, "resourcesync/") {
		name = filepath.Join(s.docs(set), rest)
	}
	http.ServeFile(w, r, name)
}

// late serves like s after the latency of a distant server, which no event can stand for.
func (s *site) late(w http.ResponseWriter, r *http.Request) {
	time.Sleep(latency)
	s.ServeHTTP(w, r)
}

// serve starts the servers: near is nginx, where it is found.
func (s *site) serve(t *testing.T) error {
	far := httptest.NewServer(http.HandlerFunc(s.late))
	t.Cleanup(far.Close)
	s.far = far.URL
	program, err := exec.LookPath("nginx")
	if err != nil {
		near := httptest.NewServer(s)
		t.Cleanup(near.Close)
		s.near, s.server = near.URL, "net/http of Go, as nginx is not installed (apt-get install nginx-light)"
		return nil
	}
	s.server = "nginx with keep-alive and sendfile"
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := ln.Addr().String()
	s.near = "http://" + addr
	if err := errors.Join(ln.Close(), os.WriteFile(s.path("nginx.conf"), s.configuration(addr), 0o600)); err != nil {
		return err
	}
	cmd := exec.Command(program, "-p", s.Dir, "-c", s.path("nginx.conf"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	})
	if err := listening(addr); err != nil {
		return fmt.Errorf("%w: %s", err, stderr.String())
	}
	return nil
}

func listening(addr string) error {
	for range 100 {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			return c.Close()
		}
		time.Sleep(20 * time.Millisecond) // another process starts, and nothing tells when it listens
	}
	return fmt.Errorf("nothing listens at %s", addr)
}

func (s *site) configuration(addr string) []byte {
	var b strings.Builder
	if os.Geteuid() == 0 {
		b.WriteString("user root;\n") // the workers read what lies in the test's own directory
	}
	fmt.Fprintf(&b, `daemon off;
worker_processes 2;
pid %[1]s/pid;
error_log stderr;
events { worker_connections 512; }
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
    types { text/plain txt; application/xml xml; application/zip zip; }
    server {
        listen %[2]s;
        autoindex on;
`, s.Dir, addr)
	for _, set := range []string{smallSet, packedSet, largeSet, hugeSet} {
		fmt.Fprintf(&b, "        location /%[1]s/resourcesync/ { alias %[2]s/resourcesync/; }\n        location /%[1]s/ { alias %[3]s/; }\n",
			set, s.docs(set), s.tree(set))
	}
	b.WriteString("    }\n}\n")
	return []byte(b.String())
}

// names are the files of a set, from its tree.
func (s *site) names(set string) ([]string, error) {
	out, err := output(exec.Command("find", s.tree(set), "-type", "f", "-printf", "%P\n"))
	return strings.Fields(string(out)), err
}

// change rewrites every hundredth file of the small set, beginning anywhere, and
// publishes it.
func (s *site) change() error {
	names, err := s.names(smallSet)
	if err != nil {
		return err
	}
	step := min(100, len(names))
	for i := s.rng.IntN(step); i < len(names); i += step {
		text := strings.Repeat(fmt.Sprintf("changed %d\n", s.rng.Uint64()), 100+s.rng.IntN(500))
		if err := os.WriteFile(filepath.Join(s.tree(smallSet), names[i]), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return s.publish(smallSet)
}

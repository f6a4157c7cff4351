package source

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestCat_SRV_01: clients that are slow, greedy or malformed keep nobody else from being
// served, on real sockets.
func TestCat_SRV_01(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MiB, more than socket buffers hold
	_, site := tree(t, map[string]string{"big.bin": string(big), "small.txt": "small"})
	srv := NewServer(NewHandler(HandlerOptions{Dirs: []fs.FS{site}, Now: time.Now}))
	if srv.ReadHeaderTimeout != 10*time.Second || srv.ReadTimeout != 30*time.Second || srv.IdleTimeout != 120*time.Second || srv.MaxHeaderBytes != 64<<10 {
		t.Errorf("limits: got %v, %v, %v, %d", srv.ReadHeaderTimeout, srv.ReadTimeout, srv.IdleTimeout, srv.MaxHeaderBytes)
	}
	srv.ReadHeaderTimeout = 500 * time.Millisecond
	addr := serve(t, srv)

	before := memory()
	var slow []net.Conn
	for i := range 400 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 { // a request that never ends; the others say nothing at all
			fmt.Fprintf(c, "GET /small.txt HTTP/1.1\r\nHost: h.example.org\r\nX-Slow: %d", i)
		}
		slow = append(slow, c)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range 200 {
		if got := fetched(t, client, "http://"+addr+"/small.txt"); got != "small" {
			t.Fatalf("beside slow clients: got %q", got)
		}
	}
	if got := fetched(t, client, "http://"+addr+"/big.bin"); got != string(big) {
		t.Errorf("big file: got %d bytes, want %d", len(got), len(big))
	}
	if grown := memory() - before; grown > 64<<20 {
		t.Errorf("%d slow clients take %d bytes", len(slow), grown)
	}
	for i, c := range slow { // the server cuts each: reading ends
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
		if _, err := io.Copy(io.Discard, c); err != nil && isTimeout(err) {
			t.Fatalf("slow client %d was never cut off", i)
		}
	}
}

// fetched is the body of an answer.
func fetched(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	return body(t, r)
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}

// memory is what the heap holds after a collection, in bytes.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	_, site := tree(t, map[string]string{"small.txt": "small"})
	addr := serve(t, NewServer(NewHandler(HandlerOptions{Dirs: []fs.FS{site}, Now: time.Now})))
	for name, c := range map[string]struct{ request, want string }{
		"80 KiB of header":  {"GET /small.txt HTTP/1.1\r\nHost: h.example.org\r\nX-Bomb: " + strings.Repeat("x", 80<<10) + "\r\n\r\n", "HTTP/1.1 431 "},
		"no request":        {"\x00\x01\x02\r\n\r\n", "HTTP/1.1 400 "},
		"no host":           {"GET /small.txt HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "},
		"two lengths":       {"POST /small.txt HTTP/1.1\r\nHost: h.example.org\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "HTTP/1.1 400 "},
		"HTTP/2 in clear":   {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 "},
		"a body to a GET":   {"GET /small.txt HTTP/1.1\r\nHost: h.example.org\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 200 "},
		"a body to a POST":  {"POST /small.txt HTTP/1.1\r\nHost: h.example.org\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 405 "},
		"thousands of them": {"GET /small.txt HTTP/1.1\r\nHost: h.example.org\r\nConnection: close\r\nRange: bytes=" + strings.Repeat("0-1,", 5000) + "2-3\r\n\r\n", "HTTP/1.1 200 "},
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
		go func() { _, _ = io.WriteString(conn, c.request) }()
		answer := make([]byte, len(c.want))
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != c.want {
			t.Errorf("%s: got %q, %v, want %q", name, answer, err, c.want)
		}
		conn.Close()
	}
}

// TestCat_SRV_04, as far as there is anything: what serves the public tells nothing of
// itself.
func TestCat_SRV_04(t *testing.T) {
	_, site := tree(t, published)
	addr := serve(t, NewServer(NewHandler(HandlerOptions{Dirs: []fs.FS{site}, Now: time.Now})))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, path := range []string{
		"debug/pprof/", "debug/pprof/heap", "debug/vars", "debug/requests", "metrics", "healthz", "readyz", "status", "server-status", "api/", "config",
	} {
		r, err := client.Get("http://" + addr + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		if got := body(t, r); r.StatusCode != http.StatusNotFound || r.Header.Get("Server") != "" || strings.Contains(got, "go") && strings.Contains(got, "routine") {
			t.Errorf("%s: got %d %v %q", path, r.StatusCode, r.Header, got)
		}
		r.Body.Close()
	}
}

// remote is a connection from an address.
type remote struct {
	net.Conn
	addr   net.Addr
	closed bool
}

func (c *remote) RemoteAddr() net.Addr { return c.addr }
func (c *remote) Close() error         { c.closed = true; return nil }

func TestConnectionsAreCountedByAddressAndTogether(t *testing.T) {
	l := connLimits{all: 5, one: 2, from: map[netip.Addr]int{}}
	come := func(addr string) *remote {
		c := &remote{addr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 1234))}
		l.changed(c, http.StateNew)
		return c
	}
	leave := func(c *remote) { l.changed(c, http.StateClosed) }
	steps := []struct {
		addr string
		stay bool
	}{
		{"192.0.2.1", true}, {"192.0.2.1", true}, {"192.0.2.1", false}, {"::ffff:192.0.2.1", false}, // IPv4 all the same
		{"2001:db8::1", true},
	}
	var there []*remote
	for _, s := range steps {
		c := come(s.addr)
		if c.closed == s.stay {
			t.Errorf("%s: closed: got %v, want %v", s.addr, c.closed, !s.stay)
		}
		there = append(there, c)
	}
	if c := come("192.0.2.9"); !c.closed {
		t.Error("one too many stays")
	} else {
		leave(c)
	}
	for _, c := range there {
		leave(c)
	}
	for i, stay := range []bool{true, true, false} { // one network
		if c := come(fmt.Sprintf("2001:db8::%d", i)); c.closed == stay {
			t.Errorf("neighbour %d: closed: got %v", i, c.closed)
		} else {
			defer leave(c)
		}
	}
	l.changed(come("127.0.0.1"), http.StateClosed)
	if l.total != 3 || len(l.from) != 1 {
		t.Errorf("left behind: %d of %v", l.total, l.from)
	}
}

func TestProxyOnThisHostIsCountedTogetherOnly(t *testing.T) {
	l := connLimits{all: 5, one: 2, from: map[netip.Addr]int{}}
	for i := range 6 {
		c := &remote{addr: &net.TCPAddr{IP: net.IPv6loopback, Port: i}}
		l.changed(c, http.StateNew)
		if stay := i < 5; c.closed == stay {
			t.Errorf("connection %d: closed: got %v", i, c.closed)
		}
	}
}

// deadlines is a client whose deadlines are seen.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

// TestPacedAnswersHaveDeadlines: one before the answer, and one for each piece of it.
func TestPacedAnswersHaveDeadlines(t *testing.T) {
	now := testStart
	h := Paced(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now = now.Add(time.Minute)
		_, _ = w.Write(make([]byte, 2*chunkBytes+1))
	}), func() time.Time { return now })
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if len(w.set) != 4 || !w.set[0].Equal(testStart.Add(chunkTime)) || !w.set[3].Equal(now.Add(chunkTime)) || w.Body.Len() != 2*chunkBytes+1 {
		t.Errorf("deadlines %v, %d bytes", w.set, w.Body.Len())
	}
}

package fetch_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"instep/fetch"
)

// script answers one request that came over conn. What it returns says whether the
// connection lives on.
type script func(conn net.Conn, r *http.Request) bool

// fakeNet is a network of pipes, for tests with a simulated clock. Every name has
// the same public address.
type fakeNet struct {
	answer script

	mu      sync.Mutex // guards the rest but the waiting itself
	dials   []string
	stopped bool
	wg      sync.WaitGroup
}

func (f *fakeNet) options() fetch.Options {
	return fetch.Options{
		Rand: func() float64 { return 0 },
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		},
		Dial: f.dial,
	}
}

func (f *fakeNet) dial(_ context.Context, _, addr string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials = append(f.dials, addr)
	if f.answer == nil || f.stopped {
		return nil, errors.New("connection refused")
	}
	near, far := net.Pipe()
	f.wg.Go(func() { f.serve(far) })
	return near, nil
}

func (f *fakeNet) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil || !f.answer(conn, r) {
			return
		}
	}
}

// newClient makes a Client that the test closes, and waits for the servers.
func (f *fakeNet) newClient(t *testing.T, o fetch.Options) *fetch.Client {
	t.Helper()
	c, err := fetch.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.stop(c) })
	return c
}

// stop closes the client and waits for the servers. The transport of a client may
// still dial for a request that went over another connection.
func (f *fakeNet) stop(c *fetch.Client) {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	c.Close()
	f.wg.Wait()
}

// write answers with raw bytes.
func write(conn net.Conn, s string) bool {
	_, err := io.WriteString(conn, s)
	return err == nil
}

// read gets a URL and its whole body.
func read(ctx context.Context, c *fetch.Client, uri string) (string, error) {
	resp, err := c.Get(ctx, fetch.Request{URL: uri})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// countingDial counts the bytes that are read from the connections.
type countingDial struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	n    atomic.Int64
}

func (d *countingDial) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, addr)
	return countingConn{conn, &d.n}, err
}

type countingConn struct {
	net.Conn
	n *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

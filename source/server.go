package source

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Limits of the number of connections that a server has at the same time. Further
// connections are closed at once. Connections from loopback addresses are limited only
// by the total, because a proxy on this host serves many clients.
const (
	maxConns    = 4096
	maxConnsOne = 128 // for one IPv4 address, or for one IPv6 network with a prefix of 64 bits
)

// NewServer returns a server for h with limits that suit the public Internet. The caller
// sets Addr, and may set any other field except ConnState. The server has no write
// timeout, because sending a long response may take any time. Instead the handlers of
// this package set a deadline for each piece of a response.
func NewServer(h http.Handler) *http.Server {
	limits := connLimits{all: maxConns, one: maxConnsOne, from: map[netip.Addr]int{}}
	return &http.Server{
		ConnState:         limits.changed,
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    64 << 10,
	}
}

type connLimits struct {
	all, one int // at most

	mu    sync.Mutex // guards the counts
	total int
	from  map[netip.Addr]int
}

// changed is called for each change of a connection's state (http.Server.ConnState).
func (l *connLimits) changed(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if !l.enter(network(c.RemoteAddr())) {
			_ = c.Close() // the server then calls this function again, with StateClosed
		}
	case http.StateClosed, http.StateHijacked:
		l.leave(network(c.RemoteAddr()))
	}
}

// enter counts a new connection. It returns false if there are too many connections, so
// that this one must be closed.
func (l *connLimits) enter(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	l.from[from]++
	return l.total <= l.all && (l.from[from] <= l.one || from.IsLoopback())
}

func (l *connLimits) leave(from netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.from[from]--; l.from[from] == 0 {
		delete(l.from, from)
	}
}

// network returns the address under which a connection is counted. For IPv6 this is the
// address of its /64 network.
func network(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr := tcp.AddrPort().Addr().Unmap()
	if addr.Is6() && !addr.IsLoopback() {
		if p, err := addr.WithZone("").Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}

// A client is disconnected if it reads fewer than chunkBytes in chunkTime (4 KiB/s).
const (
	chunkBytes = 256 << 10
	chunkTime  = 60 * time.Second
)

// Paced returns a handler that answers like h, but disconnects clients that read too
// slowly. For this it sets a deadline for each piece of the answer.
func Paced(h http.Handler, now func() time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(newResponse(w, now), r)
	})
}

// response sends a body in pieces of chunkBytes, and sets a write deadline for each piece.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	now     func() time.Time
	begun   bool
}

func newResponse(w http.ResponseWriter, now func() time.Time) *response {
	out := &response{ResponseWriter: w, control: http.NewResponseController(w), now: now}
	out.extend()
	return out
}

// extend sets a new write deadline, if the connection supports deadlines.
func (w *response) extend() {
	if w.now != nil {
		_ = w.control.SetWriteDeadline(w.now().Add(chunkTime))
	}
}

func (w *response) WriteHeader(status int) {
	w.begun = true
	if status == http.StatusPreconditionFailed { // http.ServeContent has set the length of the file, but this response has no body
		w.Header().Del("Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (n int, err error) {
	w.begun = true
	for len(p) > 0 && err == nil {
		piece := p[:min(len(p), chunkBytes)]
		w.extend()
		var k int
		k, err = w.ResponseWriter.Write(piece)
		n, p = n+k, p[k:]
	}
	return n, err
}

// ReadFrom lets the kernel copy from file to socket (sendfile). The network code does
// this only for an io.LimitedReader of the file itself, so ReadFrom passes an
// io.LimitedReader for each piece.
func (w *response) ReadFrom(r io.Reader) (n int64, err error) {
	w.begun = true
	outer, limited := r.(*io.LimitedReader)
	for {
		piece := &io.LimitedReader{R: r, N: chunkBytes}
		if limited {
			piece = &io.LimitedReader{R: outer.R, N: min(outer.N, chunkBytes)}
		}
		asked := piece.N
		if asked <= 0 {
			return n, nil
		}
		w.extend()
		k, err := io.Copy(w.ResponseWriter, piece)
		n += k
		if limited {
			outer.N -= k
		}
		if err != nil || k < asked {
			return n, err
		}
	}
}

package source

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Connections that a server accepts at a time; more are closed at once. A proxy on this
// host serves many clients, so connections from loopback count only in total.
const (
	maxConns    = 4096
	maxConnsOne = 128 // from one address; of IPv6, one network of 64 bits
)

// NewServer returns a server for h with the limits of a public server; the caller sets Addr
// and any other field except ConnState. A response may take any time as long as it moves:
// NewHandler gives each piece its own deadline.
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

// connLimits counts connections.
type connLimits struct {
	all, one int // at most

	mu    sync.Mutex // guards the counts
	total int
	from  map[netip.Addr]int
}

// changed is the ConnState of a server.
func (l *connLimits) changed(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if !l.enter(network(c.RemoteAddr())) {
			_ = c.Close() // the server finds it closed, and says so here
		}
	case http.StateClosed, http.StateHijacked:
		l.leave(network(c.RemoteAddr()))
	}
}

// enter counts a connection and reports whether it may stay.
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

// network is the address by which a connection is counted; for IPv6 the network.
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

// A client that does not take chunkBytes within chunkTime (4 KiB/s) is cut off.
const (
	chunkBytes = 256 << 10
	chunkTime  = 60 * time.Second
)

// Paced returns a handler that answers as h, and cuts off a client that does not take the
// answer: each piece of it has its own deadline, as those of NewHandler have.
func Paced(h http.Handler, now func() time.Time) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &response{ResponseWriter: w, control: http.NewResponseController(w), now: now}
		out.extend()
		h.ServeHTTP(out, r)
	})
}

// response sends a body in pieces, each with its own deadline.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	now     func() time.Time
	begun   bool
}

// extend moves the write deadline. A writer without deadlines has none to move.
func (w *response) extend() {
	if w.now != nil {
		_ = w.control.SetWriteDeadline(w.now().Add(chunkTime))
	}
}

func (w *response) WriteHeader(status int) {
	w.begun = true
	if status == http.StatusPreconditionFailed { // ServeContent does not say that this answer has no body
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

// ReadFrom keeps the short cut from file to socket (sendfile): the network code looks for
// an io.LimitedReader directly over the file, so the piece is passed on as one.
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

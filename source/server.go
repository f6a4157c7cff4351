package source

import (
	"io"
	"net/http"
	"time"
)

// NewServer returns a server for h with the limits of a public server; Addr, and
// what else the caller wants, is set on it. A response may take as long as it
// likes while it moves: NewHandler gives each piece its own deadline.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    64 << 10,
	}
}

// A client that does not take chunkBytes within chunkTime (4 KiB/s) is cut off.
const (
	chunkBytes = 256 << 10
	chunkTime  = 60 * time.Second
)

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

// ReadFrom keeps the short cut from file to socket: the piece that it passes on is
// an io.LimitedReader directly over the file, which the network code looks for.
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

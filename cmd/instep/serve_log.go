package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Formats of the access log.
const (
	logCommon = "common" // the Common Log Format of web servers
	logJSON   = "json"   // one JSON object per line
)

// accessLog writes a line for each answered request. Each line is one write to a file that is
// open for appending, so other programs may truncate the file or append to it.
type accessLog struct {
	format string
	now    func() time.Time
	failed func(error) // called with the first error of writing the log

	mu     sync.Mutex // guards w and broken
	w      io.WriteCloser
	broken bool
}

func openAccessLog(name, format string, stdout io.Writer, now func() time.Time, failed func(error)) (*accessLog, error) {
	l := &accessLog{format: format, now: now, failed: failed}
	if name == "-" {
		l.w = nopCloser{stdout}
		return l, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open the access log: %w", err)
	}
	l.w = f
	return l, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func (l *accessLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Close()
}

func (l *accessLog) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := l.now()
		counted := &loggedResponse{ResponseWriter: w}
		defer func() { l.write(r, counted, begun) }()
		h.ServeHTTP(counted, r)
	})
}

type accessRecord struct {
	Time      string  `json:"time"`
	Remote    string  `json:"remote"`
	Method    string  `json:"method"`
	URI       string  `json:"uri"`
	Protocol  string  `json:"protocol"`
	Status    int     `json:"status"`
	Bytes     int64   `json:"bytes"` // length of the response body
	Seconds   float64 `json:"seconds"`
	Range     string  `json:"range,omitempty"`
	UserAgent string  `json:"user_agent,omitempty"`
	Referer   string  `json:"referer,omitempty"`
}

func (l *accessLog) write(r *http.Request, w *loggedResponse, begun time.Time) {
	remote, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		remote = r.RemoteAddr
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	var line []byte
	if l.format == logJSON {
		line, err = json.Marshal(accessRecord{
			Time: begun.UTC().Format(time.RFC3339Nano), Remote: remote, Method: r.Method, URI: r.RequestURI, Protocol: r.Proto,
			Status: w.status, Bytes: w.bytes, Seconds: l.now().Sub(begun).Seconds(),
			Range: r.Header.Get("Range"), UserAgent: r.UserAgent(), Referer: r.Referer(),
		})
		line = append(escapeSteering(line), '\n')
	} else {
		line = fmt.Appendf(nil, "%s - - [%s] %+q %d %d\n", remote, begun.Format("02/Jan/2006:15:04:05 -0700"), r.Method+" "+r.RequestURI+" "+r.Proto, w.status, w.bytes)
		err = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		_, err = l.w.Write(line)
	}
	if err != nil && !l.broken {
		l.broken = true
		l.failed(fmt.Errorf("write the access log: %w", err))
	}
}

type loggedResponse struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// Unwrap returns the wrapped writer to http.ResponseController.
func (w *loggedResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *loggedResponse) WriteHeader(status int) {
	if w.status == 0 || w.status < 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *loggedResponse) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// healthPath is the path that monitoring programs request.
const healthPath = "/healthz"

// errReplaced means that the path of a directory no longer leads to the directory that was opened.
var errReplaced = errors.New("replaced or removed")

// healthy returns a handler that answers healthPath with 200 if every directory can be read and
// is still at its path, and with 503 otherwise. If a site has a file at healthPath, it serves the file instead.
func healthy(sites []*site, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != healthPath || r.Method != http.MethodGet && r.Method != http.MethodHead || hasHealthFile(sites) {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		text := "ok\n"
		if err := readableSites(sites); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			text = "a directory that is served can't be read\n"
			if errors.Is(err, errReplaced) {
				text = "a directory that is served was replaced or removed: restart serve\n"
			}
		}
		_, _ = io.WriteString(w, text)
	})
}

func hasHealthFile(sites []*site) bool {
	for _, s := range sites {
		for _, dir := range s.dirs {
			if _, err := fs.Stat(dir, healthPath[1:]); err == nil && s.prefix == "/" {
				return true
			}
		}
	}
	return false
}

func readableSites(sites []*site) error {
	for _, s := range sites {
		for _, root := range s.roots {
			opened, err := root.Stat(".")
			if err != nil {
				return err
			}
			now, err := os.Stat(root.Name())
			if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(opened, now) {
				return errReplaced
			}
			if err != nil {
				return err
			}
			d, err := root.Open(".")
			if err != nil {
				return err
			}
			_, err = d.ReadDir(1)
			_ = d.Close() // nothing was written
			if err != nil && err != io.EOF {
				return err
			}
		}
	}
	return nil
}

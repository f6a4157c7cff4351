package sim

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var fetchFaults = []*Switch{
	someAnswers("stall-header", "FET-01", "no response is sent until the client disconnects", func(c *call, a *answer) {
		a.send = func(http.ResponseWriter) { c.hang() }
	}),
	someAnswers("stall", "FET-01", "half of the body is sent, and then nothing until the client disconnects", func(c *call, a *answer) {
		a.send = func(out http.ResponseWriter) {
			a.sendHeader(out)
			a.sendPart(out, a.size/2)
			c.hang()
		}
	}),
	someAnswers("slow", "FET-01", "a body takes five seconds", func(c *call, a *answer) { c.drip(a, 20, 250*time.Millisecond) }),
	someAnswers("drip", "FET-01", "one byte is sent every second", func(c *call, a *answer) { c.drip(a, a.size, time.Second) }),
	someAnswers("endless", "FET-02", "a body has 1 GiB more than it should have", func(_ *call, a *answer) {
		a.send = func(out http.ResponseWriter) {
			a.headers(out)
			a.sendPart(out, a.size)
			filler := content{key: 1, size: 1 << 30}
			_, _ = io.Copy(out, filler.open()) // the error is ignored: copying ends when the client stops reading
		}
	}),
	someAnswers("header-bomb", "FET-02", "a response header is 1 MiB long", func(_ *call, a *answer) { a.header.Set("X-Bomb", strings.Repeat("x", 1<<20)) }),
	someAnswers("truncate", "FET-03", "a body ends in the middle, before its Content-Length", func(_ *call, a *answer) {
		a.send = func(out http.ResponseWriter) {
			a.sendHeader(out)
			a.sendPart(out, a.size/2)
			panic(http.ErrAbortHandler)
		}
	}),
	someAnswers("close-cut", "FET-03", "the connection ends in the middle of a body without Content-Length", func(_ *call, a *answer) {
		a.sendRaw(func(conn net.Conn) { a.writeRaw(conn, "", a.size/2) })
	}),
	someAnswers("short-length", "FET-03", "Content-Length is half of the length of the body", func(_ *call, a *answer) {
		a.sendRaw(func(conn net.Conn) { a.writeRaw(conn, fmt.Sprintf("Content-Length: %d\r\n", a.size/2), a.size) })
	}),
	someAnswers("reset", "FET-03", "the connection is reset in the middle of a body", func(_ *call, a *answer) {
		a.sendRaw(func(conn net.Conn) {
			a.writeRaw(conn, fmt.Sprintf("Content-Length: %d\r\n", a.size), a.size/2)
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // if SO_LINGER is 0, Close resets the connection
			}
		})
	}),
	someAnswers("redirect-loop", "FET-04", "a redirect points to its own URI", func(c *call, a *answer) {
		a.respondWith(http.StatusFound, "Location", c.r.URL.RequestURI())
	}),
	redirectChain,
	someAnswers("redirect-file", "FET-04", "a redirect points to a file on the client's machine", func(_ *call, a *answer) {
		a.respondWith(http.StatusFound, "Location", "file:///etc/passwd")
	}),
	someAnswers("redirect-private", "FET-04", "a redirect points to a private IP address", func(_ *call, a *answer) {
		a.respondWith(http.StatusFound, "Location", metadataAddress)
	}),
	someAnswers("redirect-host", "FET-05", "a redirect points to another host", func(c *call, a *answer) {
		a.respondWith(http.StatusFound, "Location", "http://elsewhere.example.org/"+c.path)
	}),
	someAnswers("gzip-lie", "FET-07", "Content-Encoding is gzip, but the body is not compressed", func(_ *call, a *answer) { a.header.Set("Content-Encoding", "gzip") }),
	allAnswers("wrong-range", "FET-08", "a Range request is answered with a range that begins one byte later", wrongRange),
	allAnswers("ignore-range", "FET-08", "Range requests are ignored", func(c *call, _ *answer) { c.without("Range") }),
	allAnswers("range-change", "FET-08", "a Range request is answered with bytes of another version of the resource", func(c *call, a *answer) {
		if c.r.Header.Get("Range") != "" {
			c.without("If-Range")
			c.replaceVersion(a, 1)
		}
	}),
	allAnswers("lying-304", "FET-09", "conditional requests are answered with 304, even after a change", func(c *call, a *answer) {
		if c.r.Header.Get("If-None-Match") != "" || c.r.Header.Get("If-Modified-Since") != "" {
			tag := a.header.Get("ETag")
			a.respondWith(http.StatusNotModified)
			a.bytes(nil)
			a.header.Set("ETag", tag)
		}
	}),
	allAnswers("etag-lies", "FET-09", "the ETag never changes", func(_ *call, a *answer) { a.header.Set("ETag", `"always"`) }),
	status(http.StatusUnauthorized), status(http.StatusForbidden), status(http.StatusNotFound), status(http.StatusGone),
	status(http.StatusTooManyRequests), status(http.StatusInternalServerError), status(http.StatusServiceUnavailable),
	someAnswers("retry-never", "FET-10", "503 Service Unavailable, with a Retry-After of thirty years", func(_ *call, a *answer) {
		a.respondWith(http.StatusServiceUnavailable, "Retry-After", "946080000")
	}),
	someAnswers("error-page", "FET-10", "requests for resources are answered with an error page and status 200", func(_ *call, a *answer) {
		if a.resource != nil {
			a.html(http.StatusOK, "<!doctype html><title>Error</title><p>Something went wrong.</p>\n")
		}
	}),
	someAnswers("bot-wall", "FET-10", "all requests are answered with a bot check page and status 200", func(_ *call, a *answer) {
		a.html(http.StatusOK, "<!doctype html><title>Just a moment</title><p>Checking that you are no robot.</p>\n")
	}),
}

func status(code int) *Switch {
	name := "http-" + strconv.Itoa(code)
	says := fmt.Sprintf("%d %s", code, http.StatusText(code))
	var headers []string
	switch code {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		headers = []string{"Retry-After", "1"}
		says += ", with a Retry-After of a second"
	case http.StatusUnauthorized:
		headers = []string{"WWW-Authenticate", `Basic realm="simulated"`}
	}
	return someAnswers(name, "FET-10", says, func(_ *call, a *answer) { a.respondWith(code, headers...) })
}

var redirectChain = &Switch{
	Name: "redirect-chain", Rows: "FET-04", Says: "ten redirects lead to the resource or document", Of: Answers, Share: 0.05,
	answer: func(c *call, a *answer) { c.hop(a, 1) },
	route: func(c *call) *answer {
		n, err := strconv.Atoi(c.r.URL.Query().Get("hop"))
		if err != nil || n < 1 || n >= 10 {
			return nil
		}
		a := c.missing()
		c.hop(a, n+1)
		return a
	},
}

func (c *call) hop(a *answer, n int) {
	if hop := c.r.URL.Query().Get("hop"); hop == "" || a.status == http.StatusNotFound {
		a.respondWith(http.StatusFound, "Location", fmt.Sprintf("%s?hop=%d", c.r.URL.EscapedPath(), n))
	}
}

// wrongRange answers a Range request with a range that begins one byte too late.
func wrongRange(c *call, a *answer) {
	var from int64
	if _, err := fmt.Sscanf(c.r.Header.Get("Range"), "bytes=%d-", &from); err != nil || from+1 >= a.size {
		return
	}
	if _, err := a.body.Seek(from+1, io.SeekStart); err != nil {
		return
	}
	a.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from+1, a.size-1, a.size))
	a.status, a.conditional, a.size = http.StatusPartialContent, false, a.size-from-1
}

func (c *call) without(name string) { c.r.Header.Del(name) }

// maxHang bounds the time for which a stalled response keeps its connection open.
const maxHang = 10 * time.Minute

func (c *call) hang() {
	c.wait(maxHang)
	panic(http.ErrAbortHandler)
}

// wait waits for a duration and reports whether the client is still connected.
func (c *call) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.r.Context().Done():
		return false
	case <-t.C:
		return true
	}
}

// drip sends the body in small parts, with a pause before each part.
func (c *call) drip(a *answer, pieces int64, pause time.Duration) {
	a.send = func(out http.ResponseWriter) {
		a.sendHeader(out)
		size := max(a.size/max(pieces, 1), 1)
		for sent := int64(0); sent < a.size && c.wait(pause); sent += size {
			a.sendPart(out, size)
		}
	}
}

// sendHeader sends the status and the header of the response, including Content-Length.
func (a *answer) sendHeader(out http.ResponseWriter) {
	out.Header().Set("Content-Length", fmt.Sprint(a.size))
	a.headers(out)
}

func (a *answer) headers(out http.ResponseWriter) {
	for name, values := range a.header {
		out.Header()[name] = values
	}
	out.WriteHeader(a.status)
}

// sendPart sends the next n bytes of the body without delay.
func (a *answer) sendPart(out http.ResponseWriter, n int64) {
	_, _ = io.CopyN(out, a.body, n) // the error is ignored: the client has disconnected
	_ = http.NewResponseController(out).Flush()
}

// sendRaw sends the response with a function that writes to the connection, and then closes
// the connection.
func (a *answer) sendRaw(write func(net.Conn)) {
	a.send = func(out http.ResponseWriter) {
		conn, _, err := http.NewResponseController(out).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler) // Hijack fails for HTTP/2, where other requests share the connection
		}
		defer conn.Close()
		write(conn)
	}
}

// writeRaw writes the response to a connection, with only the first n bytes of the body.
func (a *answer) writeRaw(conn net.Conn, headers string, n int64) {
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nConnection: close\r\n%s\r\n",
		a.status, http.StatusText(a.status), a.header.Get("Content-Type"), headers)
	_, _ = io.CopyN(conn, a.body, n) // the error is ignored: the client has disconnected
}

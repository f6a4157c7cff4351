package sim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"instep/blob"
	"instep/internal/mediatype"
	"instep/source"
)

// TruthPath is the path of a CSV list of the Source's resources, as they are now, or as
// they were at the time in the query parameter "at" (RFC 3339). Only clients on this
// machine can get the list, and no switch affects it.
const TruthPath = "/.sim/truth"

type wire struct {
	s        *Source
	prefix   string // the path of the base URL, which ends in "/"
	on       atomic.Pointer[[]Switched]
	rewrites chan struct{} // a semaphore that limits the requests that hold a document in memory
	calls    atomic.Uint64
	stale    staleDocuments

	overrides atomic.Pointer[map[string]Override]
	clock     clock
	skew      *Switch                // the switch that writes the times of the wrong clock into documents; it stays on when the clock is right again
	observe   func(*call, *document) // called with each served document, and with the manifest of each served package; nil outside of tests
}

func (w *wire) open(s *Source) error {
	base, err := source.ParseBaseURL(s.o.BaseURL)
	if err == nil && base != s.o.BaseURL {
		err = fmt.Errorf("base URL %q: expected the form %q", s.o.BaseURL, base)
	}
	if err != nil {
		return err
	}
	u, err := url.Parse(base)
	if err != nil {
		return err
	}
	w.s, w.prefix, w.skew = s, u.Path, w.clock.rewrite()
	s.Switch(s.o.Switches...)
	s.Override(nil)
	w.rewrites = make(chan struct{}, 2)
	w.stale.kept = map[string]keptDocument{}
	return nil
}

// Switch turns the given switches on, and all others off, from the next request on.
func (s *Source) Switch(on ...Switched) {
	var wrong shift
	for _, sw := range on {
		wrong.years, wrong.by = wrong.years+sw.clock.years, wrong.by+sw.clock.by
	}
	s.wire.clock.addTurn(s.o.Model.Now(), wrong)
	s.wire.on.Store(&on)
}

type call struct {
	*wire
	switches []Switched
	r        *http.Request
	path     string     // the path of the request below the base URL
	now      time.Time  // the time of the simulated clock
	luck     *rand.Rand // the source of random numbers for this request only
}

func (c *call) base() string { return c.s.o.BaseURL }

type answer struct {
	status int
	header http.Header
	body   io.ReadSeeker
	size   int64

	document    bool                      // whether the body is an XML document of the publication
	resource    *Resource                 // the resource whose bytes are the body; nil if the body has none
	generation  *generation               // the generation of the document in the body; nil for any other body
	conditional bool                      // whether the response depends on the Range header and the conditional headers of the request
	send        func(http.ResponseWriter) // sends the whole response; nil if net/http sends it
}

func (s *Source) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	c := s.wire.begin(r)
	out.Header().Set("Date", c.now.UTC().Format(http.TimeFormat)) // set here, because net/http would add a Date with the real time
	if r.URL.Path == TruthPath {
		c.truth(out)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		out.Header().Set("Allow", "GET, HEAD")
		http.Error(out, "only GET and HEAD are answered here", http.StatusMethodNotAllowed)
		return
	}
	a, err := c.answer()
	if err != nil {
		http.Error(out, "the simulated Source failed: "+err.Error(), http.StatusInternalServerError)
		return
	}
	a.write(out, r)
}

func (w *wire) begin(r *http.Request) *call {
	n := w.calls.Add(1)
	c := &call{wire: w, switches: *w.on.Load(), r: r, now: w.clock.shows(w.s.o.Model.Now()), luck: rand.New(rand.NewPCG(w.s.o.Model.cfg.Seed, n))}
	if !w.clock.isRight() {
		c.switches = append([]Switched{{w.skew, 1}}, c.switches...)
	}
	for _, sw := range c.switches {
		if sw.inbound != nil {
			sw.inbound(c)
		}
	}
	c.path = strings.TrimPrefix(c.r.URL.Path, w.prefix)
	return c
}

func (c *call) truth(out http.ResponseWriter) {
	host, _, err := net.SplitHostPort(c.r.RemoteAddr)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		http.Error(out, "the list of resources is sent only to loopback addresses", http.StatusForbidden)
		return
	}
	at := c.s.o.Model.Now()
	if text := c.r.URL.Query().Get("at"); text != "" {
		if at, err = time.Parse(time.RFC3339Nano, text); err != nil {
			http.Error(out, fmt.Sprintf("at=%q: expected a time such as 2026-01-31T12:00:00Z", text), http.StatusBadRequest)
			return
		}
	}
	t, err := c.s.o.Model.TruthAt(at)
	if err != nil {
		http.Error(out, err.Error(), http.StatusNotFound)
		return
	}
	out.Header().Set("Content-Type", "text/csv; charset=utf-8")
	if err := t.WriteCSV(c.r.Context(), out, c.base()); err != nil {
		panic(http.ErrAbortHandler) // breaks the connection, since the status 200 was sent already
	}
}

// Truth writes the present resources as CSV: uri, length, sha256.
func (s *Source) Truth(ctx context.Context, w io.Writer) error {
	t, err := s.o.Model.TruthAt(s.o.Model.Now())
	if err != nil {
		return err
	}
	return t.WriteCSV(ctx, w, s.o.BaseURL)
}

func (c *call) answer() (*answer, error) {
	a, err := c.unchanged()
	if err != nil {
		return nil, err
	}
	if err := c.rewrite(a); err != nil {
		return nil, err
	}
	if c.observe != nil && strings.HasSuffix(c.path, ".zip") && a.status == http.StatusOK {
		if err := c.observePackage(); err != nil {
			return nil, err
		}
	}
	for _, sw := range c.switches {
		if sw.answer != nil && sw.hits(c) {
			sw.answer(c, a)
		}
	}
	return a, nil
}

// unchanged returns the response to which the faults are then applied. If a path exists
// only because of a fault, that fault provides the response.
func (c *call) unchanged() (*answer, error) {
	for _, sw := range c.switches {
		if sw.route != nil {
			if a := sw.route(c); a != nil {
				return a, nil
			}
		}
	}
	if r, ok := c.s.o.Model.Find(c.path); ok {
		return c.resource(&r), nil
	}
	switch c.path {
	case "", "index.html":
		return c.page("text/html", c.home()), nil
	case "robots.txt":
		return c.page("text/plain", c.robots()), nil
	}
	return c.published()
}

func (c *call) resource(r *Resource) *answer {
	a := newAnswer(r.Type, r.Open(), r.Length)
	a.resource = r
	a.header.Set("ETag", fmt.Sprintf(`"%x"`, r.SHA256[:12]))
	a.header.Set("Last-Modified", c.clock.shownAt(r.Changed).Format(http.TimeFormat))
	a.header.Set("Link", fmt.Sprintf("<%s>; rel=%q", source.CapabilityListURI(c.base(), c.s.setOf(r)), "resourcesync"))
	return a
}

func (s *Source) setOf(r *Resource) string { return s.sets[int(r.ID)%len(s.sets)].name }

func newAnswer(mediaType string, body io.ReadSeeker, size int64) *answer {
	a := &answer{status: http.StatusOK, header: http.Header{}, body: body, size: size, conditional: true}
	a.header.Set("Content-Type", mediaType)
	return a
}

func (c *call) page(mediaType, text string) *answer {
	return newAnswer(mediaType+"; charset=utf-8", strings.NewReader(text), int64(len(text)))
}

func (c *call) missing() *answer {
	a := c.page("text/plain", "nothing is published here\n")
	a.status, a.conditional = http.StatusNotFound, false
	return a
}

// maxNamed is the largest number of sets that the home page and robots.txt name.
const maxNamed = 100

// home returns an HTML page with links to the Capability List of each set (1.1 §6.3.3).
func (c *call) home() string {
	var links strings.Builder
	for _, set := range c.s.sets[:min(len(c.s.sets), maxNamed)] {
		fmt.Fprintf(&links, "<link rel=\"resourcesync\" href=\"%s\">\n", html.EscapeString(source.CapabilityListURI(c.base(), set.name)))
	}
	return fmt.Sprintf("<!doctype html>\n<html lang=\"en\"><head><title>A simulated Source</title>\n%s</head>\n"+
		"<body><h1>A simulated Source</h1>\n<p>%d resources that change.</p></body></html>\n", &links, c.s.o.Model.Len())
}

// robots returns a robots.txt that names the Resource Lists (1.1 §6.3.4).
func (c *call) robots() string {
	text := "User-agent: *\nAllow: /\n"
	for _, set := range c.s.sets[:min(len(c.s.sets), maxNamed)] {
		dir := strings.TrimSuffix(source.CapabilityListURI(c.base(), set.name), "capabilitylist.xml")
		text += "Sitemap: " + dir + "resourcelist.xml\n"
	}
	return text
}

func (c *call) published() (*answer, error) {
	if a := c.fromCache(); a != nil {
		return a, nil
	}
	if a := c.refusal(); a != nil {
		return a, nil
	}
	ctx := c.r.Context()
	info, err := c.s.o.Bucket.Stat(ctx, c.path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, blob.ErrKey) {
		return c.missing(), nil
	}
	if err != nil {
		return nil, err
	}
	mediaType := mediaTypeOf(c.path)
	a := newAnswer(mediaType, &object{ctx: ctx, bucket: c.s.o.Bucket, key: c.path, size: info.Size}, info.Size)
	a.document = mediaType == xmlType
	d, ours, err := c.s.journal.Document(ctx, c.path)
	if err != nil {
		return nil, err
	}
	if ours {
		a.header.Set("ETag", fmt.Sprintf(`"%x"`, d.SHA256[:12]))
		a.header.Set("Last-Modified", c.clock.shownAt(c.s.journal.writtenAt(c.path)).Format(http.TimeFormat))
		a.generation = c.s.past.find(c.path, d.SHA256)
	}
	a.header.Set("Cache-Control", "no-cache")
	return a, nil
}

const xmlType = "application/xml"

func mediaTypeOf(key string) string {
	if t := mediatype.ByName(key); t != "" {
		return t
	}
	return xmlType // for the well-known URI, which has no extension
}

// maxContent is the largest response body that is read into memory to be changed.
const maxContent = 8 << 20

// content returns false if the body cannot be changed, because it is too large.
func (a *answer) content() ([]byte, bool) {
	if a.size > maxContent {
		return nil, false
	}
	b, err := io.ReadAll(a.body)
	return b, err == nil
}

func (a *answer) bytes(b []byte) {
	sum := sha256.Sum256(b)
	a.body, a.size = bytes.NewReader(b), int64(len(b))
	a.header.Set("ETag", fmt.Sprintf(`"%x"`, sum[:12]))
}

func (a *answer) html(status int, text string) {
	a.status, a.conditional, a.document, a.resource = status, false, false, nil
	a.bytes([]byte(text))
	a.header.Set("Content-Type", "text/html; charset=utf-8")
}

// respondWith replaces the body by the text of the status. The headers are alternating names
// and values.
func (a *answer) respondWith(status int, headers ...string) {
	text := fmt.Sprintf("%d %s\n", status, http.StatusText(status))
	a.html(status, text)
	a.header.Set("Content-Type", "text/plain; charset=utf-8")
	for i := 0; i+1 < len(headers); i += 2 {
		a.header.Set(headers[i], headers[i+1])
	}
}

func (a *answer) write(out http.ResponseWriter, r *http.Request) {
	if c, ok := a.body.(io.Closer); ok {
		defer c.Close()
	}
	if a.send != nil && r.Method == http.MethodGet {
		a.send(out)
		return
	}
	header := out.Header()
	for name, values := range a.header {
		header[name] = values
	}
	if a.conditional {
		http.ServeContent(out, r, "", time.Time{}, a.body)
		return
	}
	header.Set("Content-Length", fmt.Sprint(a.size))
	out.WriteHeader(a.status)
	if r.Method != http.MethodHead {
		_, _ = io.Copy(out, a.body) // the error is ignored: the client has disconnected
	}
}

type object struct {
	ctx    context.Context
	bucket blob.Bucket
	key    string
	size   int64
	off    int64
	open   io.ReadCloser // reads the bytes of the object that begin at off; may be nil
}

func (o *object) Read(p []byte) (int, error) {
	if o.off >= o.size {
		return 0, io.EOF
	}
	if o.open == nil {
		r, _, err := o.bucket.Get(o.ctx, o.key, o.off, o.size-o.off)
		if err != nil {
			return 0, err
		}
		o.open = r
	}
	n, err := o.open.Read(p)
	o.off += int64(n)
	if err != nil {
		_ = o.Close()
	}
	return n, err
}

// Close does not prevent further reads: Read opens the object again.
func (o *object) Close() error {
	open := o.open
	o.open = nil
	if open == nil {
		return nil
	}
	return open.Close()
}

func (o *object) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += o.off
	case io.SeekEnd:
		offset += o.size
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek in %q: offset %d is negative", o.key, offset)
	}
	if err := o.Close(); err != nil {
		return 0, err
	}
	o.off = offset
	return offset, nil
}

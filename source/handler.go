package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"instep/internal/mediatype"
	"instep/resourcesync"
)

// HandlerOptions configures NewHandler. Only Dirs is required.
type HandlerOptions struct {
	// Dirs are laid over each other: the first that has a path answers. Each is an os.Root,
	// which never leads out of its directory. Names that are not UTF-8 can be requested
	// too, which os.Root.FS does not support.
	Dirs []fs.FS
	// Prefix is the path of the base URL, see PublicationInfo.Prefix; "" is "/".
	Prefix string
	// Sets are the sets that are published here, and which resources each has; nil:
	// those that the Source Description names, each with every resource.
	Sets []ServedSet
	// Label returns how a path is to be sent, where its name and content do not show that;
	// nil is none.
	Label func(path string) Label
	// Representations returns the paths of the files that may be representations of a generic
	// URI, given by its path, the preferred ones first (1.1 §14.3). It is asked where no file is
	// at a path; nil: there are no generic URIs.
	Representations func(path string) []string
	// Hidden are slash-separated paths that are never served, with all below them,
	// such as a state directory that lies inside a served one.
	Hidden []string
	// Now gives the time for write deadlines; nil sets none.
	Now func() time.Time
	// Report is called with each internal error of the handler; nil discards it.
	Report func(error)
}

// ServedSet has the properties of a set that serving its resources needs.
type ServedSet struct {
	Name   string                 // "" is the default set
	Covers func(path string) bool // nil: it has every resource
}

// Label is how the bytes of a resource are sent.
type Label struct {
	Type     string // media type; "" is by name and content
	Encoding string // Content-Encoding that the bytes have as they lie there, such as "gzip"; "" is none
	// Links go with the answer, as far as there is room. Their hrefs are URIs.
	Links []resourcesync.Link
}

// contentPolicy is the Content-Security-Policy of content of any origin: no scripts, forms
// or frames, no access to our origin or to other hosts. Pictures, sound and style from the
// same site still work, so a plain static page looks as it should.
const contentPolicy = "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'"

const (
	cacheForever = "public, max-age=31536000, immutable"
	cacheNever   = "no-cache" // may be kept, must be asked for again
)

// maxRanges is how many ranges of one request are honoured; a request for more is
// answered with the whole.
const maxRanges = 16

// NewHandler serves a published site read-only: GET and HEAD of regular files, whole, by
// range or conditionally. A resource links to the Capability Lists of its sets (1.1
// §6.3.3), a file whose Label has an encoding is sent as it is stored, whatever the request
// accepts, and /robots.txt names the plain sitemaps if there is no such file (1.1 §6.3.4).
// The base URL and the root of the host lead to the page about the Source if there is no
// index.html. All other paths (directories without index.html, names that begin with a dot
// except /.well-known/resourcesync, Hidden, special files, paths that try to climb) are
// 404. A large file takes no more memory than a small one.
//
// With a Prefix, /.well-known/resourcesync of the host is answered with the Source
// Description too, since readers look there first (1.1 §6.3.2). The caller has to route
// that path to this handler.
func NewHandler(o HandlerOptions) http.Handler { return newHandler(o) }

func newHandler(o HandlerOptions) *handler {
	if o.Prefix == "" {
		o.Prefix = "/"
	}
	if o.Report == nil {
		o.Report = func(error) {}
	}
	return &handler{o: o}
}

type handler struct {
	o HandlerOptions

	mu   sync.Mutex // guards site
	site siteInfo
}

// published returns the present publication. A read error is reported once.
func (h *handler) published() Published {
	now := stamps(h.o.Dirs)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.site.stamp != now {
		h.site.stamp = now
		h.site.published, h.site.err = ReadPublished(h.o.Dirs)
		if err := h.site.err; err != nil && !errors.Is(err, fs.ErrNotExist) {
			h.o.Report(err)
		}
	}
	return h.site.published
}

// sitemaps are the lines of robots.txt. Sitemaps come and go without a change of what
// published remembers, and few ask for them.
func (h *handler) sitemaps() string {
	p, err := ReadPublished(h.o.Dirs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.o.Report(err)
	}
	return p.Sitemaps()
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, func(*response) bool { return false })
}

// answer answers a request, unless first has already answered.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, first func(*response) bool) {
	out := &response{ResponseWriter: w, control: http.NewResponseController(w), now: h.o.Now}
	out.extend()
	defer func() {
		if cause := recover(); cause != nil {
			h.panicked(out, r, cause)
		}
	}()
	header := out.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", contentPolicy)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(out, "only GET and HEAD are answered here", http.StatusMethodNotAllowed)
		return
	}
	if first(out) {
		return
	}
	name, ok := h.name(r.URL)
	switch {
	case r.URL.Path == "/"+robotsName && !(ok && exists(h.o.Dirs, name)):
		robots(out, r, h.sitemaps())
	case h.front(r.URL.Path) && !(ok && exists(h.o.Dirs, name)) && exists(h.o.Dirs, aboutKey):
		out.Header().Set("Cache-Control", cacheNever)
		http.Redirect(out, r, h.pathOf(aboutKey), http.StatusFound)
	case !ok:
		notFound(out)
	default:
		h.serve(out, r, name)
	}
}

func notFound(w http.ResponseWriter) {
	http.Error(w, "404: no such file in this collection", http.StatusNotFound)
}

// front reports whether a path is where people begin: the root of the host or the base URL.
func (h *handler) front(urlPath string) bool {
	return urlPath == "/" || strings.TrimSuffix(urlPath, "/")+"/" == h.o.Prefix
}

// panicked ends a request whose handler panicked, and sends no details.
func (h *handler) panicked(w *response, r *http.Request, cause any) {
	if cause == http.ErrAbortHandler {
		panic(cause)
	}
	h.o.Report(fmt.Errorf("serving %q: panic: %v", r.URL.Path, cause))
	if w.begun {
		panic(http.ErrAbortHandler) // a part has been sent: only a broken connection shows the client that it failed
	}
	http.Error(w, "something went wrong", http.StatusInternalServerError)
}

// name returns the path that a URL asks for, below the prefix and without
// anything that could lead elsewhere. At the well-known name of the host the Source
// Description answers, also if the prefix is another.
func (h *handler) name(u *url.URL) (string, bool) {
	if u.Path == "/"+wellKnownKey && h.o.Prefix != "/" {
		return descriptionKey, true
	}
	escaped := strings.ToLower(u.EscapedPath())
	if strings.Contains(escaped, "%2f") || strings.Contains(escaped, "%00") {
		return "", false
	}
	name, ok := strings.CutPrefix(u.Path, h.o.Prefix)
	if !ok {
		return "", false
	}
	if name == "" || strings.HasSuffix(name, "/") {
		name += "index.html"
	}
	if !plain(name) || h.hidden(name) {
		return "", false
	}
	return name, true
}

// plain reports whether a path goes straight down. Unlike for fs.ValidPath its names
// need not be UTF-8: files of old archives are not.
func plain(name string) bool {
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// hidden reports whether a path is none of the public's business.
func (h *handler) hidden(name string) bool {
	if name == wellKnownKey {
		return false
	}
	for segment := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '/' || r == filepath.Separator }) {
		if strings.HasPrefix(segment, ".") {
			return true
		}
	}
	for _, dir := range h.o.Hidden {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

func (h *handler) serve(w *response, r *http.Request, name string) {
	if h.o.Representations == nil || exists(h.o.Dirs, name) || !h.negotiate(w, r, name) {
		h.send(w, r, name, "")
	}
}

// send sends a file; variant is "" or distinguishes its ETag from that of other files at the
// same URI.
func (h *handler) send(w *response, r *http.Request, name, variant string) {
	f, info, err := h.open(name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			h.o.Report(fmt.Errorf("serving %q: %w", name, err))
		}
		notFound(w)
		return
	}
	defer f.Close()
	body, ok := f.(io.ReadSeeker)
	if !ok {
		h.o.Report(fmt.Errorf("serving %q: the file can't be read from a given place", name))
		notFound(w)
		return
	}
	label := h.label(name)
	if label.Type == "" {
		if label.Type, err = typeOf(name, body); err != nil {
			h.o.Report(fmt.Errorf("serving %q: %w", name, err))
			http.Error(w, "the file can't be read", http.StatusInternalServerError)
			return
		}
	}
	header := w.Header()
	header.Set("Content-Type", label.Type)
	if label.Encoding != "" {
		header.Set("Content-Encoding", label.Encoding)
		header.Add("Vary", "Accept-Encoding")
		// ServeContent leaves the length of encoded bytes to its caller.
		header.Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	}
	header.Set("Cache-Control", cacheNever)
	if Immutable(name) {
		header.Set("Cache-Control", cacheForever)
	}
	header.Set("ETag", etag(info, variant))
	h.link(header, name)
	for _, l := range label.Links {
		if len(header["Link"]) < maxLinks {
			header.Add("Link", linkHeader(&l))
		}
	}
	http.ServeContent(w, limitRanges(r), "", info.ModTime(), body)
}

// open returns the regular file at name in the first directory that has one.
func (h *handler) open(name string) (fs.File, fs.FileInfo, error) {
	var failed error
	for _, dir := range h.o.Dirs {
		f, info, err := openRegular(dir, name)
		if err == nil {
			return f, info, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	if failed == nil {
		failed = fs.ErrNotExist
	}
	return nil, nil, failed
}

// openRegular opens a regular file; anything else is fs.ErrNotExist. It looks
// before it opens, for to open a FIFO is to wait, and again after.
func openRegular(dir fs.FS, name string) (fs.File, fs.FileInfo, error) {
	info, err := fs.Stat(dir, name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fs.ErrNotExist
	}
	f, err := dir.Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err = f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// typeOf is the media type that the Resource List gives too: by name, then by content.
func typeOf(name string, body io.ReadSeeker) (string, error) {
	if name == wellKnownKey {
		return "application/xml", nil
	}
	if t := mediatype.ByName(name); t != "" {
		return t, nil
	}
	prefix, err := io.ReadAll(io.LimitReader(body, mediatype.PrefixSize))
	if err != nil {
		return "", err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	return mediatype.Sniff(prefix), nil
}

// etag is a strong validator: files are replaced or rewritten with a new time.
func etag(info fs.FileInfo, variant string) string {
	return `"` + strconv.FormatInt(info.ModTime().UnixNano(), 36) + "-" + strconv.FormatInt(info.Size(), 36) + variant + `"`
}

// label returns what is known about a resource. Our own documents need no look-up.
func (h *handler) label(name string) Label {
	if h.o.Label == nil || ofPublication(name) {
		return Label{}
	}
	return h.o.Label(name)
}

// ofPublication reports whether a path is one of our own documents: no resource of a set.
func ofPublication(name string) bool { return strings.HasPrefix(name, root) || name == wellKnownKey }

// maxLinks is how many links one answer has.
const maxLinks = 16

// link names the Capability Lists that cover a resource (1.1 §6.3.3), as far as they exist
// here.
func (h *handler) link(header http.Header, name string) {
	if ofPublication(name) {
		return
	}
	for _, s := range h.sets() {
		list := layout{set: s.Name}.capabilityList()
		if s.Covers != nil && !s.Covers(name) || !exists(h.o.Dirs, list) {
			continue
		}
		to := url.URL{Path: path.Join(h.o.Prefix, list)}
		header.Add("Link", "<"+to.EscapedPath()+`>; rel="resourcesync"`)
		if len(header["Link"]) == maxLinks {
			return
		}
	}
}

// linkHeader is a link as a header field has it (RFC 8288 §3).
func linkHeader(l *resourcesync.Link) string {
	text := "<" + l.Href + `>; rel="` + l.Rel + `"`
	if l.Type != "" {
		text += `; type="` + l.Type + `"`
	}
	return text
}

// sets returns the sets that a resource may be in: known sets, described sets, or the
// default set.
func (h *handler) sets() []ServedSet {
	if h.o.Sets != nil {
		return h.o.Sets
	}
	var sets []ServedSet
	for _, s := range h.published().Sets {
		sets = append(sets, ServedSet{Name: s.Name})
	}
	if len(sets) == 0 {
		return []ServedSet{{}}
	}
	return sets
}

// robotsName is where crawlers look, at the root of the host.
const robotsName = "robots.txt"

// robots answers for a missing robots.txt. It is for search engines: programs for
// ResourceSync follow the Link of any resource.
func robots(w http.ResponseWriter, r *http.Request, lines string) {
	if lines == "" {
		notFound(w)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", cacheNever)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader("User-agent: *\nAllow: /\n\n"+lines))
}

// limitRanges takes the Range header off a request that asks for too many.
func limitRanges(r *http.Request) *http.Request {
	if strings.Count(r.Header.Get("Range"), ",") < maxRanges {
		return r
	}
	whole := new(http.Request)
	*whole = *r
	whole.Header = r.Header.Clone()
	whole.Header.Del("Range")
	return whole
}

package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
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
	// Dirs are the directories to serve. A file is served from the first directory that has
	// it. An FS should refuse symbolic links that lead out of its directory. Unlike in
	// os.Root.FS, file names need not be UTF-8.
	Dirs []fs.FS
	// Prefix is the path of the base URL, see PublicationInfo.Prefix; "" means "/".
	Prefix string
	// Sets are the sets published here, each with the resources that it covers. If nil,
	// they are the sets in the Source Description, and each covers every resource.
	Sets []ServedSet
	// Label returns the Label of the file at a path: properties that its name and content
	// do not show. If the function is nil, no file has a Label.
	Label func(path string) Label
	// Representations returns the paths of the files that may represent the generic URI
	// with the given path, preferred ones first (1.1 §14.3). It is called only if no
	// file exists at that path. If nil, there are no generic URIs.
	Representations func(path string) []string
	// Hidden are slash-separated paths that are not served, for example that of a state
	// directory inside a served directory. Nothing below them is served either.
	Hidden []string
	// Now returns the current time for write deadlines; if nil, there are no deadlines.
	Now func() time.Time
	// Report is called with each internal error of the handler; nil discards it.
	Report func(error)
}

// ServedSet is a set and the resources that are in it.
type ServedSet struct {
	Name   string                 // the name of the set; "" for the default set
	Covers func(path string) bool // reports whether the set has the resource at a path; if nil, the set has every resource
}

// Label describes how to send the bytes of a resource.
type Label struct {
	Type     string // the media type; if empty, the name and content of the file determine it
	Encoding string // the Content-Encoding of the stored bytes, such as "gzip"; "" if they are not encoded
	// Links are sent as Link headers, up to a limit. Their hrefs are URIs.
	Links []resourcesync.Link
}

// contentPolicy is the Content-Security-Policy of everything that is served. It forbids
// scripts, forms, frames, and access to other hosts. It allows pictures, sound and
// styles of the same site, so that plain static pages look right.
const contentPolicy = "sandbox; default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'"

const (
	cacheForever = "public, max-age=31536000, immutable"
	cacheNever   = "no-cache" // clients may cache the response, but must revalidate it
)

// maxRanges is the largest number of byte ranges in a request. If a request has more,
// the handler sends the whole file.
const maxRanges = 16

// NewHandler serves a published site read-only: GET and HEAD of regular files, with
// byte ranges and conditional requests.
//
// The response for a resource has Link headers to the Capability Lists of its sets (1.1
// §6.3.3). A file whose Label has an encoding is sent as it is stored, whatever the
// request accepts. If there is no /robots.txt, the handler writes one that names the
// plain sitemaps (1.1 §6.3.4). If there is no index.html, the base URL and the root of
// the host redirect to the page about the Source. All other requests get 404: for
// directories without index.html, names that begin with a dot except
// /.well-known/resourcesync, Hidden paths, special files and paths that try to leave the
// directory. Memory use does not depend on the size of a file.
//
// With a Prefix, the handler also answers /.well-known/resourcesync of the host with
// the Source Description, since readers look there first (1.1 §6.3.2). The caller has
// to route that path to this handler.
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

// published returns the publication that is served now. It reads the documents again only
// after a change, and therefore reports a read error only once.
func (h *handler) published() Published {
	now := stamps(h.o.Dirs)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.site.stamp != now {
		h.site = siteInfo{now, h.readPublished()}
	}
	return h.site.published
}

// sitemaps returns the Sitemap lines for robots.txt. It reads the publication again instead
// of using the cache. The cache is renewed only when the Source Description has changed, but
// the Sitemaps can change alone.
func (h *handler) sitemaps() string {
	return h.readPublished().Sitemaps()
}

func (h *handler) readPublished() Published {
	p, err := ReadPublished(h.o.Dirs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.o.Report(err)
	}
	return p
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.answer(w, r, func(*response) bool { return false })
}

// answer answers a request. It calls answerFirst before it looks for a file; if answerFirst
// returns true, the request was answered.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, answerFirst func(*response) bool) {
	out := newResponse(w, h.o.Now)
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
	if answerFirst(out) {
		return
	}
	name, ok := h.fileName(r.URL)
	switch {
	case r.URL.Path == "/"+robotsName && !(ok && exists(h.o.Dirs, name)):
		robots(out, r, h.sitemaps())
	case h.isEntryPage(r.URL.Path) && !(ok && exists(h.o.Dirs, name)) && exists(h.o.Dirs, aboutKey):
		out.Header().Set("Cache-Control", cacheNever)
		http.Redirect(out, r, h.pathOf(aboutKey), http.StatusFound)
	case !ok:
		notFound(out)
	case h.o.Representations == nil || exists(h.o.Dirs, name) || !h.negotiate(out, r, name):
		h.send(out, r, name, "")
	}
}

func notFound(w http.ResponseWriter) {
	http.Error(w, "404: no such file in this collection", http.StatusNotFound)
}

// isEntryPage reports whether a URL path is the root of the host or the base URL.
func (h *handler) isEntryPage(urlPath string) bool {
	return urlPath == "/" || strings.TrimSuffix(urlPath, "/")+"/" == h.o.Prefix
}

// panicked ends a request whose handler panicked. It reports the cause, but does not send
// it to the client.
func (h *handler) panicked(w *response, r *http.Request, cause any) {
	if cause == http.ErrAbortHandler {
		panic(cause)
	}
	h.o.Report(fmt.Errorf("serving %q: panic: %v", r.URL.Path, cause))
	if w.begun {
		panic(http.ErrAbortHandler) // A part of the response has been sent, so only a broken connection shows the failure to the client.
	}
	http.Error(w, "something went wrong", http.StatusInternalServerError)
}

// fileName returns the path of the file at a URL. It returns false if the URL is not below
// the prefix, is hidden, or has elements that could lead out of the directory. The
// well-known URI of the host stands for the Source Description, even if it is not below the
// prefix.
func (h *handler) fileName(u *url.URL) (string, bool) {
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
	if !isPlainPath(name) || h.isHidden(name) {
		return "", false
	}
	return name, true
}

// isPlainPath reports whether a path has no empty, "." or ".." elements. Unlike
// fs.ValidPath it accepts names that are not UTF-8, which old archives contain.
func isPlainPath(name string) bool {
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

func (h *handler) isHidden(name string) bool {
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

// send sends a file. variant distinguishes representations of one URI: if it is not
// empty it becomes part of the ETag.
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
		h.o.Report(fmt.Errorf("serving %q: the file cannot seek", name))
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
		// http.ServeContent sets no Content-Length if there is a Content-Encoding.
		header.Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	}
	header.Set("Cache-Control", cacheNever)
	if Immutable(name) {
		header.Set("Cache-Control", cacheForever)
	}
	header.Set("ETag", etag(info, variant))
	h.addLinks(header, name)
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

// openRegular opens a regular file and returns fs.ErrNotExist for anything else. It checks
// the type of the file before opening it, because opening a FIFO blocks, and again
// afterwards.
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

// typeOf returns the media type of a file by its name, or by its content if the name
// does not show it. The Resource List states the same type.
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

// etag returns a strong validator, which consists of the size and the modification time of
// a file. Rewriting the file changes the modification time.
func etag(info fs.FileInfo, variant string) string {
	return `"` + strconv.FormatInt(info.ModTime().UnixNano(), 36) + "-" + strconv.FormatInt(info.Size(), 36) + variant + `"`
}

// label returns the Label of a file. Documents of the publication have no Label.
func (h *handler) label(name string) Label {
	if h.o.Label == nil || isDocument(name) {
		return Label{}
	}
	return h.o.Label(name)
}

func isDocument(name string) bool { return strings.HasPrefix(name, root) || name == wellKnownKey }

// maxLinks is the largest number of Link headers in an answer.
const maxLinks = 16

// addLinks adds a Link header for each Capability List that exists and covers the resource
// (1.1 §6.3.3).
func (h *handler) addLinks(header http.Header, name string) {
	if isDocument(name) {
		return
	}
	for _, s := range h.sets() {
		list := layout{set: s.Name}.capabilityList()
		if s.Covers != nil && !s.Covers(name) || !exists(h.o.Dirs, list) {
			continue
		}
		header.Add("Link", linkHeader(&resourcesync.Link{Rel: "resourcesync", Href: h.pathOf(list)}))
		if len(header["Link"]) == maxLinks {
			return
		}
	}
}

// linkHeader formats a link as the value of a Link header (RFC 8288 §3).
func linkHeader(l *resourcesync.Link) string {
	text := "<" + l.Href + `>; rel="` + l.Rel + `"`
	if l.Type != "" {
		text += `; type="` + l.Type + `"`
	}
	return text
}

// sets returns the sets to which a resource may belong. These are the configured ones,
// or those of the Source Description if none is configured. Without either, there is
// only the default set.
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

const robotsName = "robots.txt"

// robots answers a request for robots.txt if no such file exists. The answer is for
// search engines; ResourceSync clients use the Link header of any resource.
func robots(w http.ResponseWriter, r *http.Request, lines string) {
	if lines == "" {
		notFound(w)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", cacheNever)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader("User-agent: *\nAllow: /\n\n"+lines))
}

// limitRanges returns a request without the Range header if the request has too many
// ranges.
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

package versions

import (
	"bufio"
	"context"
	"iter"
	"net/http"
	"strings"
	"time"

	"instep/internal/memento"
)

// Handler serves the TimeGates and TimeMaps of a Store (1.1 §14.6, RFC 7089). It passes
// all other requests to another handler, which serves a published site. To a response
// with the file of a version it adds the header fields that describe the version. It
// only handles requests with the methods GET and HEAD.
type Handler struct {
	Store  *Store              // the stored versions; if it is nil, the Handler serves no TimeGates and TimeMaps
	Prefix string              // the path of the base URL, which ends in "/"
	URI    func(string) string // a function that returns the URI for a path below the base URL
	Next   http.Handler        // the handler of all other requests, which also sends the files of versions
	Report func(error)         // a function that is called with each internal error
}

// Negotiates reports whether the given URL path is that of a TimeGate or a TimeMap, for
// which the Handler itself responds.
func (h *Handler) Negotiates(path string) bool {
	name, ok := strings.CutPrefix(path, h.Prefix)
	_, gate := h.of(name, TimeGate)
	_, list := h.of(name, TimeMap)
	return ok && (gate || list)
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, h.Prefix)
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Next.ServeHTTP(w, r)
		return
	}
	if of, ok := h.of(name, TimeGate); ok {
		h.timeGate(w, r, of)
		return
	}
	if of, ok := h.of(name, TimeMap); ok {
		h.timeMap(w, r, of)
		return
	}
	if since, of, ok := ParsePlace(name); ok {
		w = &versionWriter{ResponseWriter: w, version: h.version(r.Context(), since, of), links: h.links(of)}
	}
	h.Next.ServeHTTP(w, r)
}

// of returns the path of the resource to which a TimeGate or TimeMap belongs. name is
// the path of the TimeGate or TimeMap: a prefix, and after it the path of the resource
// or its whole URI. Some proxies change "//" in such a URI to "/".
func (h *Handler) of(name, kind string) (string, bool) {
	of, ok := strings.CutPrefix(name, kind)
	if !ok || h.Store == nil {
		return "", false
	}
	base := h.URI("")
	for _, whole := range []string{base, strings.Replace(base, "://", ":/", 1)} {
		if below, ok := strings.CutPrefix(of, whole); ok {
			return below, true
		}
	}
	return of, true
}

// links returns the values of the Link headers of a version or TimeGate, which point to
// the resource, its TimeGate and its TimeMap.
func (h *Handler) links(of string) []string {
	links := []string{"<" + h.URI(of) + `>; rel="original"`}
	if h.Store != nil {
		links = append(links, "<"+h.URI(TimeGate+of)+`>; rel="timegate"`, "<"+h.URI(TimeMap+of)+`>; rel="timemap"; type="`+TimeMapType+`"`)
	}
	return links
}

// version returns the version of a resource that began at the given time. If it is not
// stored, only Path and Since are set.
func (h *Handler) version(ctx context.Context, since time.Time, of string) Version {
	if h.Store != nil {
		if v, err := h.Store.At(ctx, of, since); err == nil && v.Since.Equal(since) {
			return v
		}
	}
	return Version{Path: of, Since: since}
}

// choice is the version that was chosen for a time, together with the versions around
// it.
type choice struct {
	first, last, before, chosen, after *Version // each of these versions is nil if it does not exist
	gone                               bool     // the resource did not exist at the requested time
}

// choose finds the version of a resource at the given time. If the time is before the
// first version, it chooses the first version. If the time is zero, it chooses the last
// one (RFC 7089 §4.5.3).
func (h *Handler) choose(ctx context.Context, of string, at time.Time) (c choice, err error) {
	end := at.Add(time.Second) // a time in an HTTP header has whole seconds only
	for v, err := range h.Store.List(ctx, of) {
		if err != nil {
			return c, err
		}
		begun := at.IsZero() || v.Since.Before(end)
		if v.Deleted {
			c.gone = c.gone || begun && !at.IsZero()
			continue
		}
		if begun || c.first == nil {
			c.before, c.chosen = c.chosen, &v
		} else if c.after == nil {
			c.after = &v
		}
		c.gone = c.gone && !begun
		if c.last = &v; c.first == nil {
			c.first = &v
		}
	}
	return c, nil
}

// timeGate redirects a request to the version at the requested time, or to the last
// version if the request names no time.
func (h *Handler) timeGate(w http.ResponseWriter, r *http.Request, of string) {
	header := w.Header()
	header.Set("Vary", "accept-datetime")
	header.Set("Cache-Control", "no-cache")
	for _, l := range h.links(of) {
		header.Add("Link", l)
	}
	var at time.Time
	if text := r.Header.Get(memento.AcceptDatetime); text != "" {
		var err error
		if at, err = memento.ParseDatetime(text); err != nil {
			http.Error(w, memento.AcceptDatetime+": "+err.Error(), http.StatusBadRequest)
			return
		}
	}
	c, err := h.choose(r.Context(), of, at)
	switch {
	case err != nil:
		h.fail(w, err)
		return
	case c.first == nil:
		http.Error(w, "404: no version of this resource is kept", http.StatusNotFound)
		return
	}
	seen := map[*Version]bool{nil: true}
	for _, v := range []*Version{c.first, c.before, c.chosen, c.after, c.last} {
		if !seen[v] {
			header.Add("Link", h.link(v, &c))
		}
		seen[v] = true
	}
	if c.gone {
		http.Error(w, "404: the resource did not exist at that time", http.StatusNotFound)
		return
	}
	header.Set("Location", h.URI(c.chosen.Place()))
	w.WriteHeader(http.StatusFound)
}

// link returns the value of a Link header that points to a version.
func (h *Handler) link(v *Version, c *choice) string {
	rel := memento.Relation(v.Since.Equal(c.first.Since), v.Since.Equal(c.last.Since))
	if v == c.before {
		rel = "prev " + rel
	}
	if v == c.after {
		rel = "next " + rel
	}
	return "<" + h.URI(v.Place()) + `>; rel="` + rel + `"; datetime="` + memento.FormatDatetime(v.Since) + `"`
}

func (h *Handler) fail(w http.ResponseWriter, err error) {
	h.Report(err)
	http.Error(w, "the versions cannot be read", http.StatusInternalServerError)
}

// timeMap responds with a list of all versions of a resource.
func (h *Handler) timeMap(w http.ResponseWriter, r *http.Request, of string) {
	any := false
	for _, err := range h.mementos(r.Context(), of) {
		if err != nil {
			h.fail(w, err)
			return
		}
		any = true
		break
	}
	if !any {
		http.Error(w, "404: no version of this resource is kept", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", TimeMapType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	out := bufio.NewWriter(w)
	m := memento.TimeMap{Original: h.URI(of), Self: h.URI(TimeMap + of), TimeGate: h.URI(TimeGate + of)}
	err := m.Write(out, h.mementos(r.Context(), of))
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		h.Report(err)
		panic(http.ErrAbortHandler) // breaks the connection on purpose, so that the client notices that the list is not complete
	}
}

func (h *Handler) mementos(ctx context.Context, of string) iter.Seq2[memento.Memento, error] {
	return func(yield func(memento.Memento, error) bool) {
		for v, err := range h.Store.List(ctx, of) {
			if (err != nil || !v.Deleted) && !yield(memento.Memento{URI: h.URI(v.Place()), Datetime: v.Since.Truncate(time.Second)}, err) {
				return
			}
		}
	}
}

// versionWriter adds the header fields that describe a version to the response with the
// bytes of the version.
type versionWriter struct {
	http.ResponseWriter
	version Version
	links   []string
	begun   bool
}

// Unwrap returns the underlying writer, as http.ResponseController requires.
func (w *versionWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *versionWriter) WriteHeader(status int) {
	if !w.begun && status < http.StatusBadRequest {
		header := w.Header()
		header.Set(memento.Datetime, memento.FormatDatetime(w.version.Since))
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
		if w.version.Type != "" {
			header.Set("Content-Type", w.version.Type)
		}
		if w.version.Encoding != "" {
			header.Set("Content-Encoding", w.version.Encoding)
		}
		for _, l := range w.links {
			header.Add("Link", l)
		}
	}
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *versionWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

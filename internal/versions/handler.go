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

// Handler answers GET and HEAD requests for the TimeGates and TimeMaps of a Store (1.1 §14.6,
// RFC 7089). It passes all other requests to the handler Next. When Next sends the file of a
// version, Handler adds the header fields that describe the version.
type Handler struct {
	Store  *Store              // the stored versions; if it is nil, the Handler serves no TimeGates and TimeMaps
	Prefix string              // the path of the base URL, which ends in "/"
	URI    func(string) string // a function that returns the URI for a path below the base URL
	Next   http.Handler        // the handler of requests for anything else; it also sends the files of versions
	Report func(error)         // a function that is called with each internal error
}

// Negotiates reports whether a URL path belongs to a TimeGate or a TimeMap, so that the
// Handler answers the request itself.
func (h *Handler) Negotiates(path string) bool {
	name, ok := strings.CutPrefix(path, h.Prefix)
	_, gate := h.resourcePath(name, TimeGate)
	_, list := h.resourcePath(name, TimeMap)
	return ok && (gate || list)
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, h.Prefix)
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Next.ServeHTTP(w, r)
		return
	}
	if resource, ok := h.resourcePath(name, TimeGate); ok {
		h.timeGate(w, r, resource)
		return
	}
	if resource, ok := h.resourcePath(name, TimeMap); ok {
		h.timeMap(w, r, resource)
		return
	}
	if since, resource, ok := ParsePlace(name); ok {
		w = &versionWriter{ResponseWriter: w, version: h.version(r.Context(), since, resource), links: h.linkHeaders(resource)}
	}
	h.Next.ServeHTTP(w, r)
}

// resourcePath accepts a URL path that ends with the path of the resource, or with its
// whole URI. It also accepts a URI in which a proxy has changed "//" to "/".
func (h *Handler) resourcePath(name, kind string) (string, bool) {
	resource, ok := strings.CutPrefix(name, kind)
	if !ok || h.Store == nil {
		return "", false
	}
	base := h.URI("")
	for _, whole := range []string{base, strings.Replace(base, "://", ":/", 1)} {
		if below, ok := strings.CutPrefix(resource, whole); ok {
			return below, true
		}
	}
	return resource, true
}

func (h *Handler) linkHeaders(resource string) []string {
	links := []string{"<" + h.URI(resource) + `>; rel="original"`}
	if h.Store != nil {
		links = append(links, "<"+h.URI(TimeGate+resource)+`>; rel="timegate"`, "<"+h.URI(TimeMap+resource)+`>; rel="timemap"; type="`+TimeMapType+`"`)
	}
	return links
}

// version returns the stored version that began at the given time. If there is none, it
// returns a Version with only Path and Since.
func (h *Handler) version(ctx context.Context, since time.Time, resource string) Version {
	if h.Store != nil {
		if v, err := h.Store.At(ctx, resource, since); err == nil && v.Since.Equal(since) {
			return v
		}
	}
	return Version{Path: resource, Since: since}
}

// choice is the version that a TimeGate has chosen for a time, with the versions before
// and after it.
type choice struct {
	first, last, before, chosen, after *Version // each of these versions is nil if it does not exist
	gone                               bool     // whether the resource did not exist at the requested time
}

// choose follows RFC 7089 §4.5.3: for a time before the first version it chooses the first
// version, and for the zero time the last version.
func (h *Handler) choose(ctx context.Context, resource string, at time.Time) (c choice, err error) {
	end := at.Add(time.Second) // times in HTTP header fields have whole seconds only, so a version from the same second is included
	for v, err := range h.Store.List(ctx, resource) {
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

func (h *Handler) timeGate(w http.ResponseWriter, r *http.Request, resource string) {
	header := w.Header()
	header.Set("Vary", "accept-datetime")
	header.Set("Cache-Control", "no-cache")
	for _, l := range h.linkHeaders(resource) {
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
	c, err := h.choose(r.Context(), resource, at)
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
			header.Add("Link", h.versionLink(v, &c))
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

func (h *Handler) versionLink(v *Version, c *choice) string {
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

func (h *Handler) timeMap(w http.ResponseWriter, r *http.Request, resource string) {
	any := false
	for _, err := range h.mementos(r.Context(), resource) {
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
	m := memento.TimeMap{Original: h.URI(resource), Self: h.URI(TimeMap + resource), TimeGate: h.URI(TimeGate + resource)}
	err := m.Write(out, h.mementos(r.Context(), resource))
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		h.Report(err)
		panic(http.ErrAbortHandler) // closes the connection, so that the client notices that the list is not complete
	}
}

func (h *Handler) mementos(ctx context.Context, resource string) iter.Seq2[memento.Memento, error] {
	return func(yield func(memento.Memento, error) bool) {
		for v, err := range h.Store.List(ctx, resource) {
			if (err != nil || !v.Deleted) && !yield(memento.Memento{URI: h.URI(v.Place()), Datetime: v.Since.Truncate(time.Second)}, err) {
				return
			}
		}
	}
}

// versionWriter adds the header fields of a version to a response, unless the response is an
// error.
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

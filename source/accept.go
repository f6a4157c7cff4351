package source

import (
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"instep/internal/mediatype"
	"instep/resourcesync"
)

// maxAccept is the largest number of media ranges that are read from a request.
const maxAccept = 100

// representation is a file that represents a generic URI in one media type (1.1 §14.3).
type representation struct{ name, mediaType string }

// negotiate answers a request for a generic URI with the representation that the client
// prefers (RFC 9110 §12.5.1). If the client prefers several representations equally,
// negotiate sends the first of them. It returns false if the URI has no representation.
func (h *handler) negotiate(w *response, r *http.Request, name string) bool {
	all := h.representations(name)
	if len(all) == 0 {
		return false
	}
	header := w.Header()
	header.Add("Vary", "Accept")
	best, most := 0, 0
	ranges := mediaRanges(r.Header.Values("Accept"))
	for i, one := range all {
		header.Add("Link", linkHeader(&resourcesync.Link{Rel: "alternate", Href: h.pathOf(one.name), Type: one.mediaType}))
		if q := quality(ranges, one.mediaType); q > most {
			best, most = i, q
		}
	}
	if most == 0 {
		http.Error(w, "406: no representation has an accepted type; the Link header names the existing representations", http.StatusNotAcceptable)
		return true
	}
	header.Set("Content-Location", h.pathOf(all[best].name))
	h.send(w, r, all[best].name, url.PathEscape(path.Ext(all[best].name)))
	return true
}

func (h *handler) representations(name string) (all []representation) {
	if h.o.Representations == nil || isDocument(name) {
		return nil
	}
	for _, one := range h.o.Representations(name) {
		if !isPlainPath(one) || h.isHidden(one) || !exists(h.o.Dirs, one) {
			continue
		}
		t := h.label(one).Type
		if t == "" {
			t = mediatype.ByName(one)
		}
		if t != "" {
			all = append(all, representation{one, t})
		}
	}
	return all
}

// pathOf returns the URL path, percent-encoded, at which a file is served.
func (h *handler) pathOf(name string) string {
	u := url.URL{Path: path.Join(h.o.Prefix, name)}
	return u.EscapedPath()
}

type mediaRange struct {
	essence string
	quality int // 0 to 1000
}

// mediaRanges parses the values of Accept header fields. It skips invalid elements, and
// ignores the parameters of media types. If no element is valid it returns the range of
// all media types.
func mediaRanges(fields []string) (all []mediaRange) {
	for element := range strings.SplitSeq(strings.Join(fields, ","), ",") {
		t, parameters, err := mime.ParseMediaType(element)
		if err != nil || !strings.Contains(t, "/") {
			continue
		}
		q := 1.0
		if text, ok := parameters["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil || !(q >= 0 && q <= 1) {
				continue
			}
		}
		if all = append(all, mediaRange{t, int(q * 1000)}); len(all) == maxAccept {
			break
		}
	}
	if len(all) == 0 {
		return []mediaRange{{"*/*", 1000}}
	}
	return all
}

// quality returns the quality value of the most specific range that contains a media type,
// or 0 if no range contains it.
func quality(ranges []mediaRange, mediaType string) (q int) {
	essence, _, _ := strings.Cut(strings.ToLower(mediaType), ";")
	essence = strings.TrimSpace(essence)
	major, _, _ := strings.Cut(essence, "/")
	specific := 0
	for _, r := range ranges {
		n := 0
		switch r.essence {
		case essence:
			n = 3
		case major + "/*":
			n = 2
		case "*/*":
			n = 1
		}
		if n > specific {
			specific, q = n, r.quality
		}
	}
	return q
}

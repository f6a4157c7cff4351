package source

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"

	"instep/resourcesync"
)

// wantedPackage is a parsed request for a package on demand. It names the wanted
// resources either by their URIs, or by the time since which they have changed.
type wantedPackage struct {
	Set  string   `json:"set"`
	From string   `json:"from"` // a W3C Datetime
	URIs []string `json:"uris"`

	from time.Time // From, read
}

// bytesPerURI is the number of bytes that a request may have for each URI.
const bytesPerURI = 512

// read parses a request: a JSON object, or a form with the same field names.
func (h *onDemand) read(r *http.Request) (wantedPackage, error) {
	bound := int64(h.Entries)*bytesPerURI + bytesPerURI
	if r.ContentLength > bound {
		return wantedPackage{}, tooLong(bound)
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	var wanted wantedPackage
	switch kind {
	case "application/json":
		wanted, err = readJSON(http.MaxBytesReader(nil, r.Body, bound))
	case "application/x-www-form-urlencoded":
		wanted, err = readForm(http.MaxBytesReader(nil, r.Body, bound))
	default:
		return wantedPackage{}, refuse(http.StatusUnsupportedMediaType, "expected application/json, or a form")
	}
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return wantedPackage{}, tooLong(bound)
	}
	if err != nil {
		return wantedPackage{}, refuse(http.StatusBadRequest, "%v", err)
	}
	return h.check(wanted)
}

func tooLong(bound int64) error {
	return refuse(http.StatusRequestEntityTooLarge, "expected at most %d bytes", bound)
}

func readJSON(r io.Reader) (wanted wantedPackage, err error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&wanted); err != nil {
		return wanted, err
	}
	if _, err := d.Token(); err != io.EOF {
		if err == nil {
			err = errors.New("expected one JSON object and nothing after it")
		}
		return wanted, err
	}
	return wanted, nil
}

func readForm(r io.Reader) (wanted wantedPackage, err error) {
	body, err := io.ReadAll(r) // bounded
	if err != nil {
		return wanted, err
	}
	fields, err := url.ParseQuery(string(body))
	if err != nil {
		return wanted, err
	}
	for name, values := range fields {
		switch {
		case name == "uris":
			wanted.URIs = values
		case name == "set" && len(values) == 1:
			wanted.Set = values[0]
		case name == "from" && len(values) == 1:
			wanted.From = values[0]
		default:
			return wanted, refuse(http.StatusBadRequest, "field %q: expected one of uris, set and from, the last two only once", name)
		}
	}
	return wanted, nil
}

// check validates the request and removes duplicates from it.
func (h *onDemand) check(wanted wantedPackage) (wantedPackage, error) {
	if err := CheckSet(wanted.Set); err != nil {
		return wanted, refuse(http.StatusBadRequest, "%v", err)
	}
	if (len(wanted.URIs) > 0) == (wanted.From != "") {
		return wanted, refuse(http.StatusBadRequest, "expected either uris or from")
	}
	if wanted.From != "" {
		from, err := resourcesync.ParseDatetime(wanted.From)
		if err != nil {
			return wanted, refuse(http.StatusBadRequest, "from: %v", err)
		}
		wanted.from = from.Time()
		return wanted, nil
	}
	seen := make(map[string]bool, len(wanted.URIs))
	once := wanted.URIs[:0]
	for _, uri := range wanted.URIs {
		if !seen[uri] {
			seen[uri] = true
			once = append(once, uri)
		}
	}
	if len(once) > h.Entries {
		return wanted, refuse(http.StatusRequestEntityTooLarge, "expected at most %d URIs, got %d", h.Entries, len(once))
	}
	wanted.URIs = once
	return wanted, nil
}

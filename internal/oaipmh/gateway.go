package oaipmh

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"instep/fetch"
)

// Gateway answers GET /pmh2ore?url=URL, where URL is a GetRecord request to a repository.
// It returns the Resource Map in the record, without the OAI-PMH envelope and with the
// media type of the map (ORE discovery §2.4). The header fields "responseDate" and
// "request" have the texts of the elements with these names. If a Gateway is already
// answering 16 requests, it answers with status 503.
type Gateway struct {
	client  *fetch.Client
	allowed []*url.URL // URLs of the allowed repositories; a URL without a path allows all repositories at its origin
	places  places
}

// NewGateway returns a gateway to the repositories with the given URLs. A URL without a
// path allows all repositories at its origin. The client must only be used by the
// gateway, because Trust changes it.
func NewGateway(client *fetch.Client, repositories []string) (*Gateway, error) {
	g := &Gateway{client: client, places: make(places, maxGateway)}
	for _, text := range repositories {
		u, err := fetch.Parse(text)
		if err != nil {
			return nil, err
		}
		g.allowed = append(g.allowed, u)
	}
	return g, nil
}

// Trust allows connections to the private addresses that the hosts of the repositories
// have now. It is only called at the start, so that a host name that later changes its
// address gives no access to other private addresses.
func (g *Gateway) Trust(ctx context.Context) error {
	var errs []error
	for _, u := range g.allowed {
		errs = append(errs, g.client.TrustSource(ctx, u.String()))
	}
	return errors.Join(errs...)
}

const (
	maxGateway = 16      // largest number of concurrent requests
	maxField   = 2 << 10 // largest length in bytes of the value of a header field
)

// maxMap is the largest response of a repository, in bytes.
const maxMap = 8 << 20

// mapTypes are the media types of Resource Maps, by the namespace of the root element.
var mapTypes = map[string]string{
	"http://www.w3.org/2005/Atom":                 "application/atom+xml",
	"http://www.w3.org/1999/02/22-rdf-syntax-ns#": "application/rdf+xml",
}

// ServeHTTP answers a request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	forbidScripts(w)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "expected GET", http.StatusMethodNotAllowed)
		return
	}
	target, status, err := g.target(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	if !g.places.enter(w) {
		return
	}
	defer g.places.leave()
	c := Client{Fetch: g.client, MaxAnswer: maxMap}
	page, err := c.page(r.Context(), VerbRecord, target)
	if err == nil && len(page.Bad) > 0 {
		err = page.Bad[0].Err
	}
	switch {
	case errors.Is(err, IDDoesNotExist):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
	case len(page.Records) != 1:
		http.Error(w, fmt.Sprintf("expected one record, found %d", len(page.Records)), http.StatusBadGateway)
	case page.Records[0].Deleted:
		http.Error(w, "the record is deleted", http.StatusGone)
	default:
		send(w, r, page)
	}
}

// target returns the URL to request. If the gateway may not request that URL, it
// returns the HTTP status of the answer.
func (g *Gateway) target(query string) (target string, status int, err error) {
	rest, ok := strings.CutPrefix(query, "url=")
	if !ok {
		return "", http.StatusBadRequest, errors.New("expected a query of url= and the URL of a GetRecord request")
	}
	if !strings.Contains(rest, "://") { // without "://" the URL must be percent-encoded, so decode it
		rest, _, _ = strings.Cut(rest, "&")
		if rest, err = url.QueryUnescape(rest); err != nil {
			return "", http.StatusBadRequest, err
		}
	}
	u, err := fetch.Parse(rest)
	if err != nil {
		return "", http.StatusBadRequest, err
	}
	if !slices.ContainsFunc(g.allowed, func(a *url.URL) bool { return serves(a, u) }) {
		return "", http.StatusForbidden, fmt.Errorf("the gateway does not serve the repository %s%s", fetch.Origin(u), u.EscapedPath())
	}
	if verbs := u.Query()["verb"]; len(verbs) != 1 || verbs[0] != string(VerbRecord) {
		return "", http.StatusBadRequest, errors.New("expected a request with verb=GetRecord")
	}
	return u.String(), 0, nil
}

// serves reports whether u is a URL of the repository with the given base URL. A base
// URL without a path stands for all repositories at its origin.
func serves(base, u *url.URL) bool {
	path := base.EscapedPath()
	return fetch.Origin(base) == fetch.Origin(u) && (path == "" || path == "/" || path == u.EscapedPath())
}

func send(w http.ResponseWriter, r *http.Request, page *Page) {
	metadata := page.Records[0].Metadata
	root, err := rootOf(metadata)
	media := mapTypes[root.Space]
	if err != nil || media == "" {
		http.Error(w, fmt.Sprintf("expected a Resource Map in Atom or RDF/XML, found the element %q of the namespace %q", shorten(root.Local), shorten(root.Space)), http.StatusBadGateway)
		return
	}
	h := w.Header()
	h.Set("responseDate", headerText(page.date)) // Go writes it as Responsedate: names of header fields are not case-sensitive
	h.Set("request", headerText(page.request))
	h.Set("Content-Type", media)
	h.Set("Cache-Control", "no-cache")
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(append([]byte(xml.Header), metadata...)) // the error is ignored: the client has disconnected
}

func rootOf(text []byte) (xml.Name, error) {
	d := xml.NewDecoder(bytes.NewReader(text))
	for {
		t, err := d.Token()
		if err != nil {
			return xml.Name{}, err
		}
		if e, ok := t.(xml.StartElement); ok {
			return e.Name, nil
		}
	}
}

// headerText removes characters that a header field must not contain, and shortens the
// text to maxField bytes.
func headerText(text string) string {
	text = text[:min(len(text), maxField)]
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f {
			return -1
		}
		return r
	}, text)
}

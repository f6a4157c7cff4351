package discover_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"instep/discover"
	"instep/fetch"
)

// site is a Source under test: bodies by URI, without http://. It answers for every
// host.
type site map[string]string

const wellKnown = "example.org/.well-known/resourcesync"

// doc writes a document. The header is "capability" or "capability index"; links
// and entries are lines: "rel URI" for a link of the root, "capability> URI" for an
// entry, "> URI" for one without.
func doc(header string, lines ...string) string {
	root, entry := "urlset", "url"
	capability, index, _ := strings.Cut(header, " ")
	if index != "" {
		root, entry = "sitemapindex", "sitemap"
	}
	var links, entries strings.Builder
	for _, l := range lines {
		what, uri, _ := strings.Cut(l, " ")
		switch c, isEntry := strings.CutSuffix(what, ">"); {
		case !isEntry:
			fmt.Fprintf(&links, `<rs:ln rel=%q href=%q/>`, what, uri)
		case c == "":
			fmt.Fprintf(&entries, "<%s><loc>%s</loc></%s>\n", entry, uri, entry)
		default:
			fmt.Fprintf(&entries, "<%s><loc>%s</loc><rs:md capability=%q/></%s>\n", entry, uri, c, entry)
		}
	}
	md := fmt.Sprintf(`<rs:md capability=%q/>`, capability)
	switch strings.ToLower(capability) {
	case "plain":
		md = ""
	case "resourcelist", "resourcedump":
		md = fmt.Sprintf(`<rs:md capability=%q at="2026-03-01T12:00:00Z"/>`, capability)
	case "changelist", "changedump":
		md = fmt.Sprintf(`<rs:md capability=%q from="2026-03-01T12:00:00Z"/>`, capability)
	}
	return fmt.Sprintf("<%s xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" xmlns:rs=\"http://www.openarchives.org/rs/terms/\">\n%s%s\n%s</%s>\n",
		root, links.String(), md, entries.String(), root)
}

// web serves a site and counts what is asked.
type web struct {
	*fetch.Client
	read atomic.Int64 // bytes from the wire

	mu    sync.Mutex
	asked []string
}

type countingConn struct {
	net.Conn
	n *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func serve(t *testing.T, s site) *web {
	t.Helper()
	w := &web{}
	h := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.answer(s, rw, r) })
	srv, secure := httptest.NewServer(h), httptest.NewTLSServer(h)
	t.Cleanup(srv.Close)
	t.Cleanup(secure.Close)
	c, err := fetch.New(fetch.Options{
		MaxRetries: -1,
		RootCAs:    secure.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
		},
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			to := srv.Listener.Addr()
			if strings.HasSuffix(addr, ":443") {
				to = secure.Listener.Addr()
			}
			conn, err := (&net.Dialer{}).DialContext(ctx, network, to.String())
			return countingConn{conn, &w.read}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w.Client = c
	return w
}

// answer serves a page. A body that is a number and a line end is a status; "-> URI" is a redirect; "cut " declares more than it sends.
// Lines of header fields may stand before it.
func (w *web) answer(s site, rw http.ResponseWriter, r *http.Request) {
	uri := r.Host + r.URL.RequestURI()
	if r.TLS != nil {
		uri = "https://" + uri
	}
	w.mu.Lock()
	w.asked = append(w.asked, uri)
	w.mu.Unlock()
	body, ok := s[uri]
	rw.Header().Set("Content-Type", "text/html")
	for _, field := range []string{"Content-Type", "Link", "Link"} {
		if rest, has := strings.CutPrefix(body, field+": "); has {
			value, after, _ := strings.Cut(rest, "\n")
			rw.Header()[field] = append(rw.Header()[field], value)
			if field == "Content-Type" {
				rw.Header()[field] = []string{value}
			}
			body = after
		}
	}
	status := 0
	if len(body) == len("404\n") {
		status, _ = strconv.Atoi(body[:3])
	}
	switch {
	case !ok:
		http.NotFound(rw, r)
	case status > 0:
		rw.WriteHeader(status)
	case strings.HasPrefix(body, "-> "):
		http.Redirect(rw, r, body[3:], http.StatusFound)
	case strings.HasPrefix(body, "cut "):
		rw.Header().Set("Content-Length", fmt.Sprint(len(body)+100))
		io.WriteString(rw, body[4:])
	default:
		io.WriteString(rw, body)
	}
}

// find runs discovery on the site.
func (w *web) find(t *testing.T, given string, allow ...string) (*discover.Source, error) {
	t.Helper()
	return discover.Find(t.Context(), discover.Finder{Client: w.Client, AllowOrigins: allow}, given)
}

package fetch

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// Options configure a Client. The zero value is usable.
type Options struct {
	Version   string // version of the program for the default User-Agent; "" is "dev"
	UserAgent string // default "instep/<Version> (+ResourceSync)"

	PerHost     int        // concurrent requests to one origin, fewer while it is too busy (429, 503); default 4
	Total       int        // concurrent requests in all; default 32
	RatePerHost rate.Limit // requests per second to one origin; 0 is no limit
	Bandwidth   int64      // bytes per second, all bodies together; 0 is no limit

	MaxRetries     int           // retries after the first attempt; default 3, negative is none
	Backoff        time.Duration // pause before the first retry, doubled for each further one, up to BackoffMax; default 500 ms
	BackoffMax     time.Duration // 30 s
	RetryAfterMax  time.Duration // the longest time that a host can make us wait; default 24 h
	MaxWait        time.Duration // a request that would have to wait longer for its host fails at once as Temporary; default 2 min
	ConnectTimeout time.Duration // time for the connection, and again for the TLS handshake; default 10 s
	HeaderTimeout  time.Duration // from the request to the end of the response header; default 30 s
	IdleTimeout    time.Duration // longest pause before a byte of the body, including the first; default 60 s
	MinRate        int64         // bytes per second, averaged over RateWindow; default 1 KiB/s, negative is no limit
	RateWindow     time.Duration // 60 s
	MaxRedirects   int           // default 5, negative is none
	MaxBytes       int64         // largest body, if the request sets no limit; default 10 GiB
	MaxDocument    int64         // largest ResourceSync document, also a limit for programs that parse documents; default 200 MiB

	AllowOrigins []string       // further origins to which redirects may lead
	AllowPrivate []string       // host:port that may be dialled although its address is not public
	PrivateHint  string         // hint on how to allow one more address, for Error.Hint; its host:port is appended; default "allow it with --allow-private"
	Credentials  []Credential   // credentials by origin
	RootCAs      *x509.CertPool // trusted certificate authorities instead of the system's
	Proxy        *url.URL       // proxy for all requests; the environment is ignored. A proxy resolves host names, so only literal addresses in URIs are checked

	// Observe is called for every request, when its header has been read or it has
	// failed. It must be safe for concurrent use.
	Observe func(Event)

	// Received is called with the number of body bytes of each read. It must be safe
	// for concurrent use; may be nil.
	Received func(n int)

	// Replacements for a simulation; nil uses the real ones. Timers cannot be
	// replaced, so Now has to advance with them (as it does in a synctest bubble).
	Now     func() time.Time
	Rand    func() float64                                                    // random number in [0,1), for the jitter of retries
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)      // called only for host names, never for literal IP addresses
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error) // addr is an address and port that passed the policy
}

// Event describes one request.
type Event struct {
	URL    string
	Status int           // 0 without a response
	Err    error         // why there was no response
	Took   time.Duration // until the response header was read
}

// Validators make a request conditional. They come from an earlier response; a server
// that has no newer version answers 304.
type Validators struct {
	ETag         string
	LastModified string // the date exactly as the server sent it
}

// Request describes one GET.
type Request struct {
	URL        string
	Accept     string // media types; "" is */*
	Validators Validators
	MaxBytes   int64 // largest body; 0 is Options.MaxBytes
	Fresh      bool  // ask proxies to revalidate with the server (Cache-Control: no-cache)
	Once       bool  // no retries: the caller has other places to ask
	Gzip       bool  // allow gzip compression; Content-Encoding shows whether it was used, and the caller decompresses with a limit

	// Datetime asks a TimeGate for the state at this time (RFC 7089 §2.1.1); zero does
	// not ask.
	Datetime time.Time

	// Part requests only some bytes (RFC 9110 §14). A server may answer with all of
	// them: see Response.Offset. If the server answers with another part, or the
	// resource does not have this one (status 416), the error is an *Error of Kind
	// Protocol.
	Part *Part

	// Resume selects the condition under which a body that breaks off is continued.
	Resume Resume
}

// Response is a response with status 200, 206 if a part was requested, or 304 if the
// request was conditional. It occupies one slot of its host and one of Options.Total
// until Body has returned an error (including io.EOF) or was closed. So do not wait for
// another request while a body is open: it may never get a slot.
type Response struct {
	URL           string // URL of the response, after redirects
	Status        int    // 200, 206 or 304
	Header        http.Header
	ContentType   string
	ContentLength int64 // length of Body; -1 if the response does not state it
	Validators    Validators
	Requests      int   // number of requests sent for it: 1 and one for each redirect and retry
	Redirects     []int // statuses of the redirects that led to URL, in order; nil if there were none
	Offset        int64 // offset of the first byte of Body; 0 unless Request.Part was answered with status 206
	Total         int64 // length of the whole resource; -1 if the response does not state it

	// Endless means that Body ends with the connection (HTTP/1.0, or neither
	// Content-Length nor chunks): a truncated body looks complete.
	Endless bool

	// Unchanged means that Body is the cached copy (see Client.WithCache).
	Unchanged bool

	// Body yields the bytes as they were sent. It returns an *Error if the response is
	// truncated, too slow, stalled or larger than allowed. Read and Close must not be
	// called concurrently; cancelling the context ends a Read.
	Body io.ReadCloser
}

// Date returns the time of the response by the server's clock; zero if the server did
// not send it.
func (r *Response) Date() time.Time {
	t, _ := http.ParseTime(r.Header.Get("Date"))
	return t
}

// Modified returns the Last-Modified of the response; zero if it is missing or
// unreadable.
func (r *Response) Modified() time.Time {
	t, _ := http.ParseTime(r.Validators.LastModified)
	return t
}

// MaxAge returns how long the answer stays fresh (RFC 9111 §4.2.1); 0 if it has to be
// requested again, or has no lifetime.
func (r *Response) MaxAge() time.Duration {
	age := int64(0)
	for field := range strings.SplitSeq(strings.Join(r.Header.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(field)), "=")
		switch name {
		case "no-cache", "no-store":
			return 0
		case "max-age":
			age, _ = strconv.ParseInt(strings.Trim(value, `"`), 10, 32)
		}
	}
	if passed, err := strconv.ParseInt(r.Header.Get("Age"), 10, 32); err == nil {
		age -= passed
	}
	return time.Duration(max(age, 0)) * time.Second
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	opt    Options
	policy *addressPolicy
	hosts  *hosts
	bytes  *rate.Limiter // limits the total rate of all bodies; nil is no limit
	creds  map[string]http.Header
	origin map[string]bool // allowed redirect targets
	rt     *http.Transport
	// certified has the transports for origins that require a client certificate.
	certified map[string]*http.Transport
	cache     Cache // cache of documents; may be nil
}

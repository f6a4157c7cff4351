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
	Version   string // version of the program in the default User-Agent; "" is "dev"
	UserAgent string // default "instep/<Version> (+ResourceSync)"

	PerHost     int        // largest number of concurrent requests to one origin, lowered while the origin is too busy (429, 503); default 4
	Total       int        // largest number of concurrent requests to all origins; default 32
	RatePerHost rate.Limit // largest number of requests per second to one origin; 0 is no limit
	Bandwidth   int64      // largest number of bytes per second in all bodies together; 0 is no limit

	MaxRetries    int           // number of retries after the first attempt; default 3, negative is none
	Backoff       time.Duration // pause before the first retry, doubled for each further retry, up to BackoffMax; default 500 ms
	BackoffMax    time.Duration // default 30 s
	MaxWait       time.Duration // longest wait before a request to a host that asked to wait; if it would be longer, the request fails at once as Temporary; default 2 min
	HeaderTimeout time.Duration // limit on the time from the request to the end of the response header; default 30 s
	IdleTimeout   time.Duration // longest pause before a byte of the body, including the first; default 60 s
	MaxBytes      int64         // largest body in bytes, if the request sets no limit; default 10 GiB
	MaxDocument   int64         // largest ResourceSync document in bytes, for Document and for programs that parse documents; default 200 MiB

	AllowOrigins []string       // origins to which redirects from other origins may lead
	AllowPrivate []string       // host:port that may be dialled although its address is not public
	PrivateHint  string         // advice in Error.Hint on how to allow a private address, to which the host:port is appended; default "allow it with --allow-private"
	Credentials  []Credential   // credentials for origins, at most one Authorization for each
	RootCAs      *x509.CertPool // certificate authorities that are trusted instead of those of the system
	Proxy        *url.URL       // proxy for all requests, since the environment is ignored; because a proxy resolves host names, only IP addresses in URIs are checked

	// Observe is called for every request when its response header has been read,
	// or when it has failed. It must be safe for concurrent use; may be nil.
	Observe func(Event)

	// Received is called with the number of body bytes of each read. It must be safe
	// for concurrent use; may be nil.
	Received func(n int)

	// The following functions replace parts of the system in a simulation; nil uses
	// the real ones. Timers are not replaced, so the clock must agree with them, as
	// it does in a synctest bubble.
	Now     func() time.Time
	Rand    func() float64                                                    // returns a random number in [0,1), for the jitter of retries
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)      // resolves a host name; not called for IP addresses
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error) // connects to an IP address and port that the policy permits
}

// Event describes one request.
type Event struct {
	URL    string
	Status int           // HTTP status; 0 without a response
	Err    error         // the reason why there was no response
	Took   time.Duration // time from the request to the end of the response header
}

// Validators of an earlier response make a request conditional: a server that has no
// newer version answers 304.
type Validators struct {
	ETag         string
	LastModified string // text of the Last-Modified header field, exactly as the server sent it
}

// Request describes one GET.
type Request struct {
	URL        string
	Accept     string // accepted media types; "" is */*
	Validators Validators
	MaxBytes   int64 // largest body in bytes; 0 is Options.MaxBytes
	Fresh      bool  // caches must not answer without asking the server (Cache-Control: no-cache)
	Once       bool  // do not retry the request, because the caller can ask other servers
	Gzip       bool  // the server may compress the body with gzip; then Header has a Content-Encoding, and the caller decompresses

	// Datetime asks a TimeGate for the state of the resource at this time (RFC 7089
	// §2.1.1); zero asks for the current state.
	Datetime time.Time

	// Part requests a range of bytes (RFC 9110 §14); nil requests all bytes. A
	// server may ignore it and send all bytes: see Response.Offset. If the server
	// sends another range, or the resource has no such range (status 416), the
	// error is an *Error of Kind Protocol.
	Part *Part

	// Resume selects when a body that broke off is continued by a request for the
	// rest.
	Resume Resume
}

// Response is a response with status 200, 206 if a part was requested, or 304 if the
// request was conditional. Until Body has returned an error (including io.EOF) or was
// closed, the request counts as a concurrent request to its origin and in total
// (Options). So a program with an open body must not wait for another request, which
// may never be sent.
type Response struct {
	URL           string // URL of the response, after redirects
	Status        int    // HTTP status: 200, 206 or 304
	Header        http.Header
	ContentType   string
	ContentLength int64 // length of Body in bytes; -1 if the response does not state it
	Validators    Validators
	Requests      int   // number of requests that were sent, including redirects and retries
	Redirects     []int // the statuses of the redirects that led to URL, in order
	Offset        int64 // offset in the resource at which Body begins; 0 unless the status is 206
	Total         int64 // length of the whole resource in bytes; -1 if the response does not state it

	// Endless means that Body ends with the connection (HTTP/1.0, or neither
	// Content-Length nor chunks), so that a truncated body looks complete.
	Endless bool

	// Unchanged means that Body is the cached copy (see Client.WithCache).
	Unchanged bool

	// Body yields the bytes as the server sent them. It returns an *Error if the
	// body is truncated, too slow, stalled or too large. Read and Close must not be
	// called concurrently. A Read ends when the context is cancelled.
	Body io.ReadCloser
}

// Date returns the time of the response by the server's clock; zero if the server sent
// none.
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

// MaxAge returns how long the response stays fresh (RFC 9111 §4.2.1); 0 if it states no
// lifetime or must not be used again without a request.
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
	bytes  *rate.Limiter // limit on the rate of all bodies together; nil is no limit
	creds  map[string]http.Header
	origin map[string]bool // origins to which redirects from other origins may lead
	rt     *http.Transport
	// certified has the transports for origins that require a client certificate.
	certified map[string]*http.Transport
	cache     Cache // cache of documents; may be nil
}

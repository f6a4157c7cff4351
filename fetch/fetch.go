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

	PerHost     int        // largest number of concurrent requests to one origin, reduced while the origin answers 429 or 503; default 4
	Total       int        // largest number of concurrent requests to all origins; default 32
	RatePerHost rate.Limit // largest number of requests per second to one origin; 0 is no limit
	Bandwidth   int64      // largest transfer rate of all bodies together in bytes per second; 0 is no limit

	MaxRetries    int           // number of retries after the first attempt; default 3; a negative number means none
	Backoff       time.Duration // pause before the first retry, doubled for each further retry, up to BackoffMax; default 500 ms
	BackoffMax    time.Duration // longest pause before a retry; default 30 s
	MaxWait       time.Duration // longest pause that a host can ask for; if it asks for a longer one, the request fails as Temporary; default 2 min
	HeaderTimeout time.Duration // limit on the time from the request to the end of the response header; default 30 s
	IdleTimeout   time.Duration // longest wait for the next byte of a body, also for the first one; default 60 s
	MaxBytes      int64         // largest body in bytes, if the request sets no limit; default 10 GiB
	MaxDocument   int64         // largest ResourceSync document in bytes; default 200 MiB

	AllowOrigins []string       // origins to which redirects from other origins may lead
	AllowPrivate []string       // host:port pairs to which connections are allowed although the address is not public
	PrivateHint  string         // beginning of the Error.Hint on how to allow a private address; its host:port follows; default "allow it with --allow-private"
	Credentials  []Credential   // credentials for origins; an origin can have one Authorization header field
	RootCAs      *x509.CertPool // certificate authorities to trust instead of those of the system
	Proxy        *url.URL       // proxy for all requests; nil means no proxy, even if the environment names one. The proxy resolves host names, so only IP addresses in URIs are checked

	// Observe is called for every request, when its response header has been read or the
	// request has failed. It must be safe for concurrent use; may be nil.
	Observe func(Event)

	// Received is called after each read from a body, with the number of bytes. It must
	// be safe for concurrent use; may be nil.
	Received func(n int)

	// These functions replace the clock, the randomness and the network in a simulation; nil
	// uses the real ones. Timers cannot be replaced, so Now must advance as they do, for
	// example in a synctest bubble.
	Now     func() time.Time
	Rand    func() float64                                                    // returns a random number in [0,1), for the jitter of retries
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)      // resolves a host name; not called for IP addresses
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error) // connects to an IP address and port that the address policy permits
}

// Event describes one request.
type Event struct {
	URL    string
	Status int           // HTTP status; 0 without a response
	Err    error         // the reason why there was no response; nil if there was one
	Took   time.Duration // time from the request to the end of the response header
}

// Validators of an earlier response make a request conditional: if the resource has
// not changed since, the server answers 304.
type Validators struct {
	ETag         string
	LastModified string // value of the Last-Modified header field, exactly as the server sent it
}

// Request describes one GET.
type Request struct {
	URL        string
	Accept     string // accepted media types; "" is */*
	Validators Validators
	MaxBytes   int64 // largest body in bytes; 0 is Options.MaxBytes
	Fresh      bool  // caches between client and server must ask the server (Cache-Control: no-cache)
	Once       bool  // whether a failed request is not retried, because the caller can ask another server
	Gzip       bool  // whether the body may be compressed (Content-Encoding: gzip); the caller decompresses it

	// Datetime asks a TimeGate for the state of the resource at this time (RFC 7089
	// §2.1.1); the zero time asks for the current state.
	Datetime time.Time

	// Part requests a range of bytes (RFC 9110 §14); nil requests all bytes. A
	// server may ignore Part and send all bytes: see Response.Offset. If the server
	// sends another range, or the resource has no such range (status 416), Get
	// returns an *Error of Kind Protocol.
	Part *Part

	// Resume says when the client may request the rest of a body that broke off.
	Resume Resume
}

// Response is a response with status 200, 206 if a part was requested, or 304 if the
// request was conditional. Until Body returns an error (including io.EOF) or is closed, the
// request counts for Options.PerHost and Options.Total: a program that waits for another
// request in the meantime may wait forever.
type Response struct {
	URL           string // URL of the response, after redirects
	Status        int    // HTTP status: 200, 206 or 304
	Header        http.Header
	ContentType   string
	ContentLength int64 // length of Body in bytes; -1 if the response does not state it
	Validators    Validators
	Requests      int   // number of HTTP requests that were sent, including redirects and retries
	Redirects     []int // the statuses of the redirects that led to URL, in order
	Offset        int64 // offset in the resource of the first byte of Body; 0 unless the status is 206
	Total         int64 // length of the whole resource in bytes; -1 if the response does not state it

	// Endless means that Body ends with the connection (HTTP/1.0, or neither
	// Content-Length nor chunks), so that a truncated body looks complete.
	Endless bool

	// Unchanged means that Body is read from the cache (see Client.WithCache).
	Unchanged bool

	// Body has the bytes as the server sent them. Its Read returns an *Error if the body
	// is truncated, too slow, stalled or too large, and ends when the context is
	// cancelled. Read and Close must not be called concurrently.
	Body io.ReadCloser
}

// Date returns the time of the response by the clock of the server. It is zero if the
// server sent no time.
func (r *Response) Date() time.Time {
	t, _ := http.ParseTime(r.Header.Get("Date"))
	return t
}

// Modified returns the Last-Modified of the response. It is zero if missing or
// unreadable.
func (r *Response) Modified() time.Time {
	t, _ := http.ParseTime(r.Validators.LastModified)
	return t
}

// MaxAge returns how long the response stays fresh (RFC 9111 §4.2.1). It is 0 if the
// response states no lifetime, or if Cache-Control has no-cache or no-store.
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
	bytes  *rate.Limiter // limit on the transfer rate of all bodies together; nil is no limit
	creds  map[string]http.Header
	origin map[string]bool // origins to which redirects from other origins may lead
	rt     *http.Transport
	// certified has a transport for each origin that has a client certificate.
	certified map[string]*http.Transport
	cache     Cache // cache of documents; may be nil
}

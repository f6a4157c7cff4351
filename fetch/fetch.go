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

	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"golang.org/x/time/rate"
)

// Options say how a Client behaves. The zero value is good.
type Options struct {
	Version   string // version of the program for the default User-Agent; "" is "dev"
	UserAgent string // replaces "instep/<Version> (+ResourceSync)"

	PerHost     int        // requests at a time to one origin, fewer while it is too busy (429, 503); 4
	Total       int        // requests at a time in all; 32
	RatePerHost rate.Limit // requests a second to one origin; 0 is no limit
	Bandwidth   int64      // bytes a second, of all bodies together; 0 is no limit

	MaxRetries     int           // tries after the first; 3, negative is none
	Backoff        time.Duration // pause before the first retry, doubled for each more, up to BackoffMax; 500 ms
	BackoffMax     time.Duration // 30 s
	RetryAfterMax  time.Duration // the longest a host can hold us back; 24 h
	MaxWait        time.Duration // a request that would have to wait longer for its host fails at once as Temporary; 2 min
	ConnectTimeout time.Duration // time for the connection, and again for the TLS handshake; 10 s
	HeaderTimeout  time.Duration // from the request to the end of the header of the answer; 30 s
	IdleTimeout    time.Duration // longest wait for a byte of the body, also the first; 60 s
	MinRate        int64         // bytes a second, over RateWindow of waiting; 1 KiB/s, negative is no limit
	RateWindow     time.Duration // 60 s
	MaxRedirects   int           // 5, negative is none
	MaxBytes       int64         // largest body, if the request has no bound of its own; 10 GiB
	MaxDocument    int64         // largest ResourceSync document; those who read documents use it as their bound too; 200 MiB

	AllowOrigins []string       // origins to which a request for another origin may be redirected
	AllowPrivate []string       // host:port that may be dialled though its address isn't public
	PrivateHint  string         // hint on how to allow one more address, for Error.Hint; its host:port is appended; "allow it with --allow-private"
	Credentials  []Credential   // credentials by origin
	RootCAs      *x509.CertPool // trusted authorities instead of those of the system
	Proxy        *url.URL       // takes every request; nothing is read from the environment. It resolves the names, so only literal addresses in URIs are checked then

	// Observe is called with every request, after its header was read or it failed. It
	// must be safe for concurrent use.
	Observe func(Event)

	// Received is called with the number of body bytes at each read. It must be safe for
	// concurrent use; nil is none.
	Received func(n int)

	// A simulation replaces these; nil is the real thing. Timers always run, so Now has
	// to advance with them (as it does in a synctest bubble).
	Now     func() time.Time
	Rand    func() float64                                                    // random number in [0,1), for the jitter of the back-off
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)      // called only for host names, never for literal IP addresses
	Dial    func(ctx context.Context, network, addr string) (net.Conn, error) // addr is an address and port that passed the policy
}

// Event is one request that was sent.
type Event struct {
	URL    string
	Status int           // 0 if there was no answer
	Err    error         // why there was none
	Took   time.Duration // until the end of the header
}

// Validators make a request conditional: they are taken from an earlier answer, and a
// server without a newer version answers 304.
type Validators struct {
	ETag         string
	LastModified string // the date as the server wrote it
}

// Request describes one GET.
type Request struct {
	URL        string
	Accept     string // media types; */* if empty
	Validators Validators
	MaxBytes   int64 // largest body; 0 is Options.MaxBytes
	Fresh      bool  // ask caches to revalidate with the server (Cache-Control: no-cache)
	Once       bool  // no further try after a failure: the caller has other places to ask
	Gzip       bool  // the body may be compressed by gzip: Content-Encoding shows it, and the caller decompresses it within a bound

	// Datetime asks a TimeGate for the state of this moment (RFC 7089 §2.1.1); zero asks for none.
	Datetime time.Time

	// Part asks for some bytes only (RFC 9110 §14). A server may answer with all of
	// them: see Response.Offset. Any other part is an *Error of Kind Protocol, as is a
	// part that the resource does not have (status 416).
	Part *Part

	// Resume selects the proof that is needed to continue a body that breaks off.
	Resume Resume
}

// Response is an answer with status 200, 206 if a part was asked for, or 304 if the
// request was conditional.
//
// It occupies one slot of its host and one of Options.Total until Body has returned an
// error (io.EOF too) or was closed. So do not wait for another request while a body is
// open: it may never get a slot.
type Response struct {
	URL           string // URL of the answer, after redirects
	Status        int    // 200, 206 or 304
	Header        http.Header
	ContentType   string
	ContentLength int64 // of Body; -1 if the answer does not say
	Validators    Validators
	Requests      int   // requests made for it: 1 and one for each redirect and each further try
	Redirects     []int // statuses of the redirects that led to URL, in order; nil if there was none
	Offset        int64 // offset of the first byte of Body; 0 unless Request.Part was answered with status 206
	Total         int64 // bytes of the whole resource; -1 if the answer does not say

	// Endless means that the end of the connection ends Body (HTTP/1.0, or neither
	// Content-Length nor chunks): a body that was cut off looks complete.
	Endless bool

	// Unchanged means that Body is the cached copy (see Client.WithCache).
	Unchanged bool

	// Body yields the bytes as they were served. It ends with an *Error if the answer is
	// cut off, too slow, silent or larger than allowed. Read and Close must not be called
	// at the same time; cancelling the context ends a Read.
	Body io.ReadCloser
}

// Date is the time of the answer, by the clock of its server; zero if the server does not
// send it.
func (r *Response) Date() time.Time {
	t, _ := http.ParseTime(r.Header.Get("Date"))
	return t
}

// Modified is the Last-Modified of the answer; zero if it does not say, or not in a way
// that can be read.
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

// Client gets resources. It is safe for concurrent use.
type Client struct {
	opt    Options
	policy *addressPolicy
	hosts  *hosts
	bytes  *rate.Limiter // limits the bytes of all bodies together; nil is no limit
	header http.Header   // of every request
	creds  map[string]http.Header
	origin map[string]bool // allowed as the target of a redirect
	retry  retrypolicy.RetryPolicy[*Response]
	rt     *http.Transport
	// certified are the connections to origins that are shown a certificate of ours.
	certified map[string]*http.Transport
	cache     Cache // cache of documents; may be nil
}

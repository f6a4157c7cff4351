package main

import (
	"context"
	"crypto/x509"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"instep/fetch"
	"instep/internal/where"
)

// sourceFlags are the flags of commands that read a Source.
type sourceFlags struct {
	accessFlags
	sets, include, exclude, types []string
	collections, profiles, accept []string
	where                         []string
	conditions                    where.Conditions // of where
	withMetadata                  bool
	workers                       int
	rate                          string
	bandwidth                     string
	maxDocument                   string
	strict                        bool
	ore                           bool
	state                         string
}

// accessFlags are flags about hosts: to which a command may connect, how, and with
// which credentials.
type accessFlags struct {
	allowOrigin, allowPrivate []string
	ca, proxy, userAgent      string
	retries                   *int // nil uses the default of fetch.Options
	timeout                   time.Duration
	secretFlags
}

func (f *accessFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringArrayVar(&f.allowOrigin, "allow-origin", nil, "also follow documents and resources of this `ORIGIN`, such as https://files.example.org (repeatable)")
	fs.StringArrayVar(&f.allowPrivate, "allow-private", nil, "also connect to this private `HOST:PORT` (repeatable)")
	fs.StringVar(&f.ca, "ca", "", "trust the authorities in this PEM `FILE` instead of the system's")
	fs.StringVar(&f.proxy, "proxy", "", "send every request through the proxy at this `URL` (http, https or socks5)")
	fs.StringVar(&f.userAgent, "user-agent", "", "what requests say of who asks, a `TEXT` such as \"library.example.org (mailto:it@example.org)\" (default: instep and its version)")
	f.retries = fs.Int("retries", 3, "send a request that failed for a while up to `N` more times")
	timeVar(fs, &f.timeout, "timeout", 0, "give a request up after this `TIME` without an answer, or without a byte of it (default: 30s and 60s)")
	f.secretFlags.register(cmd)
}

func (f *sourceFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringArrayVar(&f.sets, "set", nil, "only the set of this `NAME` or Capability List URI (repeatable; default: all)")
	fs.StringArrayVar(&f.include, "include", nil, "only resources whose path matches this `GLOB`, as in .gitignore: *.png, /x.png, a/ (repeatable)")
	fs.StringArrayVar(&f.exclude, "exclude", nil, "no resources whose path matches this `GLOB` (repeatable)")
	fs.StringArrayVar(&f.types, "type", nil, "only resources of this `MEDIA/TYPE` (repeatable)")
	fs.StringArrayVar(&f.collections, "only-collection", nil, "only resources that the Source links to the collection with this `URI` (repeatable)")
	fs.StringArrayVar(&f.profiles, "only-profile", nil, "only metadata that the Source links to the profile with this `URI`, such as a namespace (repeatable)")
	fs.StringArrayVar(&f.accept, "accept", nil, "of a resource with alternate representations the one of this `MEDIA/TYPE` (repeatable, the first choice first)")
	fs.BoolVar(&f.withMetadata, "with-metadata", false, "also metadata that describes what --include and --type choose; --only-profile is then about the metadata alone")
	fs.StringArrayVar(&f.where, "where", nil, "only resources with a record of which XPath selects a node with this text, as `XPATH=VALUE`, or any node, as XPATH (repeatable; all must hold)")
	fs.IntVar(&f.workers, "workers", 4, "`N` resources in transfer from a host at a time; fewer while it is too busy")
	fs.BoolVar(&f.strict, "strict", false, "accept only what a sha-256 or better proves, and documents without a flaw")
	fs.BoolVar(&f.ore, "ore", false, "SOURCE is a Resource Map of OAI-ORE, or leads to some: what they aggregate are the resources")
	fs.StringVar(&f.state, "state", "", "keep the mirror's catalog in `DIR`, which is in no mirror, instead of in .instep inside the mirror")
	fs.StringVar(&f.maxDocument, "max-document", "", maxDocumentUsage)
	f.registerHosts(cmd)
}

// registerHosts registers the flags about hosts and connections.
func (f *sourceFlags) registerHosts(cmd *cobra.Command) {
	f.accessFlags.register(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.rate, "rate", "", "at most this many requests a host, as `N/s`")
	fs.StringVar(&f.bandwidth, "bwlimit", "", "at most this many bytes a second in all, as `SIZE` such as 10M")
}

const maxDocumentUsage = "read documents of up to so many bytes, as `SIZE` such as 1GB, and of 5,000 entries for each MB (default 200MiB; 1,000,000 entries in any case)"

// limitFlags are the flags that limit a run.
type limitFlags struct {
	maxTransfer string
	maxTime     time.Duration
}

func (f *limitFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.maxTransfer, "max-transfer", "", "begin no further transfer after so many bytes of resources, as `SIZE` such as 10G (exit code 8)")
	timeVar(cmd.Flags(), &f.maxTime, "max-time", 0, "begin no further transfer after this `TIME`, such as 90m (exit code 10)")
}

// transfer returns the largest number of bytes that a run may transfer; 0 is no limit.
func (f *limitFlags) transfer() (int64, error) {
	return parseSize("--max-transfer", f.maxTransfer)
}

// left returns the remaining time of a run; 0 is no limit.
func (f *limitFlags) left(taken time.Duration) time.Duration {
	if f.maxTime == 0 {
		return 0
	}
	return max(f.maxTime-taken, 1)
}

// traffic counts requests and bytes.
type traffic struct {
	requests, bytes atomic.Int64
	url             atomic.Pointer[string] // URL of the last response
}

// observe counts a request.
func (t *traffic) observe(e fetch.Event) {
	t.requests.Add(1)
	t.url.Store(&e.URL)
}

// at returns the URL of the last response; "" if there was none.
func (t *traffic) at() string {
	if uri := t.url.Load(); uri != nil {
		return nameInWork(*uri)
	}
	return ""
}

// connect returns a client for a Source.
func (a *app) connect(ctx context.Context, source string, f *sourceFlags, t *traffic) (*fetch.Client, error) {
	c, err := a.newClient(source, f, t)
	if err != nil {
		return nil, err
	}
	return c, c.TrustSource(ctx, source)
}

// newClient returns a client whose credentials are sent only to the origin of a Source.
func (a *app) newClient(source string, f *sourceFlags, t *traffic) (*fetch.Client, error) {
	o, err := a.clientOptions(source, f)
	if err != nil {
		return nil, err
	}
	o.Observe = t.observe
	o.Received = func(n int) { t.bytes.Add(int64(n)) }
	c, err := fetch.New(o)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return c, nil
}

func (a *app) clientOptions(source string, f *sourceFlags) (o fetch.Options, err error) {
	if f.workers < 1 || f.workers > 256 {
		return o, usagef("--workers %d: expected 1 to 256", f.workers)
	}
	if f.conditions, err = where.Parse(withoutEmpty(f.where)); err != nil {
		return o, usagef("--where %v", err)
	}
	u, err := fetch.Parse(source)
	if err != nil {
		return o, usagef("SOURCE: %v", err) // the error quotes it without a password
	}
	for i, s := range f.allowOrigin {
		u, err := fetch.Parse(s)
		if err != nil {
			return o, usagef("--allow-origin: %v", err)
		}
		f.allowOrigin[i] = fetch.Origin(u)
	}
	o = fetch.Options{
		UserAgent:    "instep/" + version + " (ResourceSync Destination)",
		Now:          a.now,
		AllowPrivate: f.allowPrivate,
		AllowOrigins: f.allowOrigin,
		PerHost:      f.workers,
		Total:        max(f.workers, 32),
	}
	if err := f.patience(&o); err != nil {
		return o, err
	}
	if o.RatePerHost, err = parseRate(f.rate); err != nil {
		return o, err
	}
	if o.Bandwidth, err = parseSize("--bwlimit", strings.TrimSuffix(f.bandwidth, "/s")); err != nil {
		return o, err
	}
	if o.MaxDocument, err = parseSize("--max-document", f.maxDocument); err != nil {
		return o, err
	}
	if o.RootCAs, err = readAuthorities(f.ca); err != nil {
		return o, err
	}
	if o.Proxy, err = parseProxy(f.proxy); err != nil {
		return o, err
	}
	o.Credentials, err = a.credentials(u, f)
	return o, err
}

// patience sets the number of retries, the time-outs and the User-Agent.
func (f *accessFlags) patience(o *fetch.Options) error {
	if f.userAgent != "" {
		o.UserAgent = f.userAgent
	}
	if strings.ContainsFunc(f.userAgent, unicode.IsControl) {
		return usagef("--user-agent: expected one line of text")
	}
	if f.retries != nil {
		if *f.retries < 0 || *f.retries > 100 {
			return usagef("--retries %d: expected 0 to 100", *f.retries)
		}
		if o.MaxRetries = *f.retries; o.MaxRetries == 0 {
			o.MaxRetries = -1 // the option 0 means the default
		}
	}
	o.HeaderTimeout, o.IdleTimeout = f.timeout, f.timeout
	return nil
}

// readAuthorities reads the trusted certificates; nil stands for the system's.
func readAuthorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("--ca: %v", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, usagef("--ca %s: expected certificates in PEM, found none", file)
	}
	return pool, nil
}

func parseProxy(s string) (*url.URL, error) {
	if s == "" {
		return nil, nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5"):
		return nil, usagef("--proxy: expected http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT")
	case u.User != nil:
		return nil, usagef("--proxy: a password in a flag can be read by everybody on this machine; a proxy that asks for one is not supported")
	}
	return u, nil
}

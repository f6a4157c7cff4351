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

type sourceFlags struct {
	accessFlags
	sets, include, exclude, types []string
	collections, profiles, accept []string
	where                         []string
	conditions                    where.Conditions // the parsed where
	withMetadata                  bool
	workers                       int
	rate                          string
	bandwidth                     string
	maxDocument                   string
	strict                        bool
	ore                           bool
	state                         string
}

type accessFlags struct {
	allowOrigin, allowPrivate []string
	ca, proxy, userAgent      string
	retries                   *int // the number of retries; nil means the default of fetch.Options
	timeout                   time.Duration
	secretFlags
}

func (f *accessFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringArrayVar(&f.allowOrigin, "allow-origin", nil, "also fetch documents and resources from this `ORIGIN`, such as https://files.example.org (repeatable)")
	fs.StringArrayVar(&f.allowPrivate, "allow-private", nil, "also connect to the private address `HOST:PORT` (repeatable)")
	fs.StringVar(&f.ca, "ca", "", "trust the certificate authorities in this PEM `FILE` instead of those of the system")
	fs.StringVar(&f.proxy, "proxy", "", "send every request through the proxy at this `URL` (http, https or socks5)")
	fs.StringVar(&f.userAgent, "user-agent", "", "`TEXT` by which requests identify the user, such as \"library.example.org (mailto:it@example.org)\" (default: instep and its version)")
	f.retries = fs.Int("retries", 3, "repeat a request that failed temporarily up to `N` times")
	timeVar(fs, &f.timeout, "timeout", 0, "give up a request after this `TIME` without a response, or without further bytes of its body (default: 30s for the response, 60s for further bytes)")
	f.secretFlags.register(cmd)
}

func (f *sourceFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringArrayVar(&f.sets, "set", nil, "choose the set with this `NAME` or Capability List URI (repeatable; default: all)")
	fs.StringArrayVar(&f.include, "include", nil, "choose only resources whose path matches this `GLOB`, as in .gitignore: *.png, /x.png, a/ (repeatable)")
	fs.StringArrayVar(&f.exclude, "exclude", nil, "leave out resources whose path matches this `GLOB` (repeatable)")
	fs.StringArrayVar(&f.types, "type", nil, "choose only resources of this `MEDIA/TYPE` (repeatable)")
	fs.StringArrayVar(&f.collections, "only-collection", nil, "choose only resources that the Source links to the collection with this `URI` (repeatable)")
	fs.StringArrayVar(&f.profiles, "only-profile", nil, "choose only metadata that the Source links to the profile with this `URI`, such as a namespace (repeatable)")
	fs.StringArrayVar(&f.accept, "accept", nil, "if a resource has alternate representations, choose the one of this `MEDIA/TYPE` (repeatable, in order of preference)")
	fs.BoolVar(&f.withMetadata, "with-metadata", false, "also choose the metadata of resources that --include and --type choose; --only-profile then limits only this metadata")
	fs.StringArrayVar(&f.where, "where", nil, "choose only resources whose record has the text VALUE at the path XPATH: `XPATH=VALUE`; with XPATH alone, any text (repeatable; all conditions must hold)")
	fs.IntVar(&f.workers, "workers", 4, "transfer `N` resources of a host at a time, and fewer while the host is too busy")
	fs.BoolVar(&f.strict, "strict", false, "accept only resources that a sha-256 or stronger digest proves, and documents without errors")
	fs.BoolVar(&f.ore, "ore", false, "SOURCE is a Resource Map of OAI-ORE, or leads to Resource Maps: mirror the resources that they aggregate")
	fs.StringVar(&f.state, "state", "", "keep the mirror's catalog in `DIR`, outside of all mirrors, instead of in .instep inside the mirror")
	fs.StringVar(&f.maxDocument, "max-document", "", maxDocumentUsage)
	f.registerHosts(cmd)
}

func (f *sourceFlags) registerHosts(cmd *cobra.Command) {
	f.accessFlags.register(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.rate, "rate", "", "limit the requests to each host to this rate, `N/s` (0: no limit)")
	fs.StringVar(&f.bandwidth, "bwlimit", "", "transfer at most this many bytes a second in total, as `SIZE` such as 10M (0: no limit)")
}

const maxDocumentUsage = "largest `SIZE` of a document, such as 1GB (default 200MiB); a document may have 1,000,000 entries, or 5,000 for each MB if that is more"

type limitFlags struct {
	maxTransfer string
	maxTime     time.Duration
}

func (f *limitFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.maxTransfer, "max-transfer", "", "begin no further transfer after this many bytes of resources, as `SIZE` such as 10G (exit code 8)")
	timeVar(cmd.Flags(), &f.maxTime, "max-time", 0, "begin no further transfer after this `TIME`, such as 90m (exit code 10)")
}

// remainingTime returns 0 if there is no --max-time. If no time is left it returns 1 ns, because
// 0 means that there is no limit.
func (f *limitFlags) remainingTime(elapsed time.Duration) time.Duration {
	if f.maxTime == 0 {
		return 0
	}
	return max(f.maxTime-elapsed, 1)
}

type traffic struct {
	requests, bytes atomic.Int64
	url             atomic.Pointer[string] // the URL of the last response
}

func (t *traffic) observe(e fetch.Event) {
	t.requests.Add(1)
	t.url.Store(&e.URL)
}

func (t *traffic) lastPath() string {
	if uri := t.url.Load(); uri != nil {
		return urlPath(*uri)
	}
	return ""
}

// connect returns a client that trusts the host of the Source even at a private address, because
// the user named this host.
func (a *app) connect(ctx context.Context, source string, f *sourceFlags, t *traffic) (*fetch.Client, error) {
	c, err := a.newClient(source, f, t)
	if err != nil {
		return nil, err
	}
	return c, c.TrustSource(ctx, source)
}

// newClient returns a client that refuses private addresses, unless --allow-private names them.
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
		return o, usagef("SOURCE: %v", err) // may be printed, because the error quotes the URI without its password
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
	if err := f.setRequestOptions(&o); err != nil {
		return o, err
	}
	if o.RatePerHost, err = parseRate(f.rate); err != nil {
		return o, err
	}
	if o.Bandwidth, err = parseLimit("--bwlimit", strings.TrimSuffix(f.bandwidth, "/s")); err != nil {
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

func (f *accessFlags) setRequestOptions(o *fetch.Options) error {
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
			o.MaxRetries = -1 // -1 means no retries, since 0 means the default number
		}
	}
	o.HeaderTimeout, o.IdleTimeout = f.timeout, f.timeout
	return nil
}

// readAuthorities returns nil if file is "". Then the certificates of the system are used.
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
		return nil, usagef("--proxy: everybody on this machine can read a password in a flag, so proxies that require a password are not supported")
	}
	return u, nil
}

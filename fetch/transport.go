package fetch

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"time"
)

func useSystem(o *Options) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Resolve == nil {
		o.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
}

func (c *Client) transport() *http.Transport {
	o := &c.opt
	t := &http.Transport{
		DialContext:            c.dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs},
		TLSHandshakeTimeout:    connectTimeout,
		ResponseHeaderTimeout:  o.HeaderTimeout,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           o.Total,
		MaxIdleConnsPerHost:    o.PerHost,
		IdleConnTimeout:        90 * time.Second,
		ReadBufferSize:         32 << 10,
	}
	if o.Proxy != nil {
		t.Proxy = http.ProxyURL(o.Proxy)
	}
	return t
}

// If a connection is not established after stagger, the next address of the host is
// dialled concurrently.
const stagger = 250 * time.Millisecond

// dial resolves the host only once, so that the addresses that it dials are those that the
// address policy has checked.
func (c *Client) dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	addrs, err := c.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	if !c.isProxy(host, port) {
		var refused *Error
		if addrs, refused = c.policy.permitted(host, port, addrs); refused != nil {
			return nil, refused
		}
	}
	return c.race(ctx, network, port, addrs)
}

func (c *Client) isProxy(host, port string) bool {
	if c.opt.Proxy == nil {
		return false
	}
	h, p := hostPort(c.opt.Proxy)
	return h == asciiHost(host) && p == port
}

func (c *Client) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	addrs, err := c.opt.Resolve(ctx, host)
	if err == nil && len(addrs) == 0 {
		err = fmt.Errorf("the host %q has no address", host)
	}
	return addrs, err
}

// race returns the first connection that is established. It dials the addresses in order:
// the next one when an address has failed or when the time stagger has passed.
func (c *Client) race(ctx context.Context, network, port string, addrs []netip.Addr) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result)
	running, next := 0, 0
	start := func() {
		addr := net.JoinHostPort(addrs[next].String(), port)
		next++
		running++
		go func() {
			conn, err := c.opt.Dial(ctx, network, addr)
			results <- result{conn, err}
		}()
	}
	tick := time.NewTicker(stagger)
	defer tick.Stop()
	var first error
	for start(); running > 0; {
		select {
		case r := <-results:
			running--
			if r.err == nil {
				cancel()
				for range running { // close the slower connections
					if l := <-results; l.conn != nil {
						_ = l.conn.Close()
					}
				}
				return r.conn, nil
			}
			if first == nil {
				first = r.err
			}
			if next < len(addrs) && ctx.Err() == nil {
				start()
			}
		case <-tick.C:
			if next < len(addrs) {
				start()
			}
		}
	}
	return nil, first
}

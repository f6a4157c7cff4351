package fetch

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
)

type addressPolicy struct {
	hint    string                  // advice in error messages on how to allow a private address; the host:port is appended
	mu      sync.RWMutex            // guards allowed
	allowed map[string][]netip.Addr // allowed addresses by host:port; nil allows all addresses of the host:port but those of metadata services
}

func newAddressPolicy(hostports []string, hint string) (*addressPolicy, error) {
	p := &addressPolicy{hint: cmp.Or(hint, "allow it with --allow-private"), allowed: map[string][]netip.Addr{}}
	for _, hp := range hostports {
		host, port, err := net.SplitHostPort(hp)
		if err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("allowed private address %q: expected host:port", hp)
		}
		p.allowed[net.JoinHostPort(asciiHost(host), port)] = nil
	}
	return p, nil
}

// TrustSource permits connections to the Source that the user named, even if its host has
// only private addresses: those to which the host name resolves during the call, on the port
// in the URL. Behind a proxy TrustSource does nothing for a host name, since the proxy
// resolves host names.
func (c *Client) TrustSource(ctx context.Context, raw string) error {
	u, err := Parse(raw)
	if err != nil {
		return err
	}
	host, port := hostPort(u)
	if _, err := netip.ParseAddr(host); err != nil && c.opt.Proxy != nil {
		return nil
	}
	addrs, err := c.resolve(ctx, host)
	if err != nil {
		a := &attempt{c: c, start: u, tries: 1}
		return a.noAnswer(ctx, u, err)
	}
	for _, a := range addrs {
		if class := classify(a); class == public || class == metadata {
			return nil
		}
	}
	c.policy.mu.Lock()
	defer c.policy.mu.Unlock()
	hp := net.JoinHostPort(host, port)
	if known, ok := c.policy.allowed[hp]; !ok || known != nil {
		c.policy.allowed[hp] = addrs
	}
	return nil
}

// checkURL returns an error if the host of the URL is an IP address to which connections
// are not permitted. Behind a proxy this is the only check of an address, because the
// proxy resolves host names.
func (p *addressPolicy) checkURL(u *url.URL) error {
	host, port := hostPort(u)
	a, err := netip.ParseAddr(host)
	if err != nil {
		return nil
	}
	if _, e := p.permitted(host, port, []netip.Addr{a}); e != nil {
		e.URL = u.String()
		return e
	}
	return nil
}

// permitted returns the addresses to which connections are permitted. If no address is
// permitted, it returns an *Error of Kind Refused.
func (p *addressPolicy) permitted(host, port string, addrs []netip.Addr) ([]netip.Addr, *Error) {
	hp := net.JoinHostPort(asciiHost(host), port)
	p.mu.RLock()
	pinned, listed := p.allowed[hp]
	p.mu.RUnlock()
	var good []netip.Addr
	var worst addressClass
	for _, a := range addrs {
		class := classify(a)
		switch {
		case class == public, class == private && listed && (pinned == nil || slices.Contains(pinned, a)):
			good = append(good, a)
		default:
			worst = max(worst, class)
		}
	}
	if len(good) > 0 {
		return good, nil
	}
	e := &Error{Op: "get", URL: hp, Kind: Refused}
	if worst == metadata {
		e.Msg = fmt.Sprintf("%v is the address of a metadata service", addrs)
		e.Hint = "metadata services are never contacted"
		return nil, e
	}
	e.Msg = fmt.Sprintf("%s has no public address (%v)", host, addrs)
	e.Hint = p.hint + " " + hp
	e.AllowPrivate = hp
	return nil, e
}

// A higher addressClass is more dangerous.
type addressClass uint8

const (
	public addressClass = iota
	private
	metadata
)

// classify uses the IANA registries of special-purpose addresses. For an IPv6 address that
// contains an IPv4 address, it returns the more dangerous class of these two addresses.
func classify(a netip.Addr) addressClass {
	a = a.WithZone("").Unmap()
	if slices.Contains(metadataAddrs, a) {
		return metadata
	}
	if v4, ok := embeddedIPv4(a); ok {
		return max(classify(v4), classifyPrefix(a))
	}
	return classifyPrefix(a)
}

// classifyPrefix ignores an IPv4 address inside an IPv6 address.
func classifyPrefix(a netip.Addr) addressClass {
	if a.Is4() {
		if inAny(special4, a) {
			return private
		}
		return public
	}
	if nat64.Contains(a) {
		return public // a NAT64 address is only as dangerous as the IPv4 address inside it
	}
	if !global6.Contains(a) || inAny(special6, a) {
		return private
	}
	return public
}

// embeddedIPv4 returns the IPv4 address inside an IPv6 address, since a gateway may forward
// packets to the IPv4 address: NAT64 (RFC 6052), 6to4 (RFC 3056), ISATAP (RFC 5214),
// IPv4-compatible (RFC 4291).
func embeddedIPv4(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return netip.Addr{}, false
	}
	b := a.As16()
	switch {
	case nat64.Contains(a), nat64Local.Contains(a), compatible.Contains(a), isISATAP(b):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

func isISATAP(b [16]byte) bool {
	return b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

func inAny(ps []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ps, func(p netip.Prefix) bool { return p.Contains(a) })
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")
	compatible = netip.MustParsePrefix("::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
	global6    = netip.MustParsePrefix("2000::/3") // IANA assigns public IPv6 addresses only from this block

	special4 = prefixes(
		"0.0.0.0/8",       // this network
		"10.0.0.0/8",      // private
		"100.64.0.0/10",   // shared address space (carrier-grade NAT)
		"127.0.0.0/8",     // loopback
		"169.254.0.0/16",  // link-local
		"172.16.0.0/12",   // private
		"192.0.0.0/24",    // protocol assignments
		"192.0.2.0/24",    // documentation
		"192.88.99.0/24",  // 6to4 relays, deprecated
		"192.168.0.0/16",  // private
		"198.18.0.0/15",   // benchmarks
		"198.51.100.0/24", // documentation
		"203.0.113.0/24",  // documentation
		"224.0.0.0/4",     // multicast
		"240.0.0.0/4",     // reserved, broadcast
	)
	special6 = prefixes(
		"2001::/23",     // IETF protocol assignments, including Teredo, benchmarking and ORCHID
		"2001:db8::/32", // documentation
		"3fff::/20",     // documentation
	)

	// metadataAddrs are the addresses of cloud metadata services, which give the
	// credentials of the machine to any program that runs on it.
	metadataAddrs = []netip.Addr{
		netip.MustParseAddr("169.254.169.254"), // most clouds
		netip.MustParseAddr("169.254.170.2"),   // AWS container credentials
		netip.MustParseAddr("169.254.170.23"),
		netip.MustParseAddr("100.100.100.200"), // Alibaba
		netip.MustParseAddr("168.63.129.16"),   // Azure; this address is public, all others in this list are private
		netip.MustParseAddr("192.0.0.192"),     // Oracle
		netip.MustParseAddr("fd00:ec2::254"),   // AWS
		netip.MustParseAddr("fd00:ec2::23"),
		netip.MustParseAddr("fd20:ce::254"),    // Google
		netip.MustParseAddr("fe80::a9fe:a9fe"), // OpenStack
	}
)

func prefixes(ss ...string) []netip.Prefix {
	ps := make([]netip.Prefix, len(ss))
	for i, s := range ss {
		ps[i] = netip.MustParsePrefix(s)
	}
	return ps
}

package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"instep/fetch"
)

// notPublic are forms of addresses that a Source must not make us dial.
var notPublic = []string{
	"127.0.0.1", "127.1.2.3", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1",
	"100.64.0.1", "100.127.255.255", "169.254.1.1", "192.0.0.1", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1",
	"203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
	"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:0:127.0.0.1",
	"64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::a00:1", "2002:7f00:1::1", "2002:a00:1::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
	"2001:db8::1", "3fff::1", "2001:2::1", "2001:10::1", "fe80::1", "fec0::1", "fc00::1", "fd12:3456::1", "ff02::1", "100::1", "5f00::1",
	"4000::1", "2606:2800::5efe:10.0.0.1", "2606:2800::200:5efe:7f00:1",
}

// metadata are addresses of metadata services; nothing allows them.
var metadata = []string{
	"169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254",
	"::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "fe80::a9fe:a9fe",
}

var publicAddrs = []string{
	"93.184.216.34", "1.1.1.1", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "192.0.1.1",
	"198.17.255.255", "198.20.0.1", "223.255.255.255", "2606:2800:220:1::1", "2001:4860:4860::8888", "64:ff9b::5db8:d822", "2002:5db8:d822::1",
	"::ffff:93.184.216.34",
}

// dialled counts the addresses that were dialled and refuses the connection.
type dialled struct {
	mu    sync.Mutex
	addrs []string
}

func (d *dialled) dial(_ context.Context, _, addr string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addrs = append(d.addrs, addr)
	return nil, errors.New("connection refused")
}

func (d *dialled) took() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	got := d.addrs
	d.addrs = nil
	return got
}

// slots reach an address: by its literal form and by a name that resolves to it.
var slots = []string{"literal", "name"}

// get asks for a resource on addr by one of the slots.
func (d *dialled) get(t *testing.T, o fetch.Options, addr, slot string) error {
	t.Helper()
	host := "h.example.org"
	o.MaxRetries = -1
	o.Dial = d.dial
	o.Resolve = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr(addr)}, nil
	}
	if slot == "literal" {
		host = addr
		if strings.Contains(addr, ":") {
			host = "[" + addr + "]"
		}
	}
	_, err := read(t.Context(), client(t, o), "http://"+host+"/x")
	return err
}

func TestCat_NAV_04(t *testing.T) {
	var d dialled
	for _, slot := range slots {
		for _, addr := range append(notPublic, metadata...) {
			err := d.get(t, fetch.Options{}, addr, slot)
			if got := d.took(); !errors.Is(err, fetch.Refused) || len(got) > 0 {
				t.Errorf("%s %s: dialled %v, %v", slot, addr, got, err)
			}
		}
		for _, addr := range publicAddrs {
			err := d.get(t, fetch.Options{}, addr, slot)
			if got := d.took(); !errors.Is(err, fetch.Temporary) || len(got) != 1 {
				t.Errorf("%s %s: dialled %v, %v; want it dialled", slot, addr, got, err)
			}
		}
	}
}

func TestAllowedPrivateAddressIsDialledForThatHostAndPortOnly(t *testing.T) {
	var d dialled
	for _, slot := range slots {
		for _, addr := range notPublic {
			host := "h.example.org"
			if slot == "literal" {
				host = addr
			}
			allow := fetch.Options{AllowPrivate: []string{net.JoinHostPort(strings.ToUpper(host), "80")}}
			err := d.get(t, allow, addr, slot)
			if got := d.took(); !errors.Is(err, fetch.Temporary) || len(got) != 1 {
				t.Errorf("%s %s: dialled %v, %v; want it dialled", slot, addr, got, err)
			}
			other := fetch.Options{AllowPrivate: []string{net.JoinHostPort(host, "81"), "x." + "h.example.org:80"}}
			err = d.get(t, other, addr, slot)
			if got := d.took(); !errors.Is(err, fetch.Refused) || len(got) > 0 {
				t.Errorf("%s %s: dialled %v, %v; want it refused", slot, addr, got, err)
			}
		}
		for _, addr := range metadata {
			err := d.get(t, fetch.Options{AllowPrivate: []string{"h.example.org:80", net.JoinHostPort(addr, "80")}}, addr, slot)
			if got := d.took(); !errors.Is(err, fetch.Refused) || len(got) > 0 {
				t.Errorf("%s %s: dialled %v, %v; metadata must be refused", slot, addr, got, err)
			}
		}
	}
}

// Spellings that are no address to us, but may be to a resolver.
func TestOddSpellingsOfLoopbackAreRefused(t *testing.T) {
	var d dialled
	for _, host := range []string{"2130706433", "0x7f.1", "0177.0.0.1", "127.1", "0x7f000001", "localhost", "LOCALHOST.", "127.0.0.1.nip.example"} {
		o := fetch.Options{Dial: d.dial, MaxRetries: -1, Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}}
		_, err := read(t.Context(), client(t, o), "http://"+host+"/")
		if got := d.took(); !errors.Is(err, fetch.Refused) || len(got) > 0 {
			t.Errorf("%s: dialled %v, %v", host, got, err)
		}
	}
}

// A name whose answers alternate between a public and a private address never
// leads to the private one: what was checked is what is dialled.
func TestRebindingNeverReachesAPrivateAddress(t *testing.T) {
	var d dialled
	var n atomic.Int64
	o := fetch.Options{Dial: d.dial, MaxRetries: -1, Resolve: func(context.Context, string) ([]netip.Addr, error) {
		addrs := []netip.Addr{netip.MustParseAddr("93.184.216.34"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("169.254.169.254")}
		i := n.Add(1)
		return append(addrs[i%3:], addrs[:i%2]...), nil
	}}
	c := client(t, o)
	for i := range 10_000 {
		read(t.Context(), c, fmt.Sprintf("http://h%d.example.org/", i))
	}
	got := d.took()
	for _, addr := range got {
		if addr != "93.184.216.34:80" {
			t.Fatalf("dialled %s", addr)
		}
	}
	if len(got) < 3000 {
		t.Errorf("only %d dials to the public address", len(got))
	}
}

func TestSourceThatIsPrivateIsTrustedWithItsAddressOnly(t *testing.T) {
	addr := atomic.Pointer[[]netip.Addr]{}
	set := func(ss ...string) {
		var as []netip.Addr
		for _, s := range ss {
			as = append(as, netip.MustParseAddr(s))
		}
		addr.Store(&as)
	}
	var d dialled
	c := client(t, fetch.Options{Dial: d.dial, MaxRetries: -1, Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return *addr.Load(), nil
	}})
	get := func(uri string) int {
		read(t.Context(), c, uri)
		return len(d.took())
	}
	set("10.0.0.1")
	if err := c.TrustSource(t.Context(), "http://source.example.org:8080/x"); err != nil {
		t.Fatal(err)
	}
	if get("http://source.example.org:8080/y") != 1 {
		t.Error("the Source was not dialled")
	}
	if get("http://source.example.org/y") != 0 || get("http://other.example.org:8080/y") != 0 || get("http://10.0.0.1/y") != 0 {
		t.Error("another port or host was dialled")
	}
	set("10.0.0.2")
	if get("http://source.example.org:8080/y") != 0 {
		t.Error("another address than the trusted one was dialled")
	}
	for _, addrs := range [][]string{{"93.184.216.34"}, {"93.184.216.34", "10.0.0.9"}, {"169.254.169.254"}} {
		set(addrs...)
		if err := c.TrustSource(t.Context(), "http://mixed.example.org/"); err != nil {
			t.Fatal(err)
		}
		set("10.0.0.9")
		if get("http://mixed.example.org/") != 0 {
			t.Errorf("%v: trusted though not private", addrs)
		}
	}
}

func TestTrustSourceOnLoopback(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {})
	c := client(t, fetch.Options{})
	if _, err := read(t.Context(), c, s.URL); !errors.Is(err, fetch.Refused) || !strings.Contains(err.Error(), "--allow-private "+s.Listener.Addr().String()) {
		t.Errorf("got %v, want it refused with a hint", err)
	}
	if err := c.TrustSource(t.Context(), s.URL); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t.Context(), c, s.URL); err != nil {
		t.Error(err)
	}
}

func TestHostThatDoesNotExistIsNotTriedAgain(t *testing.T) {
	n := 0
	c := client(t, fetch.Options{Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
		n++
		return nil, &net.DNSError{Name: host, Err: "no such host", IsNotFound: true}
	}})
	_, err := read(t.Context(), c, "http://nowhere.example.org/")
	if !errors.Is(err, fetch.Temporary) || !strings.Contains(err.Error(), "no such host") || n != 1 {
		t.Errorf("got %v after %d tries", err, n)
	}
}

// The first address hangs; the second is tried beside it and wins.
func TestSecondAddressIsDialledWhenTheFirstHangs(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {})
	hung := make(chan bool, 1)
	c := client(t, fetch.Options{
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("2606:2800::1"), netip.MustParseAddr("93.184.216.34")}, nil
		},
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if strings.Contains(addr, "2606") {
				<-ctx.Done()
				hung <- true
				return nil, ctx.Err()
			}
			return (&net.Dialer{}).DialContext(ctx, network, s.Listener.Addr().String())
		},
	})
	if _, err := read(t.Context(), c, "http://example.org/"); err != nil {
		t.Fatal(err)
	}
	<-hung
}

// TestTrustSourceSaysWhyANameHasNoAddress, also if the name servers only fail for now.
func TestTrustSourceSaysWhyANameHasNoAddress(t *testing.T) {
	c, err := fetch.New(fetch.Options{Resolve: func(context.Context, string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "server misbehaving", Name: "source.example.org", IsTemporary: true}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.TrustSource(t.Context(), "http://source.example.org/"); !errors.Is(err, fetch.Temporary) {
		t.Errorf("got %v", err)
	}
}

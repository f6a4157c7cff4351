package fetch_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"instep/fetch"
)

// authority issues certificates for example.org.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	c := a.issue(t, func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		c.Subject.CommonName, c.DNSNames = "Authority", nil
	})
	a.cert, a.key = c.Leaf, c.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// issue makes a certificate, signed by itself if there is no authority yet.
func (a *authority) issue(t *testing.T, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "example.org"}, DNSNames: []string{"example.org"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	change(c)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func plainly(*x509.Certificate) {}

// A server that does not prove who it is, or only in a way that no longer proves
// anything, is not asked, and never in plain text.
func TestCat_FET_06(t *testing.T) {
	good, other := newAuthority(t), newAuthority(t)
	leaf := good.issue(t, plainly)
	noAuthority := &authority{leaf.Leaf, leaf.PrivateKey.(*ecdsa.PrivateKey)}
	with := func(change func(*x509.Certificate)) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{good.issue(t, change)}}
	}
	chain := noAuthority.issue(t, plainly)
	chain.Certificate = append(chain.Certificate, leaf.Certificate[0])
	tests := []struct {
		name   string
		config *tls.Config // nil: the server speaks plain HTTP
		kind   fetch.Kind
		says   string
	}{
		{"good", with(plainly), 0, ""},
		{"expired", with(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), fetch.Refused, "expired"},
		{"not valid yet", with(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), fetch.Refused, "not yet valid"},
		{"of another name", with(func(c *x509.Certificate) { c.DNSNames = []string{"example.com"} }), fetch.Refused, "not example.org"},
		{"of a part of the name", with(func(c *x509.Certificate) { c.DNSNames = []string{"*.example.org", "org"} }), fetch.Refused, "not example.org"},
		{"with the name in its subject only", with(func(c *x509.Certificate) { c.DNSNames = nil }), fetch.Refused, "not trusted"},
		{"for clients", with(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), fetch.Refused, "key usage"},
		{"signed by itself", &tls.Config{Certificates: []tls.Certificate{(&authority{}).issue(t, plainly)}}, fetch.Refused, "unknown authority"},
		{"of an unknown authority", &tls.Config{Certificates: []tls.Certificate{other.issue(t, plainly)}}, fetch.Refused, "unknown authority"},
		{"signed by who may not", &tls.Config{Certificates: []tls.Certificate{chain}}, fetch.Refused, "not trusted"},
		{"TLS 1.0", &tls.Config{Certificates: []tls.Certificate{leaf}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10}, fetch.Protocol, "refused the TLS connection"},
		{"TLS 1.1", &tls.Config{Certificates: []tls.Certificate{leaf}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, fetch.Protocol, "refused the TLS connection"},
		{"plain text", nil, fetch.Protocol, "expected TLS, but the host answers http"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serveFirstBytes(t, tt.config)
			o := fetch.Options{RootCAs: good.pool(), Backoff: 1}
			w := newWeb(t, nil)
			o.Resolve = w.options().Resolve
			o.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, s.addr)
			}
			_, err := read(t.Context(), client(t, o), "https://example.org/")
			if tt.kind == 0 && err != nil || tt.kind != 0 && (!errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("got %v, want %v: %q", err, tt.kind, tt.says)
			}
			const handshake = 0x16
			got := s.firsts()
			if len(got) != 1 || got[0] != handshake {
				t.Errorf("connections began with %x, want one with a handshake (16)", got)
			}
		})
	}
}

// firstBytes is a server that notes with which byte each connection begins.
type firstBytes struct {
	addr string
	net.Listener
	mu   sync.Mutex // guards seen
	seen []byte
}

func serveFirstBytes(t *testing.T, config *tls.Config) *firstBytes {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	f := &firstBytes{addr: s.Listener.Addr().String(), Listener: s.Listener}
	s.Listener = f
	if config != nil {
		s.TLS = config
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return f
}

func (f *firstBytes) Accept() (net.Conn, error) {
	conn, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &peeked{Conn: conn, in: bufio.NewReader(conn), f: f}, nil
}

func (f *firstBytes) firsts() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

type peeked struct {
	net.Conn
	in   *bufio.Reader
	f    *firstBytes
	once sync.Once
}

func (p *peeked) Read(b []byte) (int, error) {
	p.once.Do(func() {
		if first, err := p.in.Peek(1); err == nil {
			p.f.mu.Lock()
			p.f.seen = append(p.f.seen, first[0])
			p.f.mu.Unlock()
		}
	})
	return p.in.Read(b)
}

// A server that wants to know who asks is shown the certificate of its origin.
func TestClientCertificateIsShownToItsOrigin(t *testing.T) {
	a := newAuthority(t)
	mine := a.issue(t, func(c *x509.Certificate) { c.Subject.CommonName = "reader" })
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName, " by ", r.Proto)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.pool()}
	s.StartTLS()
	defer s.Close()
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	c := client(t, fetch.Options{RootCAs: roots, Credentials: []fetch.Credential{{Origin: s.URL, Certificate: &mine}}}, s)
	if got, err := read(t.Context(), c, s.URL); got != "reader by HTTP/2.0" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := read(t.Context(), client(t, fetch.Options{RootCAs: roots}, s), s.URL); !errors.Is(err, fetch.Protocol) {
		t.Errorf("without the certificate: got %v, want an unusable answer", err)
	}
}

package fetch

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Credential is sent only to its origin. An origin may have several credentials, but
// only one Authorization header field.
type Credential struct {
	Origin      string           // scheme://host[:port]
	Header      http.Header      // header fields, such as Authorization
	Certificate *tls.Certificate // client certificate, sent if the server requests one; only for https, at most one for each origin
}

// reservedFields are the header fields that cannot be credentials, because the client
// sets them itself or because they control the connection.
var reservedFields = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Connection": true, "Content-Length": true, "Host": true,
	"If-Match": true, "If-Modified-Since": true, "If-None-Match": true, "If-Range": true, "If-Unmodified-Since": true,
	"Keep-Alive": true, "Proxy-Connection": true, "Range": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true, "User-Agent": true,
}

// checkField returns an error if a header field cannot be a credential. The error does
// not contain the value of the field, because the value is secret.
func checkField(name, value string) error {
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return errors.New("expected the name of a header field before the colon")
	case reservedFields[http.CanonicalHeaderKey(name)]:
		return fmt.Errorf("the header field %q is not a credential", name)
	case value == "" || !httpguts.ValidHeaderFieldValue(value):
		return fmt.Errorf("the value of %q is empty or has characters that are not allowed in a header field", name)
	}
	return nil
}

func (c *Client) addCredential(cr *Credential) error {
	u, err := parseOrigin(cr.Origin)
	if err != nil {
		return err
	}
	origin := Origin(u)
	if c.creds[origin] == nil {
		c.creds[origin] = http.Header{}
	}
	for k, vs := range cr.Header {
		for _, v := range vs {
			if err := checkField(k, v); err != nil {
				return fmt.Errorf("%s: %w", origin, err)
			}
			if http.CanonicalHeaderKey(k) == "Authorization" && c.creds[origin].Get(k) != "" {
				return fmt.Errorf("%s: a request can have only one Authorization, but two are given", origin)
			}
			c.creds[origin].Add(k, v)
		}
	}
	if cr.Certificate != nil {
		return c.addCertificate(u, cr.Certificate)
	}
	return nil
}

// addCertificate makes a separate transport for the origin, so that connections to other
// origins do not use the certificate.
func (c *Client) addCertificate(u *url.URL, cert *tls.Certificate) error {
	origin := Origin(u)
	switch {
	case u.Scheme != "https":
		return fmt.Errorf("%s: a client certificate can be used only for an https origin", origin)
	case c.certified[origin] != nil:
		return fmt.Errorf("%s: an origin can have only one client certificate, but two are given", origin)
	case c.opt.Proxy != nil && c.opt.Proxy.Scheme == "https":
		return fmt.Errorf("%s: an https proxy would get the client certificate too", origin)
	}
	t := c.transport()
	t.TLSClientConfig.Certificates = []tls.Certificate{*cert}
	c.certified[origin] = t
	return nil
}

func (c *Client) roundTripper(origin string) *http.Transport {
	if t := c.certified[origin]; t != nil {
		return t
	}
	return c.rt
}

// ReadCredentials reads a list of credentials. Each line is a header field for one
// origin:
//
//	https://host[:port] Name: value
//
// It skips empty lines and lines that begin with #. An error contains the line number
// but not the value, because the value is secret.
func ReadCredentials(r io.Reader) ([]Credential, error) {
	var all []Credential
	in := bufio.NewScanner(r)
	n := 0
	for in.Scan() {
		n++
		line := strings.TrimSpace(in.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		cr, err := parseCredential(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, cr)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	return all, nil
}

func parseCredential(line string) (Credential, error) {
	bad := errors.New(`expected "https://host Name: value"`)
	i := strings.IndexAny(line, " \t")
	if i < 0 {
		return Credential{}, bad
	}
	origin, field := line[:i], strings.TrimSpace(line[i:])
	if _, err := parseOrigin(origin); err != nil {
		return Credential{}, bad // err is left out, because it could contain a part of the secret
	}
	name, value, ok := strings.Cut(field, ":")
	if !ok {
		return Credential{}, bad
	}
	value = strings.TrimSpace(value)
	if err := checkField(name, value); err != nil {
		return Credential{}, err
	}
	return Credential{Origin: origin, Header: http.Header{http.CanonicalHeaderKey(name): {value}}}, nil
}

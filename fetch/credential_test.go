package fetch_test

import (
	"crypto/tls"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"instep/fetch"
)

func TestReadCredentials(t *testing.T) {
	got, err := fetch.ReadCredentials(strings.NewReader(`
# of the museum
https://example.org Authorization: Bearer abc
https://example.org:8443	x-api-key:  k : 1

http://[::1]:8080/ Cookie: a=b; c=d
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []fetch.Credential{
		{Origin: "https://example.org", Header: http.Header{"Authorization": {"Bearer abc"}}},
		{Origin: "https://example.org:8443", Header: http.Header{"X-Api-Key": {"k : 1"}}},
		{Origin: "http://[::1]:8080/", Header: http.Header{"Cookie": {"a=b; c=d"}}},
	}
	if d := cmp.Diff(got, want); d != "" {
		t.Errorf("(-got +want):\n%s", d)
	}
}

// What cannot be read is told by its line, and without what may be secret in it.
func TestBadCredentialsAreToldByTheirLine(t *testing.T) {
	for _, line := range []string{
		"secret", "https://example.org", "https://example.org secret", "Authorization: secret",
		"example.org Authorization: secret", "https://example.org/path Authorization: secret",
		"https://u:secret@example.org Authorization: x", "ftp://example.org Authorization: secret",
		"https://example.org : secret", "https://example.org Author ization: secret", "https://example.org Authorization:",
		"https://example.org Authorization: secret\x00", "https://example.org Host: secret", "https://example.org range: secret",
		"https://example.org Content-Length: secret", "https://example.org Authorization: " + strings.Repeat("secret", 20_000),
	} {
		_, err := fetch.ReadCredentials(strings.NewReader("\n# one\n" + line + "\n"))
		if err == nil || !strings.HasPrefix(err.Error(), "line 3: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.60q: got %v, want an error for line 3 that tells nothing", line, err)
		}
	}
}

func basic(login, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(login+":"+password))
}

func TestNetrcOfAMachine(t *testing.T) {
	const file = `
# a comment with machine words
machine Example.org login one password two
machine "other.example.org"
	login "a \"b\"" account x
	password c#d
machine macro.example.org login m password n
macdef init
	machine trap.example.org login no password no
	cd /pub

machine bücher.example login b password ""
machine example.org login late password late
machine empty.example.org
default login anonymous password "me@example.org" # the rest
machine after.example.org login x password y`
	n, err := fetch.ReadNetrc(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"example.org":           basic("one", "two"),
		"EXAMPLE.ORG":           basic("one", "two"),
		"other.example.org":     basic(`a "b"`, "c#d"),
		"macro.example.org":     basic("m", "n"),
		"xn--bcher-kva.example": basic("b", ""),
		"empty.example.org":     "",
		"trap.example.org":      basic("anonymous", "me@example.org"),
		"sub.example.org":       basic("anonymous", "me@example.org"),
		"after.example.org":     basic("anonymous", "me@example.org"), // the default ends the search
	} {
		if got := n.Header(host, true).Get("Authorization"); got != want {
			t.Errorf("%s: got %q, want %q", host, got, want)
		}
	}
	for host, want := range map[string]string{"example.org": basic("one", "two"), "sub.example.org": "", "after.example.org": basic("x", "y")} {
		if got := n.Header(host, false).Get("Authorization"); got != want {
			t.Errorf("%s without the default: got %q, want %q", host, got, want)
		}
	}
}

func TestBadNetrcIsToldByItsLine(t *testing.T) {
	for _, file := range []string{
		"secret", "login secret", "machine", "machine x\nlogin", "machine x login \"secret", "machine x login \"secret\nx\"",
		"machine x password secret secret", "machine x login se:cret", "machine x user secret", strings.Repeat(" ", 1<<20) + "secret",
	} {
		_, err := fetch.ReadNetrc(strings.NewReader(file))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.40q: got %v, want an error that tells nothing", file, err)
		}
	}
	_, err := fetch.ReadNetrc(strings.NewReader("machine a\nlogin b\n\npasword c"))
	if err == nil || !strings.HasPrefix(err.Error(), "line 4: ") {
		t.Errorf("got %v, want line 4", err)
	}
}

func FuzzReadNetrc(f *testing.F) {
	f.Add("machine a login b password \"c\" default login d macdef e\nf\n\n#")
	f.Fuzz(func(t *testing.T, file string) {
		n, err := fetch.ReadNetrc(strings.NewReader(file))
		if err != nil {
			return
		}
		// Whatever was read can be sent.
		h := n.Header("a", true)
		for _, v := range h["Authorization"] {
			if !strings.HasPrefix(v, "Basic ") || strings.ContainsAny(v, "\r\n") {
				t.Errorf("Authorization %q", v)
			}
		}
	})
}

func TestCredentialsThatCannotBeBoundAreRefused(t *testing.T) {
	cert := &tls.Certificate{}
	for name, o := range map[string]fetch.Options{
		"certificate for http":      {Credentials: []fetch.Credential{{Origin: "http://example.org", Certificate: cert}}},
		"two certificates":          {Credentials: []fetch.Credential{{Origin: "https://example.org", Certificate: cert}, {Origin: "https://example.org:443", Certificate: cert}}},
		"certificate and TLS proxy": {Proxy: &url.URL{Scheme: "https", Host: "proxy.example.org"}, Credentials: []fetch.Credential{{Origin: "https://example.org", Certificate: cert}}},
		"two Authorizations":        {Credentials: []fetch.Credential{{Origin: "https://example.org", Header: http.Header{"Authorization": {"secret"}}}, {Origin: "https://example.org:443", Header: http.Header{"Authorization": {"secret2"}}}}},
		"no credential":             {Credentials: []fetch.Credential{{Origin: "https://example.org", Header: http.Header{"Range": {"secret"}}}}},
		"no field":                  {Credentials: []fetch.Credential{{Origin: "https://example.org", Header: http.Header{"X-Key": {"secret\r\nX: y"}}}}},
	} {
		if _, err := fetch.New(o); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
}

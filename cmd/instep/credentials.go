package main

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"instep/discover"
	"instep/fetch"
)

// secretFlags name files with credentials for a Source. No flag contains a secret itself, because
// everybody on a machine can read the command lines of all processes.
type secretFlags struct {
	netrc, bearer, header string
	cert, key             string
}

func (f *secretFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.netrc, "netrc", "", "log in at the Source and each --allow-origin with the logins in this netrc `FILE` (default: $NETRC or ~/.netrc, over https only)")
	flags.StringVar(&f.bearer, "bearer-file", "", "send the token in this `FILE` to the origin of SOURCE (default: $INSTEP_BEARER, over https or to this machine only)")
	flags.StringVar(&f.header, "header-file", "", "send the header fields in this `FILE`, whose lines are \"https://host Name: value\", to the origin in each line")
	flags.StringVar(&f.cert, "cert", "", "send the client certificate in this PEM `FILE` to the origin of SOURCE")
	flags.StringVar(&f.key, "key", "", "PEM `FILE` with the key of --cert (default: the file of --cert)")
}

const envBearer = "INSTEP_BEARER"

// maxSecret is the largest size of a file with secrets, in bytes.
const maxSecret = 1 << 20

func (a *app) credentials(source *url.URL, f *sourceFlags) ([]fetch.Credential, error) {
	var all []fetch.Credential
	origins := append([]string{fetch.Origin(source)}, f.allowOrigin...)
	if source.String() == discover.NoHost {
		if f.bearer != "" || f.cert != "" {
			return nil, usagef("--bearer-file and --cert are for the origin of SOURCE, but a file has no origin: use --header-file, which names the origin")
		}
		origins = f.allowOrigin
	}
	if f.header != "" {
		text, err := a.readSecret("--header-file", f.header)
		if err != nil {
			return nil, err
		}
		if all, err = fetch.ReadCredentials(bytes.NewReader(text)); err != nil {
			return nil, usagef("--header-file %s: %v", f.header, err)
		}
	}
	token, err := a.bearer(f.bearer, source, all)
	if err != nil {
		return nil, err
	}
	if token != "" {
		all = append(all, fetch.Credential{Origin: origins[0], Header: http.Header{"Authorization": {"Bearer " + token}}})
	}
	cert, err := a.certificate(f)
	if err != nil {
		return nil, err
	}
	if cert != nil {
		all = append(all, fetch.Credential{Origin: origins[0], Certificate: cert})
	}
	logins, err := a.logins(origins, f.netrc, all)
	all = append(all, logins...)
	a.warnUnencrypted(all)
	return all, err
}

// bearer returns "" if there is no token. A token from the environment was not given for a
// particular Source, so it is sent only over encrypted connections or to this machine, and only
// if there are no other credentials.
func (a *app) bearer(file string, source *url.URL, others []fetch.Credential) (string, error) {
	if file != "" {
		text, err := a.readSecret("--bearer-file", file)
		if err != nil {
			return "", err
		}
		return oneToken("--bearer-file "+file, string(text))
	}
	env := strings.TrimSpace(os.Getenv(envBearer))
	origin := fetch.Origin(source)
	if env == "" || source.String() == discover.NoHost || authorizedOrigins(others)[origin] {
		return "", nil
	}
	if isUnencrypted(source) {
		a.out.warn(warningRecord{
			Message: notSent("token of $"+envBearer, origin),
			Hint:    "give the https URI of the Source; to send the token without encryption, name a file with the token with --bearer-file",
		})
		return "", nil
	}
	return oneToken("$"+envBearer, env)
}

func notSent(secret, origin string) string {
	return fmt.Sprintf("the %s is not sent, because connections to %s are not encrypted", secret, origin)
}

func oneToken(source, text string) (string, error) {
	token := strings.TrimSpace(text)
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", usagef("%s: expected a single token", source)
	}
	return token, nil
}

// isUnencrypted returns false for http to this machine, because such requests do not cross the
// network.
func isUnencrypted(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	addr, err := netip.ParseAddr(host)
	here := err == nil && addr.Unmap().IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
	return u.Scheme == "http" && !here
}

func authorizedOrigins(all []fetch.Credential) map[string]bool {
	origins := map[string]bool{}
	for _, cr := range all {
		if u, err := fetch.Parse(cr.Origin); err == nil && cr.Header.Get("Authorization") != "" {
			origins[fetch.Origin(u)] = true
		}
	}
	return origins
}

// warnUnencrypted prints a warning about secrets that are sent unencrypted. It returns no error,
// because the user chose the origins to which they are sent.
func (a *app) warnUnencrypted(all []fetch.Credential) {
	told := map[string]bool{}
	for _, cr := range all {
		u, err := fetch.Parse(cr.Origin)
		if err != nil || !isUnencrypted(u) || told[fetch.Origin(u)] {
			continue
		}
		told[fetch.Origin(u)] = true
		a.out.warn(warningRecord{
			Message: fmt.Sprintf("secrets for %s are sent without encryption, so others can read them on the way", fetch.Origin(u)),
			Hint:    "use the https URI if there is one",
		})
	}
}

func (a *app) certificate(f *sourceFlags) (*tls.Certificate, error) {
	if f.cert == "" {
		if f.key != "" {
			return nil, usagef("--key requires --cert")
		}
		return nil, nil
	}
	key := cmp.Or(f.key, f.cert)
	text, err := a.readSecret("--key", key)
	if err != nil {
		return nil, err
	}
	chain, err := os.ReadFile(f.cert)
	if err != nil {
		return nil, usagef("--cert: %v", err)
	}
	cert, err := tls.X509KeyPair(chain, text)
	if err != nil {
		return nil, usagef("--cert %s with the key in %s: expected a certificate and its key in PEM: %v", f.cert, key, err)
	}
	return &cert, nil
}

// logins returns the logins of a netrc file for origins without an Authorization header. A netrc
// file has neither schemes nor ports, so the default file is used only over https, and without
// its default entry.
func (a *app) logins(origins []string, given string, others []fetch.Credential) ([]fetch.Credential, error) {
	asked := given != ""
	n, file, err := a.netrc(given)
	if err != nil || n == nil {
		return nil, err
	}
	taken := authorizedOrigins(others)
	var all []fetch.Credential
	var without []string
	for _, origin := range origins {
		u, err := fetch.Parse(origin)
		if err != nil {
			return nil, usagef("%v", err)
		}
		h := n.Header(u.Hostname(), asked)
		if h == nil {
			without = append(without, u.Hostname())
		}
		if h == nil || taken[origin] {
			continue
		}
		if !asked && u.Scheme != "https" {
			a.out.warn(warningRecord{
				Message: notSent("login in your netrc file", origin),
				Hint:    "give the https URI, or send the login without encryption by --netrc FILE",
			})
			continue
		}
		if !asked && len(all) == 0 {
			a.warnIfReadable(file)
		}
		taken[origin] = true
		all = append(all, fetch.Credential{Origin: origin, Header: h})
	}
	if asked && len(without) == len(origins) && len(without) > 0 {
		a.out.warn(warningRecord{Message: fmt.Sprintf("%s has no login for %s", file, strings.Join(without, ", ")), Hint: "the file has lines of the form: machine HOST login NAME password PASSWORD"})
	}
	return all, nil
}

func (a *app) netrc(given string) (n *fetch.Netrc, file string, err error) {
	if given != "" {
		text, err := a.readSecret("--netrc", given)
		if err != nil {
			return nil, "", err
		}
		if n, err = fetch.ReadNetrc(bytes.NewReader(text)); err != nil {
			return nil, "", usagef("--netrc %s: %v", given, err)
		}
		return n, given, nil
	}
	if file = os.Getenv("NETRC"); file == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, "", nil // without a home directory there is no default netrc file
		}
		file = filepath.Join(home, netrcName())
	}
	text, err := readSmall(file)
	if err == nil {
		n, err = fetch.ReadNetrc(bytes.NewReader(text))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.out.warn(warningRecord{Message: fmt.Sprintf("the netrc file %s is not used: %v", file, err)})
	}
	return n, file, nil
}

func netrcName() string {
	if runtime.GOOS == "windows" {
		return "_netrc"
	}
	return ".netrc"
}

func (a *app) readSecret(flag, file string) ([]byte, error) {
	text, err := readSmall(file)
	if err != nil {
		return nil, usagef("%s: %v", flag, err)
	}
	a.warnIfReadable(file)
	return text, nil
}

func readSmall(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err == nil && len(text) > maxSecret {
		err = fmt.Errorf("%s: expected a file of at most %d bytes", file, maxSecret)
	}
	return text, err
}

// warnIfReadable prints a warning if other users can read a file with secrets. It returns no error,
// because such files are usual in containers.
func (a *app) warnIfReadable(file string) {
	info, err := os.Stat(file)
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		a.out.warn(warningRecord{Message: fmt.Sprintf("%s contains secrets, but others on this machine can read it", file), Hint: "chmod 600 " + file})
	}
}

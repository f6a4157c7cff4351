package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"instep/discover"
	"instep/fetch"
)

// reach returns a client for a Source and the URI of the Source. The Source is given as a URI, or as
// the name of a file or directory with its documents. The caller must call closeAll.
func (a *app) reach(ctx context.Context, source string, f *sourceFlags, t *traffic) (c *fetch.Client, uri string, closeAll func(), err error) {
	name, isFile := localName(source)
	if !isFile {
		if !strings.Contains(source, "://") {
			return nil, "", nil, usagef("SOURCE: %q is neither an existing file or directory nor a URL; expected a URL such as %s", source, likelyURL(source))
		}
		if c, err = a.connect(ctx, source, f, t); err != nil {
			return nil, "", nil, err
		}
		if f.ore {
			return a.aggregatedSource(ctx, source, c)
		}
		return c, source, c.Close, nil
	}
	if f.ore {
		return nil, "", nil, usagef("--ore: expected an http or https URI as SOURCE, found a file or directory")
	}
	dir, base := name, "."
	info, err := os.Stat(name)
	if err != nil {
		return nil, "", nil, usagef("SOURCE: %v", err)
	}
	if !info.IsDir() {
		dir, base = filepath.Split(filepath.Clean(name))
		dir = filepath.Clean(dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", nil, usagef("SOURCE: %v", err)
	}
	local, err := discover.OpenLocal(root.FS(), dir, base)
	if err != nil {
		return nil, "", nil, usagef("SOURCE: %v", errors.Join(err, root.Close()))
	}
	// The documents in the file name a host. Without the user's consent this host must not get
	// secrets, or be at a private address.
	if c, err = a.newClient(discover.NoHost, f, t); err != nil {
		return nil, "", nil, errors.Join(err, root.Close())
	}
	return c.WithCache(local), local.URI, func() {
		c.Close()
		_ = root.Close()
	}, nil
}

func localName(source string) (name string, ok bool) {
	if rest, isURI := strings.CutPrefix(source, "file:"); isURI {
		u, err := url.Parse(source)
		if err != nil || u.Host != "" && u.Host != "localhost" || u.Path == "" {
			return rest, true // no file has this name, so opening it fails with an error that quotes the invalid URI
		}
		return filepath.FromSlash(u.Path), true
	}
	if strings.Contains(source, "://") {
		return "", false
	}
	_, err := os.Stat(source)
	return source, err == nil
}

// likelyURL returns the URL that a user probably means by a name without a scheme. It chooses http
// for an explicit port and for this machine, because such servers seldom have a certificate.
func likelyURL(name string) string {
	u, err := url.Parse("https://" + name)
	switch {
	case err != nil || u.User != nil || u.Hostname() == "", strings.HasPrefix(name, "."), strings.ContainsRune(name, '\\'):
		return "https://museum.example.org/"
	case u.Port() != "" && u.Port() != "443", u.Hostname() == "localhost":
		u.Scheme = "http"
	}
	return u.String()
}

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

// reach returns a client for a Source, and the URI of the Source. The Source is given
// by a URI, or by the name of a file or directory with its documents. done releases
// both.
func (a *app) reach(ctx context.Context, source string, f *sourceFlags, t *traffic) (c *fetch.Client, uri string, closeAll func(), err error) {
	name, isFile := localName(source)
	if !isFile {
		if !strings.Contains(source, "://") {
			return nil, "", nil, usagef("SOURCE: %q is neither a file or directory here nor a URL; expected one such as https://%s", source, source)
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
		return nil, "", nil, usagef("--ore: SOURCE is an http or https URI that leads to Resource Maps")
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
	// The documents state their host. The user has not agreed to send it secrets, or to
	// connect to it at a private address.
	if c, err = a.newClient(discover.NoHost, f, t); err != nil {
		return nil, "", nil, errors.Join(err, root.Close())
	}
	return c.WithCache(local), local.URI, func() {
		c.Close()
		_ = root.Close()
	}, nil
}

// localName returns the name of the file or directory that SOURCE means, if it is not a
// URI.
func localName(source string) (name string, ok bool) {
	if rest, isURI := strings.CutPrefix(source, "file:"); isURI {
		u, err := url.Parse(source)
		if err != nil || u.Host != "" && u.Host != "localhost" || u.Path == "" {
			return rest, true // the error for a missing file will name it
		}
		return filepath.FromSlash(u.Path), true
	}
	if strings.Contains(source, "://") {
		return "", false
	}
	_, err := os.Stat(source)
	return source, err == nil
}

package discover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"instep/document"
	"instep/fetch"
	"instep/resourcesync"
)

// Local is a Source whose documents are files in a directory, as "instep publish --out"
// writes them. It is used as the cache of a Client ([fetch.Client.WithCache]): then the
// Client reads all documents from the directory, and only requests resources, from the
// origin in the URIs of the documents. The documents have the same URIs as over HTTP.
type Local struct {
	URI  string // URI of the first document
	dir  string // name of the directory, as shown in messages
	fsys fs.FS
	base *url.URL // URL of the directory; its path ends with a slash
}

// NoHost is the base URI of local documents that contain no absolute links from which
// their own URI could be inferred. The host never exists (RFC 6761 §6.4).
const NoHost = "http://file.invalid/"

// firstNames are the conventional names of a first document, the preferred name first.
var firstNames = []string{
	".well-known/resourcesync", "resourcesync/description.xml", "description.xml", "sourcedescription.xml",
	"resourcesync/capabilitylist.xml", "capabilitylist.xml", "resourcelist.xml",
}

// OpenLocal opens a Source whose documents are files in fsys, which must not lead out of
// the directory. The search starts with the document name; for "." it starts with
// a document that has a conventional name. Messages show dir as the name of the directory.
func OpenLocal(fsys fs.FS, dir, name string) (*Local, error) {
	l := &Local{fsys: fsys, dir: dir}
	if name == "." {
		var err error
		if name, err = l.firstName(); err != nil {
			return nil, err
		}
	}
	links, err := l.readLinks(name)
	if err != nil {
		return nil, err
	}
	l.base = l.inferBase(name, links)
	own := *l.base
	own.Path += name
	l.URI = own.String()
	return l, nil
}

func (l *Local) firstName() (string, error) {
	for _, name := range firstNames {
		if l.hasFile(name) {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s: %w: expected ResourceSync documents, such as %s", l.dir, fs.ErrNotExist, firstNames[1])
}

func (l *Local) hasFile(name string) bool {
	info, err := fs.Stat(l.fsys, name)
	return err == nil && info.Mode().IsRegular()
}

// maxLinks is the largest number of links that inferBase tries.
const maxLinks = 100

var errLinks = errors.New("the document has more links than are read")

// readLinks returns up to maxLinks absolute links of a document, the "up" and "index"
// links first.
func (l *Local) readLinks(name string) ([]*url.URL, error) {
	f, _, err := l.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var links []*url.URL
	add := func(ref string) {
		if u, err := fetch.Parse(ref); err == nil && len(links) < maxLinks {
			links = append(links, u)
		}
	}
	in := document.Reader{Once: true, Head: maxHead, Limit: maxHead}
	in.Enough = func(d *document.Document, _ bool) bool {
		for _, rel := range []string{"up", "index"} {
			add(d.Header.Link(rel))
		}
		return !listsDocuments(d.Header.Capability) && d.Header.Root != resourcesync.SitemapIndex
	}
	in.Entry = func(_ *document.Document, e *resourcesync.Entry, err error) error {
		if add(e.Loc); len(links) == maxLinks {
			return errLinks
		}
		return err
	}
	var bad *document.Error
	if _, err := in.Take(name, &fetch.Response{Body: f}); errors.As(err, &bad) && bad.Headless {
		return nil, fmt.Errorf("%s: %w", path.Join(l.dir, name), bad.Err)
	}
	return links, nil // errors in the entries are ignored here: the search reads the document again, and reports them
}

// inferBase returns the URI of the directory: the first URI at which a link of the
// document leads to an existing file. If there is none, the document is assumed to be
// in the directory to which its first link leads.
func (l *Local) inferBase(name string, links []*url.URL) *url.URL {
	for _, u := range links {
		rest := strings.TrimPrefix(u.Path, "/")
		for rest != "" {
			if fs.ValidPath(rest) && l.hasFile(rest) {
				return directoryURI(u, strings.TrimSuffix(u.Path, rest))
			}
			_, rest, _ = strings.Cut(rest, "/")
		}
	}
	if len(links) > 0 {
		dir := path.Dir(links[0].Path)
		if own := path.Dir(name); own != "." {
			dir = strings.TrimSuffix(dir, own)
		}
		return directoryURI(links[0], strings.TrimSuffix(dir, "/")+"/")
	}
	u, _ := url.Parse(NoHost)
	return u
}

func directoryURI(u *url.URL, dir string) *url.URL {
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: dir}
}

func (l *Local) open(name string) (_ fs.File, size int64, err error) {
	f, err := l.fsys.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

var _ fetch.Cache = (*Local)(nil)

// Load implements [fetch.Cache]. It opens the file of the document with the given URI.
func (l *Local) Load(_ context.Context, uri string) (*fetch.Cached, error) {
	refuse := func(kind fetch.Kind, msg string, err error) (*fetch.Cached, error) {
		return nil, &fetch.Error{Op: "read", URL: uri, Kind: kind, Msg: msg, Err: err}
	}
	u, err := fetch.Parse(uri)
	if err != nil {
		return nil, err
	}
	name, below := strings.CutPrefix(u.Path, l.base.Path)
	if fetch.Origin(u) != fetch.Origin(l.base) || !below || u.RawQuery != "" || !fs.ValidPath(name) {
		return refuse(fetch.NotFound, fmt.Sprintf("only documents below %s can be read, from the directory %s", l.base, l.dir), nil)
	}
	f, size, err := l.open(name)
	if err != nil {
		return refuse(fetch.NotFound, "documents can only be read from the directory "+l.dir, err)
	}
	return &fetch.Cached{URL: u.String(), Length: size, Final: true, Body: f}, nil
}

// Store implements [fetch.Cache]. It does nothing, because the documents are already files.
func (l *Local) Store(context.Context, string, *fetch.Cached) {}

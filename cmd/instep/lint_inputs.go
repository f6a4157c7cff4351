package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"instep/fetch"
	"instep/internal/catalog"
	"instep/internal/spool"
	"instep/lint"
	"instep/pack"
)

// maxSpooled bounds the bytes taken from standard input, a pipe or the network: packages
// are large.
const maxSpooled = 1 << 30

// content has the bytes of an input, which can be read from any offset, several times.
type content struct {
	io.ReaderAt
	size int64
}

func (c content) open() (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(c, 0, c.size)), nil
}

// head is the first bytes.
func (c content) head() ([]byte, error) {
	b := make([]byte, min(lint.HeadSize, c.size))
	n, err := io.ReadFull(io.NewSectionReader(c, 0, c.size), b)
	return b[:n], err
}

// lintInput is something to be checked.
type lintInput struct {
	uri  string                        // name in findings
	open func() (io.ReadCloser, error) // from its first byte on; nil if it is no text with lines
}

// checkSchemes refuses URLs that nothing can fetch.
func checkSchemes(args []string) error {
	for _, arg := range args {
		if isURL(arg) {
			if _, err := fetch.Parse(arg); err != nil {
				return usagef("%v", err) // the error names it without a password
			}
		}
	}
	return nil
}

func isURL(arg string) bool { return strings.Contains(arg, "://") }

// argument checks the documents at an argument.
func (l *linter) argument(ctx context.Context, arg string) error {
	switch {
	case arg == "-":
		return l.pipe(ctx, arg, "stdin")
	case isURL(arg):
		return l.url(ctx, arg)
	}
	return l.path(ctx, arg)
}

func (l *linter) path(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return l.fail(ctx, path, err)
	case inState(path):
		return l.fail(ctx, path, errState)
	case info.IsDir():
		return l.directory(ctx, path)
	case info.Mode().IsRegular():
		return l.file(ctx, path, l.content)
	}
	return l.pipe(ctx, path, path)
}

var (
	errState   = errors.New("this is in a state directory of instep, which holds no documents for others")
	errNothing = errors.New("there is no ResourceSync document in it, nor anything that claims to be one")
)

// inState reports whether a path leads into a state directory: one that has our name, or
// one that holds a catalog.
func inState(path string) bool {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	if slices.Contains(strings.Split(filepath.ToSlash(path), "/"), ".instep") {
		return true
	}
	for at := path; at != filepath.Dir(at); at = filepath.Dir(at) {
		if catalog.IsStateName(filepath.Base(at)) && isState(filepath.Dir(at)) {
			return true
		}
	}
	return isState(path)
}

// isState reports whether a directory is a state directory. One that cannot be read is none.
func isState(dir string) bool {
	found, err := catalog.IsState(dir, os.Stat, os.Open)
	return found && err == nil
}

// file opens a file and passes its content to check.
func (l *linter) file(ctx context.Context, path string, check func(context.Context, string, content) error) error {
	f, err := os.Open(path)
	if err != nil {
		return l.fail(ctx, path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return l.fail(ctx, path, err)
	}
	return check(ctx, path, content{f, info.Size()})
}

// directory checks the files that are documents, or claim to be by their name. It skips
// states and hidden directories except .well-known.
func (l *linter) directory(ctx context.Context, dir string) error {
	before := l.checked + l.failed
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return l.fail(ctx, path, err)
		case d.IsDir() && path != dir && (isState(path) || strings.HasPrefix(d.Name(), ".") && d.Name() != ".well-known"):
			return fs.SkipDir
		case d.Type().IsRegular() && lint.Candidate(path):
			return l.file(ctx, path, l.candidate)
		}
		return nil
	})
	if err == nil && l.checked+l.failed == before {
		return l.fail(ctx, dir, fmt.Errorf("%q: %w", dir, errNothing))
	}
	return err
}

// candidate checks a file of a directory if it claims to be for us.
func (l *linter) candidate(ctx context.Context, path string, c content) error {
	head, err := c.head()
	if err != nil {
		return l.fail(ctx, path, err)
	}
	switch isZIP := lint.Recognise(path, head) == lint.FormPackage; {
	case isZIP && !hasManifest(c), !isZIP && !lint.Claims(path, head):
		return nil
	}
	return l.content(ctx, path, c)
}

// hasManifest reports whether a ZIP file is a package of some Source.
func hasManifest(c content) bool {
	p, err := pack.Open(c, c.size, pack.Limits{Tolerant: true})
	if err != nil {
		return false
	}
	_, m, err := p.Manifest()
	if err != nil {
		return !errors.Is(err, pack.ErrNoManifest)
	}
	_ = m.Close() // nothing was read
	return true
}

// pipe takes all of something that can be read only once, and checks it.
func (l *linter) pipe(ctx context.Context, name, uri string) error {
	r, err := openDocument(ctx, name)
	if err != nil {
		return l.fail(ctx, uri, err)
	}
	f, err := spoolAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return l.fail(ctx, uri, fmt.Errorf("read %q: %w", uri, err))
	}
	defer f.Close()
	return l.content(ctx, uri, content{f, f.Len()})
}

// spoolAll takes all that r has.
func spoolAll(r io.Reader) (*spool.File, error) {
	f := spool.NewFile("", maxSpooled)
	w := &ours{w: f}
	if _, err := io.Copy(w, r); err != nil {
		if w.err != nil && !errors.Is(w.err, spool.ErrLimit) {
			err = &fatalError{w.err}
		}
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ours remembers that it was the writer that failed.
type ours struct {
	w   io.Writer
	err error
}

func (o *ours) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	o.err = err
	return n, err
}

// url checks the document at a URL.
func (l *linter) url(ctx context.Context, uri string) error {
	if l.maps && l.sample != 0 {
		return l.resourceMaps(ctx, uri)
	}
	client, err := l.connect(ctx, uri)
	if err != nil {
		return l.fail(ctx, uri, err)
	}
	f, a, err := download(ctx, client, uri)
	switch {
	case err != nil && l.sample != 0 && isSite(uri, err):
		return l.site(ctx, uri, refusal(err))
	case err != nil:
		return l.fail(ctx, uri, err)
	}
	defer f.Close()
	if a.URL != uri {
		l.a.out.say("%s: answered by %s", uri, a.URL)
	}
	if err := l.links(ctx, uri, a); err != nil {
		return err
	}
	c := content{f, f.Len()}
	if head, err := c.head(); err == nil && lint.Recognise(uri, head) == lint.FormHTML {
		return l.page(ctx, uri, c, &a)
	}
	return l.answer(ctx, uri, c, &a)
}

// download reads the whole answer of a URL, with its header.
func download(ctx context.Context, client *fetch.Client, uri string) (*spool.File, lint.Answer, error) {
	resp, err := client.Document(ctx, uri, maxSpooled, fetch.Validators{})
	if err != nil {
		return nil, lint.Answer{}, err
	}
	f, err := spoolAll(resp.Body)
	return f, lint.Answer{URL: resp.URL, Header: resp.Header}, errors.Join(err, resp.Body.Close())
}

// links checks the Link headers of a response, if there are any.
func (l *linter) links(ctx context.Context, uri string, a lint.Answer) error {
	values := a.Header.Values("Link")
	if len(values) == 0 {
		return nil
	}
	return l.document(ctx, &lintInput{uri: uri}, func(_ context.Context, uri string, _ io.Reader) (lint.Document, error) {
		l.checker.LinkHeader(uri, values)
		d := lint.Document{URI: uri, Kind: "http"}
		if l.sample == 0 {
			return d, nil
		}
		_, err := l.live().LinkHeader(ctx, uri, a)
		return d, err
	})
}

// connect returns the client for a URL, the same for all of one origin: secrets are for
// the origin of the URL given.
func (l *linter) connect(ctx context.Context, uri string) (*fetch.Client, error) {
	u, err := fetch.Parse(uri)
	if err != nil {
		return nil, err
	}
	origin := fetch.Origin(u)
	if l.client = l.clients[origin]; l.client != nil {
		return l.client, nil
	}
	f := sourceFlags{workers: 1, accessFlags: *l.access, maxDocument: l.maxDocument}
	if l.client, err = l.a.connect(ctx, uri, &f, &l.net); err != nil {
		return nil, err
	}
	l.clients[origin] = l.client
	return l.client, nil
}

// live makes the checks that send requests.
func (l *linter) live() *lint.Live {
	return &lint.Live{Checker: &l.checker, Client: l.client, Sample: l.sample, Now: l.a.now, Unchecked: l.out.unchecked}
}

// content checks an input according to its form.
func (l *linter) content(ctx context.Context, uri string, c content) error {
	return l.answer(ctx, uri, c, nil)
}

// answer checks an input according to its form; a is the answer that it was served with,
// nil if it was not served.
func (l *linter) answer(ctx context.Context, uri string, c content, a *lint.Answer) error {
	head, err := c.head()
	if err != nil {
		return l.fail(ctx, uri, fmt.Errorf("read %q: %w", uri, err))
	}
	if l.maps {
		return l.mapDocument(ctx, uri, c)
	}
	in := &lintInput{uri: uri, open: c.open}
	switch lint.Recognise(uri, head) {
	case lint.FormPackage:
		return l.pkg(ctx, uri, c)
	case lint.FormHTML:
		return l.document(ctx, in, func(ctx context.Context, uri string, r io.Reader) (lint.Document, error) {
			return l.html(ctx, uri, r, a, c)
		})
	case lint.FormRobots:
		return l.robots(ctx, in, a)
	}
	var opts []lint.Option
	if lint.IsPlainSitemap(uri, head) {
		opts = append(opts, lint.WithKind(lint.KindSitemap))
	}
	return l.document(ctx, in, func(ctx context.Context, uri string, r io.Reader) (lint.Document, error) {
		d, err := l.checker.Document(ctx, uri, r, opts...)
		if err != nil || a == nil || l.sample == 0 || d.Capability == "" {
			return d, err
		}
		if err := l.live().Document(ctx, d, *a, c.open); err != nil {
			return d, err
		}
		return d, l.live().Source(ctx, *a, d)
	})
}

func (l *linter) html(ctx context.Context, uri string, r io.Reader, a *lint.Answer, c content) (lint.Document, error) {
	d := lint.Document{URI: uri, Kind: "html"}
	if err := l.checker.HTML(ctx, uri, r); err != nil || a == nil || l.sample == 0 {
		return d, err
	}
	again, err := c.open()
	if err != nil {
		return d, err
	}
	defer again.Close()
	_, err = l.live().HTML(ctx, uri, a.URL, again)
	return d, err
}

// robots checks a robots.txt and, if it was served, the sitemaps that it offers to search
// engines.
func (l *linter) robots(ctx context.Context, in *lintInput, a *lint.Answer) error {
	var offered []string
	err := l.document(ctx, in, func(ctx context.Context, uri string, r io.Reader) (lint.Document, error) {
		targets, err := l.checker.Robots(ctx, uri, r)
		offered = targets
		return lint.Document{URI: uri, Kind: "robots"}, err
	})
	if err != nil || a == nil {
		return err
	}
	if l.sample >= 0 {
		offered = offered[:min(len(offered), l.sample)]
	}
	for _, uri := range offered {
		if !isURL(uri) {
			continue // already reported
		}
		if err := l.sitemap(ctx, a.URL, uri); err != nil {
			return err
		}
	}
	return nil
}

// sitemap checks a sitemap that a robots.txt offers to search engines.
func (l *linter) sitemap(ctx context.Context, robots, uri string) error {
	f, _, err := download(ctx, l.client, uri)
	if err != nil {
		return l.fail(ctx, uri, err)
	}
	defer f.Close()
	in := &lintInput{uri: uri, open: content{f, f.Len()}.open}
	return l.document(ctx, in, func(ctx context.Context, uri string, r io.Reader) (lint.Document, error) {
		return l.checker.Document(ctx, uri, r, lint.WithKind(lint.KindSitemap), lint.WithSite(robots))
	})
}

// pkg checks the manifest of a package.
func (l *linter) pkg(ctx context.Context, uri string, c content) error {
	p, err := pack.Open(c, c.size, pack.Limits{Tolerant: true})
	if err != nil {
		return l.fail(ctx, uri, fmt.Errorf("open %q: %w", uri, err))
	}
	name, m, err := p.Manifest()
	if err != nil {
		return l.fail(ctx, uri, fmt.Errorf("open %q: %w", uri, err))
	}
	if err := m.Close(); err != nil {
		return l.fail(ctx, uri, err)
	}
	for _, flaw := range p.Flaws() {
		l.a.out.say("%s: a careful Destination refuses this package: %v", uri, flaw)
	}
	in := &lintInput{uri: uri + "!" + name, open: func() (io.ReadCloser, error) {
		_, m, err := p.Manifest()
		return m, err
	}}
	return l.document(ctx, in, func(ctx context.Context, uri string, r io.Reader) (lint.Document, error) {
		return l.checker.Document(ctx, uri, r, lint.WithKind("resourcedump-manifest", "changedump-manifest"))
	})
}

// document has one document checked and reported.
func (l *linter) document(ctx context.Context, in *lintInput, check func(context.Context, string, io.Reader) (lint.Document, error)) error {
	var r io.Reader
	if in.open != nil {
		rc, err := in.open()
		if err != nil {
			return l.fail(ctx, in.uri, err)
		}
		defer rc.Close()
		r = rc
	}
	l.out.begin(in)
	before := l.counts
	d, err := check(ctx, in.uri, r)
	if err == nil || l.counts != before {
		if err := l.out.document(d); err != nil {
			return err
		}
	}
	if err != nil {
		return l.fail(ctx, in.uri, err)
	}
	l.checked++
	return nil
}

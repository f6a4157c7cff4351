package inputs

import (
	"context"
	"fmt"
	"io"

	"instep/lint"
	"instep/pack"
)

// content checks an input in the way that its form (document, page, robots.txt or
// package) requires.
func (l *Linter) content(ctx context.Context, uri string, c content) error {
	return l.answer(ctx, uri, c, nil)
}

// answer checks an input in the way that its form (document, page, robots.txt or
// package) requires. a describes the HTTP response that contained the input; nil if the
// input was not served.
func (l *Linter) answer(ctx context.Context, uri string, c content, a *lint.Answer) error {
	head, err := c.head()
	if err != nil {
		return l.fail(ctx, uri, fmt.Errorf("read %q: %w", uri, err))
	}
	if l.maps() {
		return l.mapDocument(ctx, uri, c)
	}
	in := &Input{URI: uri, Open: c.open}
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
		d, err := l.checker().Document(ctx, uri, r, opts...)
		if err != nil || a == nil || l.Sample == 0 || d.Capability == "" {
			return d, err
		}
		if err := l.live().Document(ctx, d, *a, c.open); err != nil {
			return d, err
		}
		return d, l.live().Source(ctx, *a, d)
	})
}

func (l *Linter) html(ctx context.Context, uri string, r io.Reader, a *lint.Answer, c content) (lint.Document, error) {
	d := lint.Document{URI: uri, Kind: "html"}
	if err := l.checker().HTML(ctx, uri, r); err != nil || a == nil || l.Sample == 0 {
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

// robots checks a robots.txt. If it was served, robots also checks the Sitemaps that it
// names.
func (l *Linter) robots(ctx context.Context, in *Input, a *lint.Answer) error {
	var offered []string
	err := l.document(ctx, in, func(ctx context.Context, uri string, r io.Reader) (lint.Document, error) {
		targets, err := l.checker().Robots(ctx, uri, r)
		offered = targets
		return lint.Document{URI: uri, Kind: "robots"}, err
	})
	if err != nil || a == nil {
		return err
	}
	if l.Sample >= 0 {
		offered = offered[:min(len(offered), l.Sample)]
	}
	for _, uri := range offered {
		if !IsURL(uri) {
			continue // already reported
		}
		if err := l.sitemap(ctx, a.URL, uri); err != nil {
			return err
		}
	}
	return nil
}

// sitemap checks a Sitemap that robots.txt names for search engines.
func (l *Linter) sitemap(ctx context.Context, robots, uri string) error {
	f, _, err := download(ctx, l.client, uri)
	if err != nil {
		return l.fail(ctx, uri, err)
	}
	defer f.Close()
	in := &Input{URI: uri, Open: content{f, f.Len()}.open}
	return l.document(ctx, in, func(ctx context.Context, uri string, r io.Reader) (lint.Document, error) {
		return l.checker().Document(ctx, uri, r, lint.WithKind(lint.KindSitemap), lint.WithSite(robots))
	})
}

// pkg checks the manifest of a package.
func (l *Linter) pkg(ctx context.Context, uri string, c content) error {
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
		l.Report.Note(uri, fmt.Sprintf("a careful Destination refuses this package: %v", flaw))
	}
	in := &Input{URI: uri + "!" + name, Open: func() (io.ReadCloser, error) {
		_, m, err := p.Manifest()
		return m, err
	}}
	return l.document(ctx, in, func(ctx context.Context, uri string, r io.Reader) (lint.Document, error) {
		return l.checker().Document(ctx, uri, r, lint.WithKind("resourcedump-manifest", "changedump-manifest"))
	})
}

package inputs

import (
	"context"
	"fmt"
	"io"

	"instep/lint"
	"instep/pack"
)

func (l *Linter) checkContent(ctx context.Context, uri string, c content) error {
	return l.checkAnswer(ctx, uri, c, nil)
}

// checkAnswer checks the body of an HTTP response or, if answer is nil, any other input.
func (l *Linter) checkAnswer(ctx context.Context, uri string, c content, answer *lint.Answer) error {
	head, err := c.firstBytes()
	if err != nil {
		return l.fail(ctx, uri, fmt.Errorf("read %q: %w", uri, err))
	}
	if l.checksMaps() {
		return l.checkMapDocument(ctx, uri, c)
	}
	in := &Input{URI: uri, Open: c.open}
	switch lint.Recognise(uri, head) {
	case lint.FormPackage:
		return l.checkPackage(ctx, uri, c)
	case lint.FormHTML:
		return l.checkDocument(ctx, in, func(ctx context.Context, uri string, r io.Reader) (lint.Document, error) {
			return l.checkHTML(ctx, uri, r, answer, c)
		})
	case lint.FormRobots:
		return l.checkRobots(ctx, in, answer)
	}
	var opts []lint.Option
	if lint.IsPlainSitemap(uri, head) {
		opts = append(opts, lint.WithKind(lint.KindSitemap))
	}
	return l.checkDocument(ctx, in, func(ctx context.Context, uri string, r io.Reader) (lint.Document, error) {
		d, err := l.checker().Document(ctx, uri, r, opts...)
		if err != nil || answer == nil || l.Sample == 0 || d.Capability == "" {
			return d, err
		}
		if err := l.liveChecks().Document(ctx, &d, *answer, c.open); err != nil {
			return d, err
		}
		return d, l.liveChecks().Source(ctx, *answer, d)
	})
}

func (l *Linter) checkHTML(ctx context.Context, uri string, r io.Reader, a *lint.Answer, c content) (lint.Document, error) {
	d := lint.Document{URI: uri, Kind: "html"}
	if err := l.checker().HTML(ctx, uri, r); err != nil || a == nil || l.Sample == 0 {
		return d, err
	}
	again, err := c.open()
	if err != nil {
		return d, err
	}
	defer again.Close()
	_, err = l.liveChecks().HTML(ctx, uri, a.URL, again)
	return d, err
}

// checkRobots checks a robots.txt. If it comes from a server, the Sitemaps that it names are checked
// as well (see Linter.Sample).
func (l *Linter) checkRobots(ctx context.Context, in *Input, a *lint.Answer) error {
	var offered []string
	err := l.checkDocument(ctx, in, func(ctx context.Context, uri string, r io.Reader) (lint.Document, error) {
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
		if err := l.checkSitemap(ctx, a.URL, uri); err != nil {
			return err
		}
	}
	return nil
}

func (l *Linter) checkSitemap(ctx context.Context, robots, uri string) error {
	f, _, err := download(ctx, l.client, uri)
	if err != nil {
		return l.fail(ctx, uri, err)
	}
	defer f.Close()
	in := &Input{URI: uri, Open: content{f, f.Len()}.open}
	return l.checkDocument(ctx, in, func(ctx context.Context, uri string, r io.Reader) (lint.Document, error) {
		return l.checker().Document(ctx, uri, r, lint.WithKind(lint.KindSitemap), lint.WithSite(robots))
	})
}

func (l *Linter) checkPackage(ctx context.Context, uri string, c content) error {
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
	return l.checkDocument(ctx, in, func(ctx context.Context, uri string, r io.Reader) (lint.Document, error) {
		return l.checker().Document(ctx, uri, r, lint.WithKind("resourcedump-manifest", "changedump-manifest"))
	})
}

package inputs

import (
	"context"
	"fmt"
	"io"

	"instep/lint"
	"instep/ore"
)

// maxFindings is the largest number of findings that are kept until the search for Resource Maps
// has ended.
const maxFindings = 100_000

// findingsByURI collects findings until they are reported document by document.
type findingsByURI struct {
	uris  []string // the URI where the search began, and then the other URIs in the order of their first findings
	found map[string][]lint.Finding
	n     int
}

func (b *findingsByURI) add(f lint.Finding) {
	if b.n++; b.n > maxFindings {
		return
	}
	if _, ok := b.found[f.URI]; !ok {
		b.uris = append(b.uris, f.URI)
	}
	b.found[f.URI] = append(b.found[f.URI], f)
}

func (l *Linter) checkResourceMaps(ctx context.Context, uri string) error {
	c, err := l.connect(ctx, uri)
	if err != nil {
		return l.fail(ctx, uri, err)
	}
	requests := 0 // 0 means the default limit of ore.Finder
	if l.Sample > 0 {
		requests = 2 + 2*l.Sample
	}
	all := &findingsByURI{uris: []string{uri}, found: map[string][]lint.Finding{uri: nil}}
	checker := l.Checker
	checker.Report = all.add
	var stop error
	rep, err := checker.ResourceMaps(ctx, ore.Finder{
		Client: c, Requests: requests,
		Failed: func(at string, err error) {
			if err := l.fail(ctx, at, err); err != nil && stop == nil {
				stop = err
			}
		},
	}, uri)
	switch {
	case err != nil:
		return l.fail(ctx, uri, err)
	case stop != nil:
		return stop
	}
	l.Report.Note(uri, fmt.Sprintf("%d Resource Maps", rep.Maps))
	return l.reportAll(ctx, all)
}

func (l *Linter) reportAll(ctx context.Context, all *findingsByURI) error {
	for _, uri := range all.uris {
		err := l.checkDocument(ctx, &Input{URI: uri}, func(context.Context, string, io.Reader) (lint.Document, error) {
			for _, f := range all.found[uri] {
				l.finding(f)
			}
			return lint.Document{URI: uri, Profile: lint.ProfileORE, Complete: true}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Linter) checkMapDocument(ctx context.Context, uri string, c content) error {
	return l.checkDocument(ctx, &Input{URI: uri, Open: c.open}, func(ctx context.Context, uri string, r io.Reader) (lint.Document, error) {
		return lint.Document{URI: uri, Profile: lint.ProfileORE, Complete: true}, l.checker().ResourceMapDocument(ctx, uri, r)
	})
}

package inputs

import (
	"context"
	"errors"
	"io"

	"instep/fetch"
	"instep/internal/spool"
	"instep/lint"
)

func (l *Linter) checkURL(ctx context.Context, uri string) error {
	if l.checksMaps() && l.Sample != 0 {
		return l.checkResourceMaps(ctx, uri)
	}
	client, err := l.connect(ctx, uri)
	if err != nil {
		return l.fail(ctx, uri, err)
	}
	f, a, err := download(ctx, client, uri)
	switch {
	case err != nil && l.Sample != 0 && isSite(uri, err):
		return l.checkSite(ctx, uri, deniedOnly(err))
	case err != nil:
		return l.fail(ctx, uri, err)
	}
	defer f.Close()
	if a.URL != uri {
		l.Report.Note(uri, "answered by "+a.URL)
	}
	if err := l.checkLinks(ctx, uri, a); err != nil {
		return err
	}
	c := content{f, f.Len()}
	if head, err := c.firstBytes(); err == nil && lint.Recognise(uri, head) == lint.FormHTML {
		return l.checkPage(ctx, uri, c, &a)
	}
	return l.checkAnswer(ctx, uri, c, &a)
}

func download(ctx context.Context, client *fetch.Client, uri string) (*spool.File, lint.Answer, error) {
	resp, err := client.Document(ctx, uri, maxSpooled, fetch.Validators{})
	if err != nil {
		return nil, lint.Answer{}, err
	}
	f, err := spoolAll(resp.Body)
	return f, lint.Answer{URL: resp.URL, Header: resp.Header}, errors.Join(err, resp.Body.Close())
}

func (l *Linter) checkLinks(ctx context.Context, uri string, a lint.Answer) error {
	values := a.Header.Values("Link")
	if len(values) == 0 {
		return nil
	}
	return l.checkDocument(ctx, &Input{URI: uri}, func(_ context.Context, uri string, _ io.Reader) (lint.Document, error) {
		l.checker().LinkHeader(uri, values)
		d := lint.Document{URI: uri, Kind: "http"}
		if l.Sample == 0 {
			return d, nil
		}
		_, err := l.liveChecks().LinkHeader(ctx, uri, a)
		return d, err
	})
}

// connect uses one client for all URLs of an origin.
func (l *Linter) connect(ctx context.Context, uri string) (*fetch.Client, error) {
	u, err := fetch.Parse(uri)
	if err != nil {
		return nil, err
	}
	origin := fetch.Origin(u)
	if l.client = l.clients[origin]; l.client != nil {
		return l.client, nil
	}
	if l.client, err = l.Connect(ctx, uri); err != nil {
		return nil, err
	}
	if l.clients == nil {
		l.clients = map[string]*fetch.Client{}
	}
	l.clients[origin] = l.client
	return l.client, nil
}

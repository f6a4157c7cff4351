package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"time"

	"instep/fetch"
	"instep/internal/catalog"
	"instep/internal/oaipmh"
	"instep/internal/publish"
	"instep/internal/repository"
)

// oaiPath is the path below the base URL at which OAI-PMH requests are answered.
const oaiPath = "resourcesync/oai-pmh"

func (c *configuration) repositoryOf(ctx context.Context, now func() time.Time) (h *oaipmh.Handler, closeAll func() error, err error) {
	contact, err := mail.ParseAddress(strings.TrimPrefix(c.Source.Contact, "mailto:"))
	if err != nil {
		return nil, nil, c.errorAt("source.contact", errors.New("--oai-pmh: expected the e-mail address of an administrator, which OAI-PMH requires of every repository"))
	}
	placed, err := c.placedSite()
	if err != nil {
		return nil, nil, err
	}
	p := &repository.Published{BaseURL: c.BaseURL, Name: cmp.Or(c.Source.Title, c.BaseURL), Emails: []string{contact.Address}, Stores: map[repository.Key]*repository.Store{}}
	var closers []func() error
	closeAll = func() (err error) {
		for _, c := range closers {
			err = errors.Join(err, c())
		}
		return err
	}
	if err = c.openRepository(ctx, p, placed.State, now, &closers); err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	return &oaipmh.Handler{Repository: p, BaseURL: c.BaseURL + oaiPath, Now: now}, closeAll, nil
}

func (c *configuration) openRepository(ctx context.Context, p *repository.Published, state string, now func() time.Time, closers *[]func() error) error {
	db, err := catalog.Open(ctx, catalog.Options{Path: filepath.Join(state, catalog.FileName), Now: now})
	if err != nil {
		return fmt.Errorf("--oai-pmh: open the catalog, which is made by the first publication: %w", err)
	}
	*closers = append(*closers, db.Close)
	dir := cmp.Or(c.Dir, c.Out)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	*closers = append(*closers, root.Close)
	p.Catalog, p.Files = db.Facts, publish.Files{Root: root}
	docs, err := os.OpenRoot(cmp.Or(c.Out, dir))
	if err != nil {
		return err
	}
	*closers = append(*closers, docs.Close)
	p.Maps = &repository.Maps{Items: db.Publisher, Files: publish.Files{Root: docs}}
	sets, err := db.Facts.Sets(ctx)
	if err != nil {
		return err
	}
	for i := range c.Sets {
		s := repository.PublishedSet{Name: c.Sets[i].Name, Title: c.Sets[i].Title}
		for _, known := range sets {
			if known.Name == s.Name {
				s.ID = known.ID
			}
		}
		if c.Sets[i].From.OAI != "" {
			key := c.Sets[i].From.recordKey()
			st, err := repository.Open(ctx, state, key)
			if err != nil {
				return err
			}
			*closers = append(*closers, st.Close)
			s.Harvest, p.Stores[key] = &key, st
		}
		p.Shown = append(p.Shown, s)
	}
	return nil
}

// gatewayOf returns nil if no repositories are given. A repository whose host cannot be resolved
// now can be used later, but only at a public address.
func (a *app) gatewayOf(ctx context.Context, repositories []string) (*oaipmh.Gateway, error) {
	if len(repositories) == 0 {
		return nil, nil
	}
	client, err := fetch.New(fetch.Options{UserAgent: "instep/" + version + " (pmh2ore gateway)"})
	if err != nil {
		return nil, err
	}
	g, err := oaipmh.NewGateway(client, repositories)
	if err != nil {
		return nil, usagef("--pmh2ore: %v", err)
	}
	if err := g.Trust(ctx); err != nil {
		a.warnOfServer(fmt.Errorf("--pmh2ore: %w", err))
	}
	return g, ctx.Err()
}

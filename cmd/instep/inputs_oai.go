package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"instep/blob"
	"instep/fetch"
	"instep/internal/oaipmh"
	"instep/internal/repository"
	"instep/internal/scan"
)

// defaultPrefix is the metadata format that every OAI-PMH repository must support.
const defaultPrefix = "oai_dc"

// setRequest takes the base URL of the repository, the set and the metadataPrefix from the URL of
// an OAI-PMH request.
func (f *fromConfig) setRequest(text string) error {
	u, err := fetch.Parse(text)
	if err != nil {
		return err
	}
	var own []string
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(part, "=")
		value, err := url.QueryUnescape(value)
		switch {
		case part == "" || name == "verb":
		case err != nil:
			return err
		case name == "set":
			f.Set = value
		case name == "metadataPrefix":
			f.Prefix = value
		case name == "from" || name == "until" || name == "resumptionToken":
			return fmt.Errorf("expected no %s, because the first run publishes all records, and later runs publish the changed ones", name)
		default:
			own = append(own, part)
		}
	}
	u.RawQuery = strings.Join(own, "&")
	f.OAI = u.String()
	return nil
}

// makesDir reports whether makeDir would create the directory for harvested records.
func (c *configuration) makesDir() bool {
	if !slices.ContainsFunc(c.Sets, func(s setConfig) bool { return s.From.OAI != "" }) {
		return false
	}
	_, err := os.Stat(cmp.Or(c.Dir, c.Out))
	return errors.Is(err, fs.ErrNotExist)
}

func (c *configuration) makeDir() error {
	if !c.makesDir() {
		return nil
	}
	return os.MkdirAll(cmp.Or(c.Dir, c.Out), 0o755)
}

func (f *fromConfig) recordKey() repository.Key {
	return repository.Key{BaseURL: f.OAI, Prefix: cmp.Or(f.Prefix, defaultPrefix), Set: f.Set}
}

// recordsInput returns an input whose store and directory stay open until the program ends.
func (f *fromConfig) recordsInput(set *setConfig, dir string) func(*fetch.Client, scan.Deps) (scan.Input, error) {
	files := sync.OnceValues(func() (*blob.Dir, error) {
		b, err := blob.OpenDir(dir, blob.DirOptions{Temp: ".instep/records", FileMode: 0o644, DirMode: 0o755})
		if err == nil {
			err = b.Clean(context.Background())
		}
		return b, err
	})
	tree := sync.OnceValues(func() (*os.Root, error) { return os.OpenRoot(dir) })
	return func(c *fetch.Client, deps scan.Deps) (scan.Input, error) {
		root, err := tree()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", scan.ErrRoot, err)
		}
		client := &oaipmh.Client{Fetch: c, BaseURL: f.OAI, MaxAnswer: int64(f.MaxDocument)}
		in := &repository.Input{
			List: &scan.List{Deps: deps, Client: c, Tree: scan.RootTree(root), Include: set.Include, Exclude: set.Exclude, Rules: set.rules()},
			Harvest: &repository.Harvest{Client: client, Prefix: f.recordKey().Prefix, Set: f.Set, Now: deps.Now,
				Overlap: time.Duration(f.Overlap), FullEvery: time.Duration(f.FullEvery)},
			State: deps.State, Key: f.recordKey(), DryRun: deps.DryRun,
		}
		client.Observe = in.Observe
		if f.WithFiles {
			own, err := fetch.Parse(f.OAI)
			if err != nil {
				return nil, err
			}
			in.WithFiles = &repository.Follower{Fetch: c, Origins: append(f.allowedOrigins(), fetch.Origin(own))}
		}
		if !deps.DryRun {
			in.Files, err = files()
		}
		return in, err
	}
}

package repository

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/sync/errgroup"

	"instep/fetch"
	"instep/internal/scan"
	"instep/internal/weblink"
)

// Limits for the links in records.
const (
	maxLinks   = 5         // largest number of links that are followed for one record
	maxItems   = 100       // largest number of files that are taken from one page
	maxPage    = 512 << 10 // largest number of bytes that are read from one page
	followAt   = 4         // number of concurrent requests for links of records
	followSize = 100       // number of records whose links are followed between two commits
)

// Follower finds the files to which records link. It takes the URLs in elements of the
// metadata that are called "identifier" or "url", such as dc:identifier. If such a URL
// leads to a page, the files are the targets of the links with rel="item" in the Link header
// or HTML head of the page (Signposting). Otherwise the target of the URL itself is the file.
// Links to other origins than Origins are counted but not followed.
type Follower struct {
	Fetch   *fetch.Client
	Origins []string // the origins whose links are followed, each as scheme://host[:port]

	mu        sync.Mutex
	elsewhere map[string]int // number of links that were not followed, by the origin of the target
	failures  int64
	first     error
}

// run follows the links of those records whose metadata has changed since their links
// were followed.
func (f *Follower) run(ctx context.Context, in *Input) error {
	f.elsewhere, f.failures, f.first = map[string]int{}, 0, nil
	st := in.Harvest.Store
	for some, err := range st.recordsWhere(ctx, "NOT deleted AND wrong IS NULL AND linked IS NOT digest", followSize) {
		if err != nil {
			return err
		}
		found, err := f.follow(ctx, in, some)
		if err == nil {
			err = st.setFiles(ctx, found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

type linked struct {
	record int64
	files  []weblink.Link // with absolute URLs
}

// follow returns the files to which the given records link. It omits a record if one of
// its links fails with a temporary error, so that the next run follows the links of the
// record again.
func (f *Follower) follow(ctx context.Context, in *Input, some []storedRecord) ([]linked, error) {
	results := make([]*linked, len(some))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(followAt)
	for i := range some {
		g.Go(func() error {
			text, err := in.metadata(ctx, &some[i])
			if err != nil {
				return err
			}
			l := linked{record: some[i].id}
			whole := true
			for _, uri := range linksIn(text) {
				files, err := f.filesBehind(ctx, uri)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil {
					whole = whole && !errors.Is(err, fetch.Temporary)
					f.fail(fmt.Errorf("the files of record %q: %w", some[i].identifier, err))
				}
				l.files = append(l.files, files...)
			}
			if whole {
				results[i] = &l
			}
			return nil
		})
	}
	err := g.Wait()
	var found []linked
	for _, l := range results {
		if l != nil {
			found = append(found, *l)
		}
	}
	return found, err
}

func (f *Follower) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failures++; f.first == nil {
		f.first = err
	}
}

// allows reports whether the URI is of one of Origins. It counts other URIs.
func (f *Follower) allows(uri string) bool {
	u, err := fetch.Parse(uri)
	if err != nil {
		return false
	}
	origin := fetch.Origin(u)
	if slices.Contains(f.Origins, origin) {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.elsewhere) < 1000 {
		f.elsewhere[origin]++
	}
	return false
}

// filesBehind requests a URI. It returns the links to items if the response is a page, and
// otherwise a link to the URI itself.
func (f *Follower) filesBehind(ctx context.Context, uri string) ([]weblink.Link, error) {
	if !f.allows(uri) {
		return nil, nil
	}
	resp, err := f.Fetch.Get(ctx, fetch.Request{URL: uri, Accept: "text/html, */*;q=0.9"})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	items := weblink.Header(resp.Header.Values("Link"))
	media, _, err := mime.ParseMediaType(resp.ContentType)
	isPage := err == nil && (media == "text/html" || media == "application/xhtml+xml")
	if !isPage && !slices.ContainsFunc(items, func(l weblink.Link) bool { return l.Has("item") }) {
		return []weblink.Link{{Href: uri, Type: media}}, nil
	}
	var page weblink.Page
	if isPage {
		if page, err = weblink.HTML(io.LimitReader(resp.Body, maxPage)); err != nil {
			return nil, err
		}
		items = append(items, page.Links...)
	}
	var files []weblink.Link
	for _, l := range items {
		if !l.Has("item") || l.Anchor != "" || len(files) == maxItems {
			continue
		}
		if l.Href, err = page.Resolve(resp.URL, l.Href); err == nil && f.allows(l.Href) {
			files = append(files, weblink.Link{Href: l.Href, Type: l.Type})
		}
	}
	return files, nil
}

// addNotes adds to a plan a note about each origin to which links were not followed, and
// one failure if requests failed.
func (f *Follower) addNotes(in *Input, p *scan.Plan) {
	for origin, n := range f.elsewhere {
		p.Notes = append(p.Notes, fmt.Sprintf("not followed: %s of records to %s; if the files there belong to the set, add the origin to from.allow_origins", english.Plural(int(n), "link", ""), origin))
	}
	slices.Sort(p.Notes[len(p.Notes)-len(f.elsewhere):])
	if f.failures > 0 {
		in.Fail(p, &scan.FileError{Path: "files of records", Err: fmt.Errorf("%s could not be followed; the first failure: %w", english.Plural(int(f.failures), "link", ""), f.first)})
	}
}

// linksIn returns the http and https URLs in elements "identifier" and "url", without
// duplicates.
func linksIn(text []byte) (links []string) {
	d := xml.NewDecoder(bytes.NewReader(text))
	take := false
	for len(links) < maxLinks {
		t, err := d.RawToken()
		if err != nil {
			return links // the metadata ends here, or is not well-formed
		}
		switch t := t.(type) {
		case xml.StartElement:
			take = t.Name.Local == "identifier" || t.Name.Local == "url"
		case xml.EndElement:
			take = false
		case xml.CharData:
			link := strings.TrimSpace(string(t))
			u, err := url.Parse(link)
			if take && err == nil && (u.Scheme == "http" || u.Scheme == "https") && !slices.Contains(links, link) {
				links = append(links, link)
			}
		}
	}
	return links
}

func (in *Input) metadata(ctx context.Context, k *storedRecord) ([]byte, error) {
	r, _, err := in.Files.Get(ctx, k.path, 0, -1)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(r)
	return b.Bytes(), errors.Join(err, r.Close())
}

func (s *Store) setFiles(ctx context.Context, all []linked) error {
	if len(all) == 0 {
		return nil
	}
	return s.transact(ctx, func(tx *sql.Tx) error {
		for _, l := range all {
			if _, err := tx.ExecContext(ctx, "DELETE FROM file WHERE record = ?", l.record); err != nil {
				return err
			}
			for _, f := range l.files {
				if _, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO file VALUES (?, ?, ?)", l.record, f.Href, f.Type); err != nil {
					return err
				}
			}
			if _, err := tx.ExecContext(ctx, "UPDATE record SET linked = digest WHERE id = ?", l.record); err != nil {
				return err
			}
		}
		return nil
	})
}

// files yields the files of all records that are not deleted, in batches and without
// duplicates. The version of a file is the datestamp of its record, because the file may
// have changed with the record.
func (s *Store) files(ctx context.Context) iter.Seq2[[]scan.Listed, error] {
	const query = `SELECT f.uri, max(f.type), max(r.datestamp) FROM file f JOIN record r ON r.id = f.record
		WHERE f.uri > ? AND NOT r.deleted GROUP BY f.uri ORDER BY f.uri LIMIT ?`
	return batches(ctx, s.db, query, "", batch, func(rows *sql.Rows, e *scan.Listed) (string, error) {
		err := rows.Scan(&e.URI, &e.Type, &e.Version)
		e.URL = e.URI
		return e.URI, err
	})
}

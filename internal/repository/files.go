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
	maxLinks   = 5         // largest number of links in one record that are followed
	maxItems   = 100       // largest number of files of one page
	maxPage    = 512 << 10 // largest number of bytes that are read of a page
	followAt   = 4         // number of concurrent requests
	followSize = 100       // number of records whose links are followed between two commits
)

// Follower finds the files to which harvested records link. A link of a record is a URL
// in an element identifier or url of its metadata, such as dc:identifier. If the target
// is a page, the files are the items of the page (Signposting, rel="item"), stated in
// its Link header or HTML head. Otherwise the target itself is the file. Only links to
// Origins are followed.
type Follower struct {
	Fetch   *fetch.Client
	Origins []string // the allowed origins, each scheme://host[:port]

	mu        sync.Mutex
	elsewhere map[string]int // the number of links that were not followed, by the origin of their target
	failed    int64
	first     error
}

// run follows the links of records whose metadata is new.
func (f *Follower) run(ctx context.Context, in *Input) error {
	f.elsewhere, f.failed, f.first = map[string]int{}, 0, nil
	st := in.Harvest.Store
	for some, err := range st.each(ctx, "NOT deleted AND wrong IS NULL AND linked IS NOT digest", followSize) {
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

// linked has the files that belong to a record.
type linked struct {
	record int64
	files  []weblink.Link // links to the files, with absolute URLs
}

// follow finds the files of some records. It omits a record if a link cannot be
// followed at present, so that the next run tries again.
func (f *Follower) follow(ctx context.Context, in *Input, some []known) ([]linked, error) {
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
			for _, uri := range identifiers(text) {
				files, err := f.one(ctx, uri)
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
	if f.failed++; f.first == nil {
		f.first = err
	}
}

// allowed reports whether a link leads to one of Origins. Otherwise it counts the link.
func (f *Follower) allowed(uri string) bool {
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

// one finds the files to which one link leads.
func (f *Follower) one(ctx context.Context, uri string) ([]weblink.Link, error) {
	if !f.allowed(uri) {
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
		if l.Href, err = page.Resolve(resp.URL, l.Href); err == nil && f.allowed(l.Href) {
			files = append(files, weblink.Link{Href: l.Href, Type: l.Type})
		}
	}
	return files, nil
}

// tell adds to a plan notes about the links that were not followed, and a failure if
// any could not be followed.
func (f *Follower) tell(in *Input, p *scan.Plan) {
	for origin, n := range f.elsewhere {
		p.Notes = append(p.Notes, fmt.Sprintf("not followed: %s of records to %s; if the files there belong to the set, add the origin to from.allow_origins", english.Plural(int(n), "link", ""), origin))
	}
	slices.Sort(p.Notes[len(p.Notes)-len(f.elsewhere):])
	if f.failed > 0 {
		in.Fail(p, &scan.FileError{Path: "files of records", Err: fmt.Errorf("%s could not be followed; the first failure: %w", english.Plural(int(f.failed), "link", ""), f.first)})
	}
}

// identifiers returns the URLs in the elements identifier and url of a record's
// metadata, each once.
func identifiers(text []byte) (links []string) {
	d := xml.NewDecoder(bytes.NewReader(text))
	take := false
	for len(links) < maxLinks {
		t, err := d.RawToken()
		if err != nil {
			return links // end of the metadata
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

// metadata reads the file of a record.
func (in *Input) metadata(ctx context.Context, k *known) ([]byte, error) {
	r, _, err := in.Files.Get(ctx, k.path, 0, -1)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(r)
	return b.Bytes(), errors.Join(err, r.Close())
}

// setFiles stores the files of records, in place of the files stored before for these
// records.
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

// files yields, in batches, the files of all records that are not deleted, each file
// once. The datestamp of the record counts as the version of its files, because they
// may have changed together with the record.
func (s *Store) files(ctx context.Context) iter.Seq2[[]scan.Listed, error] {
	const query = `SELECT f.uri, max(f.type), max(r.datestamp) FROM file f JOIN record r ON r.id = f.record
		WHERE f.uri > ? AND NOT r.deleted GROUP BY f.uri ORDER BY f.uri LIMIT ?`
	return batches(ctx, s.db, query, "", batch, func(rows *sql.Rows, e *scan.Listed) (string, error) {
		err := rows.Scan(&e.URI, &e.Type, &e.Version)
		e.URL = e.URI
		return e.URI, err
	})
}

package scan

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"instep/fetch"
	"instep/internal/spool"
)

// maxURLsBytes is the largest size of a list of URLs, in bytes.
const maxURLsBytes = 10 << 30

// URLs lists the resources in a text with one URL per line. It ignores empty lines and
// lines that begin with "#".
type URLs struct {
	Client *fetch.Client
	At     string // URL of the list, or name of the file with the list
	Open   func(name string) (io.ReadCloser, error)
	Spool  string // directory for temporary files; "" means the directory of the operating system
}

// List implements Listing.
func (s URLs) List(ctx context.Context, _ time.Time) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		text := spool.NewFile(s.Spool, maxURLsBytes)
		defer text.Close()
		if err := s.load(ctx, text); err != nil {
			yield(Listed{}, err)
			return
		}
		lines := bufio.NewScanner(text.Reader())
		lines.Buffer(nil, fetch.MaxURL+2)
		n := 0
		for lines.Scan() {
			n++
			uri := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
			if uri == "" || uri[0] == '#' {
				continue
			}
			_, err := fetch.Parse(uri)
			if err != nil {
				err = fmt.Errorf("%s line %d: %w", s.At, n, err)
			}
			if !yield(Listed{URI: uri, URL: uri}, err) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Listed{}, fmt.Errorf("%s line %d: %w", s.At, n+1, err))
		}
	}
}

// load reads the whole list before any of it is used, since a truncated list would look
// complete.
func (s URLs) load(ctx context.Context, to io.Writer) error {
	text, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer text.Close()
	if _, err := io.Copy(to, text); err != nil {
		return fmt.Errorf("%s: %w", s.At, err)
	}
	return nil
}

func (s URLs) open(ctx context.Context) (io.ReadCloser, error) {
	if !isURL(s.At) {
		return s.Open(s.At)
	}
	if err := s.Client.TrustSource(ctx, s.At); err != nil {
		return nil, err
	}
	resp, err := s.Client.Get(ctx, fetch.Request{URL: s.At, Accept: "text/plain, text/uri-list", MaxBytes: maxURLsBytes})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

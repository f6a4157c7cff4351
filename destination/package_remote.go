package destination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"instep/fetch"
	"instep/internal/spool"
	"instep/pack"
)

const (
	tailSize    = 64 << 10 // bytes of a package that are asked for first: they hold most directories
	gapSize     = 64 << 10 // bytes that cost less than another request
	partsAtOnce = 4        // requests for parts of one package at a time
)

// errNoParts says that a server gives only whole packages.
var errNoParts = errors.New("the server gives no parts of packages")

// errReplaced says that a package is another one than it was.
var errReplaced = errors.New("the package was replaced while it was read")

// span is a range of bytes: from is in it, to is not.
type span struct{ from, to int64 }

// remotePackage is a package of which some bytes are here. They are kept at their place
// in a file that is else empty.
//
// With a strong ETag all bytes are of one version. Without, they may be of several, of
// the same length: then what is taken out of the package has to be proved by a digest
// of its own, and a directory or a manifest that is pieced together fails by its
// checksums.
type remotePackage struct {
	d       *Destination
	uri     string
	version string // its strong ETag; "" if it has none, or the bytes may be of several
	total   int64

	file *spool.Sparse
	mu   sync.Mutex // guards here
	here []span     // ascending, neither touching nor overlapping
}

// openRemote reads the directory of a package by parts, first the end of the package.
// errNoParts means that the package has to be transferred.
func (d *Destination) openRemote(ctx context.Context, ref *packageRef) (*openedPackage, error) {
	p := &remotePackage{d: d, uri: ref.uri, file: spool.NewSparse(d.Spool)}
	if err := p.open(ctx, ref); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	z, err := pack.Open(remoteAt{ctx, p}, p.total, pack.Limits{})
	if err != nil {
		if errors.Is(err, pack.ErrNotZIP) {
			err = p.name(ctx, err)
		}
		return nil, errors.Join(badPackage(ref.uri, err), p.Close())
	}
	return &openedPackage{ref: *ref, d: d, zip: z, bytes: p, remote: p}, nil
}

// open asks for the end of the package.
func (p *remotePackage) open(ctx context.Context, ref *packageRef) error {
	part := &fetch.Part{From: -1, Length: tailSize}
	if ref.length.Known() {
		part.From = max(ref.length.Int64()-tailSize, 0)
	}
	resp, err := p.d.Client.Get(ctx, fetch.Request{URL: p.uri, Part: part, MaxBytes: tailSize})
	if err != nil {
		if errors.Is(err, fetch.Protocol) || errors.Is(err, fetch.TooLarge) {
			return errNoParts // what is wrong shows when it is transferred
		}
		return &remoteError{err}
	}
	defer resp.Body.Close()
	p.total, p.version = resp.Total, resp.Validators.Strong()
	switch {
	case resp.Status != http.StatusPartialContent || resp.Total < 0:
		return errNoParts
	case ref.length.Known() && resp.Total != ref.length.Int64():
		return &DocumentError{URI: p.uri, Reason: fmt.Sprintf("has %d bytes where the dump says %d", resp.Total, ref.length.Int64())}
	}
	return p.take(span{resp.Offset, resp.Total}, p.body(resp))
}

// take writes the bytes of s to their place.
func (p *remotePackage) take(s span, body io.Reader) error {
	if _, err := io.CopyN(io.NewOffsetWriter(p.file, s.from), body, s.to-s.from); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.here = union(append(p.here, s), 0)
	return nil
}

// body reads the bytes of an answer.
func (p *remotePackage) body(resp *fetch.Response) io.Reader {
	return &partReader{remoteReader{p.uri, resp.Body}}
}

// partReader is for who reads no more than was asked for: if there is less, that is an
// error of the Source's side.
type partReader struct{ body remoteReader }

func (r *partReader) Read(b []byte) (int, error) {
	n, err := r.body.Read(b)
	switch {
	case !errors.Is(err, io.EOF) || len(b) == 0:
		return n, err
	case n > 0:
		return n, nil
	}
	return 0, &remoteError{fmt.Errorf("%s: less came than the server said: %w", r.body.uri, io.ErrUnexpectedEOF)}
}

// union joins the spans that are no more than gap bytes apart.
func union(all []span, gap int64) []span {
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	joined := all[:0]
	for _, s := range all {
		if last := len(joined) - 1; last >= 0 && s.from <= joined[last].to+gap {
			joined[last].to = max(joined[last].to, s.to)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// missing are the parts of these spans that are not here.
func (p *remotePackage) missing(all []span) (lack []span) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range all {
		i, _ := slices.BinarySearchFunc(p.here, s.from, func(h span, from int64) int { return cmp.Compare(h.to, from+1) })
		for ; s.from < s.to && i < len(p.here) && p.here[i].from < s.to; i++ {
			if p.here[i].from > s.from {
				lack = append(lack, span{s.from, p.here[i].from})
			}
			s.from = p.here[i].to
		}
		if s.from < s.to {
			lack = append(lack, s)
		}
	}
	return lack
}

// bring fetches what is not here of these spans; neighbours by one request.
func (p *remotePackage) bring(ctx context.Context, all []span) error {
	lack := p.missing(all)
	if len(lack) == 0 {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(partsAtOnce)
	for _, s := range union(lack, gapSize) {
		group.Go(func() error { return p.fetch(ctx, s) })
	}
	return group.Wait()
}

// fetch brings the bytes of one span.
func (p *remotePackage) fetch(ctx context.Context, s span) error {
	resp, err := p.request(ctx, s)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return p.take(s, p.body(resp))
}

// request asks for the bytes of one span.
func (p *remotePackage) request(ctx context.Context, s span) (*fetch.Response, error) {
	if s.to > p.total {
		return nil, &DocumentError{URI: p.uri, Reason: fmt.Sprintf("has %d bytes, some at %d were asked for", p.total, s.to)}
	}
	resp, err := p.d.Client.Get(ctx, fetch.Request{
		URL: p.uri, Part: &fetch.Part{From: s.from, Length: s.to - s.from, IfRange: p.version},
		MaxBytes: s.to - s.from, Resume: fetch.ResumeStrong,
	})
	if errors.Is(err, fetch.TooLarge) {
		err = errReplaced // all of another version
	}
	if err == nil && (resp.Status != http.StatusPartialContent || resp.Total != p.total || p.version != "" && resp.Validators.Strong() != p.version) {
		_ = resp.Body.Close()
		err = errReplaced
	}
	if err != nil {
		return nil, &remoteError{fmt.Errorf("%s: %w", p.uri, err)}
	}
	return resp, nil
}

// ReadAt implements packageBytes for bytes that are here.
func (p *remotePackage) ReadAt(b []byte, off int64) (int, error) {
	if off >= p.total {
		return 0, io.EOF
	}
	end := min(off+int64(len(b)), p.total)
	if lack := p.missing([]span{{off, end}}); len(lack) > 0 {
		return 0, fmt.Errorf("%s: the bytes from %d to %d were not brought", p.uri, lack[0].from, lack[0].to)
	}
	n, err := p.file.ReadAt(b[:end-off], off)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

// Close implements packageBytes.
func (p *remotePackage) Close() error { return p.file.Close() }

// remoteAt reads a package while it is opened, and brings what is not here yet.
type remoteAt struct {
	ctx context.Context // of the opening
	p   *remotePackage
}

// ReadAt implements io.ReaderAt.
func (r remoteAt) ReadAt(b []byte, off int64) (int, error) {
	if err := r.p.bring(r.ctx, []span{{off, min(off+int64(len(b)), r.p.total)}}); err != nil {
		return 0, err
	}
	return r.p.ReadAt(b, off)
}

// name says what something is that is no package, by its first bytes.
func (p *remotePackage) name(ctx context.Context, err error) error {
	head := make([]byte, min(pack.SniffLength, p.total))
	n, failed := remoteAt{ctx, p}.ReadAt(head, 0)
	if failed != nil && !errors.Is(failed, io.EOF) {
		return err
	}
	if kind := pack.Sniff(head[:n]); kind != pack.KindZIP && kind != "" {
		return otherFormat(p.uri, kind)
	}
	return err
}

// safe reports whether what w wants may be taken from these bytes.
func (p *remotePackage) safe(w *Wanted) bool { return p == nil || p.version != "" || strong(w.Digests) }

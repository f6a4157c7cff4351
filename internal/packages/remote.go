package packages

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"instep/fetch"
	"instep/harvest"
	"instep/pack"
)

// These are the sizes of requests for parts of packages.
const (
	TailSize = 64 << 10 // number of bytes at the end of a package that the first request asks for; they contain most ZIP directories
	GapSize  = 64 << 10 // members with at most this many bytes between them are requested together
)

// errNoParts means that a server sends the whole package in response to a range
// request.
var errNoParts = errors.New("the server does not support range requests for packages")

// errReplaced means that a package changed after its ZIP directory was read.
var errReplaced = errors.New("the package was replaced while it was read")

// span is a range of bytes in a package, from the offset "from" up to but not including
// the offset "to".
type span struct{ from, to int64 }

func (s span) size() int64 { return s.to - s.from }

func (s span) compare(o span) int {
	return cmp.Or(cmp.Compare(s.from, o.from), cmp.Compare(s.to, o.to))
}

func spanOf(b pack.Bitstream) span {
	from, n := b.Span()
	return span{from, from + n}
}

// union joins spans that are at most gap bytes apart. It changes the slice.
func union(all []span, gap int64) []span {
	slices.SortFunc(all, span.compare)
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

// remotePackage reads a package by range requests. A strong ETag guarantees that all
// bytes belong to one version of the package. Without a strong ETag, the bytes may come
// from several versions of the same length. Then each member needs a strong digest (see
// isSafe), and checksums detect a ZIP directory or manifest that is mixed from two
// versions.
type remotePackage struct {
	client  *fetch.Client
	uri     string
	version string // strong ETag of the package; "" if the server sends none, or bytes of any version are acceptable
	total   int64
	tail    []byte // last bytes of the package, from the first response
}

// openRemote opens a package for range requests. It returns errNoParts if the server
// sends only whole packages.
func (p *Transport) openRemote(ctx context.Context, ref *harvest.Package) (*Opened, error) {
	r := &remotePackage{client: p.Client, uri: ref.URI}
	if err := r.readTail(ctx, ref); err != nil {
		return nil, err
	}
	z, err := pack.Open(remoteAt{ctx, r}, r.total, pack.Limits{})
	if err != nil {
		if errors.Is(err, pack.ErrNotZIP) {
			err = r.otherFormat(ctx, err)
		}
		return nil, badPackage(ref.URI, err)
	}
	return &Opened{ref: ref, zip: z, remote: r, dir: p.Spool, most: p.Client.MaxDocument()}, nil
}

// readTail requests the end of the package, and reads the length and the ETag of the
// package from the response.
func (r *remotePackage) readTail(ctx context.Context, ref *harvest.Package) error {
	part := &fetch.Part{From: -1, Length: TailSize}
	if ref.Length.Known() {
		part.From = max(ref.Length.Int64()-TailSize, 0)
	}
	resp, err := r.client.Get(ctx, fetch.Request{URL: r.uri, Part: part, MaxBytes: TailSize})
	if err != nil {
		if errors.Is(err, fetch.Protocol) || errors.Is(err, fetch.TooLarge) {
			return errNoParts // if the server has a fault, the transfer of the whole package reports it
		}
		return &harvest.SourceError{Err: err}
	}
	defer resp.Body.Close()
	r.total, r.version = resp.Total, resp.Validators.Strong()
	switch {
	case resp.Status != http.StatusPartialContent || resp.Total < 0:
		return errNoParts
	case ref.Length.Known() && resp.Total != ref.Length.Int64():
		return &harvest.DocumentError{URI: r.uri, Reason: fmt.Sprintf("has %d bytes where the dump says %d", resp.Total, ref.Length.Int64())}
	}
	r.tail = make([]byte, resp.Total-resp.Offset)
	_, err = io.ReadFull(&partReader{harvest.SourceReader{URI: r.uri, Body: resp.Body}}, r.tail)
	return err
}

// partReader reads the body of the response to a range request. If the body ends too
// early, the error is a SourceError.
type partReader struct{ body harvest.SourceReader }

func (r *partReader) Read(b []byte) (int, error) {
	n, err := r.body.Read(b)
	switch {
	case !errors.Is(err, io.EOF) || len(b) == 0:
		return n, err
	case n > 0:
		return n, nil
	}
	return 0, &harvest.SourceError{Err: fmt.Errorf("%s: the response was shorter than the server announced: %w", r.body.URI, io.ErrUnexpectedEOF)}
}

// open opens a part of the package. Reading it returns an error if the response is too
// short.
func (r *remotePackage) open(ctx context.Context, s span) (io.ReadCloser, error) {
	if from := r.total - int64(len(r.tail)); s.from >= from && s.to <= r.total {
		return io.NopCloser(bytes.NewReader(r.tail[s.from-from : s.to-from])), nil
	}
	resp, err := r.request(ctx, s)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{&partReader{harvest.SourceReader{URI: r.uri, Body: resp.Body}}, resp.Body}, nil
}

func (r *remotePackage) request(ctx context.Context, s span) (*fetch.Response, error) {
	if s.to > r.total {
		return nil, &harvest.DocumentError{URI: r.uri, Reason: fmt.Sprintf("has %d bytes, but bytes up to %d were requested", r.total, s.to)}
	}
	resp, err := r.client.Get(ctx, fetch.Request{
		URL: r.uri, Part: &fetch.Part{From: s.from, Length: s.size(), IfRange: r.version},
		MaxBytes: s.size(), Resume: fetch.ResumeStrong,
	})
	if errors.Is(err, fetch.TooLarge) {
		err = errReplaced // because of If-Range, the server sends all of a new version, which is longer than the requested range
	}
	if err == nil && (resp.Status != http.StatusPartialContent || resp.Total != r.total || r.version != "" && resp.Validators.Strong() != r.version) {
		_ = resp.Body.Close()
		err = errReplaced
	}
	if err != nil {
		return nil, &harvest.SourceError{Err: fmt.Errorf("%s: %w", r.uri, err)}
	}
	return resp, nil
}

// remoteAt is an io.ReaderAt over a remote package. Each call makes a request, except
// for the end of the package, which is in memory.
type remoteAt struct {
	ctx context.Context // context of the call that reads the ZIP directory
	r   *remotePackage
}

// ReadAt implements io.ReaderAt.
func (a remoteAt) ReadAt(b []byte, off int64) (n int, err error) {
	tail := a.r.total - int64(len(a.r.tail))
	for _, s := range []span{{off, min(off+int64(len(b)), tail)}, {max(off, tail), min(off+int64(len(b)), a.r.total)}} {
		if s.size() <= 0 {
			continue
		}
		part, err := a.r.open(a.ctx, s)
		if err != nil {
			return n, err
		}
		read, err := io.ReadFull(part, b[n:n+int(s.size())])
		_ = part.Close()
		if n += read; err != nil {
			return n, err
		}
	}
	if n < len(b) {
		err = io.EOF
	}
	return n, err
}

// otherFormat returns an error that names the format of the file if the first bytes
// show it, otherwise err.
func (r *remotePackage) otherFormat(ctx context.Context, err error) error {
	head := make([]byte, min(pack.SniffLength, r.total))
	if _, failed := (remoteAt{ctx, r}).ReadAt(head, 0); failed != nil {
		return err
	}
	if kind := pack.Sniff(head); kind != pack.KindZIP && kind != "" {
		return harvest.OtherFormat(r.uri, kind)
	}
	return err
}

// isSafe reports whether the bytes of a member cannot be mixed from several versions of
// the package: the package has a strong ETag, or the member has a strong digest. A
// package that was transferred whole (nil) is always safe.
func (r *remotePackage) isSafe(w *harvest.Resource) bool {
	return r == nil || r.version != "" || w.Digests.Strong()
}

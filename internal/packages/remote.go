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

// Sizes of requests for parts of packages.
const (
	// TailSize is how many bytes at the end of a package are asked for first: they hold most directories.
	TailSize = 64 << 10
	// GapSize is how many unwanted bytes between members cost less than another request.
	GapSize = 64 << 10
)

// errNoParts means that a server answers range requests with whole packages.
var errNoParts = errors.New("the server gives no parts of packages")

// errReplaced means that a package has another version than its directory.
var errReplaced = errors.New("the package was replaced while it was read")

// span is a range of bytes: from is in it, to is not.
type span struct{ from, to int64 }

func (s span) size() int64 { return s.to - s.from }

func (s span) compare(o span) int {
	return cmp.Or(cmp.Compare(s.from, o.from), cmp.Compare(s.to, o.to))
}

func spanOf(b pack.Bitstream) span {
	from, n := b.Span()
	return span{from, from + n}
}

// union sorts spans and joins those that are at most gap bytes apart.
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

// remotePackage reads a package by range requests.
//
// With a strong ETag all bytes are of one version. Without one they may be of several
// versions of the same length: then each member needs a strong digest (see safe), and a
// directory or manifest that is mixed from two versions fails by its checksums.
type remotePackage struct {
	client  *fetch.Client
	uri     string
	version string // strong ETag; "" if there is none, or any version will do
	total   int64
	tail    []byte // the last bytes, from the first answer
}

// openRemote reads the directory of a package. The error is errNoParts if the server
// gives only whole packages.
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

// readTail requests the end of the package, which also shows its length and version.
func (r *remotePackage) readTail(ctx context.Context, ref *harvest.Package) error {
	part := &fetch.Part{From: -1, Length: TailSize}
	if ref.Length.Known() {
		part.From = max(ref.Length.Int64()-TailSize, 0)
	}
	resp, err := r.client.Get(ctx, fetch.Request{URL: r.uri, Part: part, MaxBytes: TailSize})
	if err != nil {
		if errors.Is(err, fetch.Protocol) || errors.Is(err, fetch.TooLarge) {
			return errNoParts // the transfer of the whole will report the error
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

// partReader reads an answer of which at least as many bytes are expected as are read: an
// early end is an error of the Source.
type partReader struct{ body harvest.SourceReader }

func (r *partReader) Read(b []byte) (int, error) {
	n, err := r.body.Read(b)
	switch {
	case !errors.Is(err, io.EOF) || len(b) == 0:
		return n, err
	case n > 0:
		return n, nil
	}
	return 0, &harvest.SourceError{Err: fmt.Errorf("%s: less came than the server said: %w", r.body.URI, io.ErrUnexpectedEOF)}
}

// open opens the bytes of s, from the tail or by a request. They are at least as many,
// or reading fails.
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
		return nil, &harvest.DocumentError{URI: r.uri, Reason: fmt.Sprintf("has %d bytes, some at %d were asked for", r.total, s.to)}
	}
	resp, err := r.client.Get(ctx, fetch.Request{
		URL: r.uri, Part: &fetch.Part{From: s.from, Length: s.size(), IfRange: r.version},
		MaxBytes: s.size(), Resume: fetch.ResumeStrong,
	})
	if errors.Is(err, fetch.TooLarge) {
		err = errReplaced // the answer is the whole of another version
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

// remoteAt reads a remote package at any offset, with a request for each range outside the
// tail.
type remoteAt struct {
	ctx context.Context // context of the opening, which reads the directory
	r   *remotePackage
}

// ReadAt implements io.ReaderAt.
func (a remoteAt) ReadAt(b []byte, off int64) (n int, err error) {
	tail := a.r.total - int64(len(a.r.tail))
	if off < tail {
		n = int(min(int64(len(b)), tail-off))
		from, err := a.r.open(a.ctx, span{off, off + int64(n)})
		if err != nil {
			return 0, err
		}
		defer from.Close()
		if n, err = io.ReadFull(from, b[:n]); err != nil {
			return n, err
		}
	}
	more := copy(b[n:], a.r.tail[min(off+int64(n)-tail, int64(len(a.r.tail))):])
	if n += more; n < len(b) {
		err = io.EOF
	}
	return n, err
}

// otherFormat is the error for a file that is not a package; it names the format if its
// first bytes show it.
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

// safe reports whether the member for w may be taken from the package; every package that
// is not remote is safe.
func (r *remotePackage) safe(w *harvest.Resource) bool {
	return r == nil || r.version != "" || w.Digests.Strong()
}

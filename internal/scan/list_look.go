package scan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"slices"

	"instep/blob"
	"instep/fetch"
	"instep/internal/catalog"
	"instep/internal/mediatype"
	"instep/resourcesync"
)

type examined struct {
	*listWork
	err      error
	same     bool  // whether the server says that the resource has not changed since it was recorded
	read     int64 // bytes
	length   resourcesync.Length
	digests  resourcesync.Digests // the digests by the configured algorithms
	all      resourcesync.Digests // the digests by the configured algorithms, and those that are only compared with recorded digests
	lastMod  resourcesync.Datetime
	mimeType string
	encoding string
	stat     string
	kept     blob.Object // the copy of the bytes; nil if no copy is needed
}

func (l *List) examine(ctx context.Context, w *listWork, keep blob.Batch, buffer []byte) examined {
	x := examined{listWork: w, length: w.Length, digests: w.Digests, all: w.Digests, lastMod: w.LastMod, mimeType: w.Type, encoding: w.Encoding}
	switch {
	case w.Label || w.Gone:
		return x
	case w.Past && keep != nil:
		x.err = l.examineEarlier(ctx, &x, keep, buffer)
	case !l.needsBytes(&w.Listed):
		x.stat = w.listedStat().String()
	case w.Path != "":
		x.err = l.examineFile(ctx, &x, keep, buffer)
	default:
		x.err = l.examineURL(ctx, &x, keep, buffer)
	}
	if x.mimeType == "" {
		x.mimeType = mediatype.ByName(l.name(&w.Listed))
	}
	return x
}

func (l *List) examineFile(ctx context.Context, x *examined, keep blob.Batch, buffer []byte) error {
	r := reader{d: l.dir(), buffer: buffer}
	h := r.hash(ctx, item{Path: []byte(x.Path), New: x.New, Also: string(l.algorithmToCompare(x))}, keep)
	x.kept = h.kept
	x.read = h.read
	if h.gone {
		_, err := l.locate(x.Path)
		return cmp.Or(err, fmt.Errorf("file %q: %w", x.Path, fs.ErrNotExist))
	}
	if h.err != nil {
		return h.err
	}
	if err := x.verify(h.length, h.allDigests()); err != nil {
		return err
	}
	x.length, x.digests, x.all, x.stat = resourcesync.Bytes(h.length), h.digests, h.allDigests(), h.stat
	if x.lastMod.IsZero() && !x.Told {
		x.lastMod = fileTime(h.modified)
	}
	if x.mimeType == "" {
		x.mimeType = h.label.Type
	}
	return nil
}

// algorithmToCompare returns an additional algorithm by which to hash the bytes if the
// configured algorithms cannot verify any stated digest. Without this, damaged bytes
// would be published with a digest of the damaged bytes.
func (l *List) algorithmToCompare(x *examined) resourcesync.Algorithm {
	comparable := func(d resourcesync.Digest) bool { return slices.Contains(l.algorithms(), d.Algorithm()) }
	if x.Also != "" || len(x.Digests) == 0 || slices.ContainsFunc(x.Digests, comparable) {
		return resourcesync.Algorithm(x.Also)
	}
	return x.Digests.Strongest().Algorithm()
}

func (l *List) examineEarlier(ctx context.Context, x *examined, keep blob.Batch, buffer []byte) error {
	f, err := l.Tree.Open(x.Kept)
	if err != nil {
		return fmt.Errorf("read the earlier bytes that the mirror keeps: %w", err)
	}
	defer f.Close()
	x.stat = x.listedStat().String()
	if err := l.digest(ctx, x, f, keep, buffer); err != nil {
		return err
	}
	return x.verify(x.read, x.all)
}

func (x *examined) verify(length int64, ds resourcesync.Digests) error {
	if x.Length.Known() && x.Length.Int64() != length {
		return fmt.Errorf("the listing states %d bytes, but the resource has %d", x.Length.Int64(), length)
	}
	for _, want := range x.Digests {
		if got := ds.Get(want.Algorithm()); !got.IsZero() && got != want {
			return fmt.Errorf("the listing states the digest %s, but the bytes have %s", want, got)
		}
	}
	return nil
}

func (l *List) examineURL(ctx context.Context, x *examined, keep blob.Batch, buffer []byte) error {
	began := l.Now()
	resp, err := l.Client.Get(ctx, fetch.Request{URL: x.URL, Validators: fetch.Validators{ETag: x.ETag, LastModified: x.LastServed}})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	stat := x.listedStat()
	if !x.showsChanges(began) {
		stat.Listed = ""
	}
	if resp.Status == http.StatusNotModified {
		stat.ETag, stat.LastServed = x.ETag, x.LastServed
		x.same, x.stat = true, stat.String()
		return nil
	}
	stat.ETag, stat.LastServed = strongValidators(resp)
	x.stat = stat.String()
	if x.encoding == "" {
		x.encoding = contentCoding(resp.Header)
	}
	if t, err := http.ParseTime(resp.Header.Get("Last-Modified")); err == nil && x.lastMod.IsZero() {
		x.lastMod = lastMod(t)
	}
	if media, _, err := mime.ParseMediaType(resp.ContentType); err == nil && x.mimeType == "" {
		x.mimeType = media
	}
	if err := (&Listed{URI: x.URI, LastMod: x.lastMod, Type: x.mimeType, Encoding: x.encoding}).Check(); err != nil {
		return fmt.Errorf("the header of the HTTP response: %w", err)
	}
	return l.digest(ctx, x, resp.Body, keep, buffer)
}

// contentCoding returns the content coding of a response. Some servers encode although the
// request does not ask for that.
func contentCoding(h http.Header) string {
	if c := h.Get("Content-Encoding"); c != "identity" {
		return c
	}
	return ""
}

func (l *List) digest(ctx context.Context, x *examined, body io.Reader, keep blob.Batch, buffer []byte) error {
	hasher := resourcesync.NewHasher(l.algorithmsToCompute(l.algorithmToCompare(x), keep != nil)...)
	to := io.Writer(hasher)
	if keep != nil {
		copied, err := keep.Create(ctx)
		if err != nil {
			return err
		}
		x.kept, to = copied, io.MultiWriter(hasher, copied)
	}
	err := l.copyAll(x, to, body, buffer)
	if x.kept != nil {
		err = errors.Join(err, x.kept.Close())
	}
	if err != nil {
		return err
	}
	x.length, x.all = resourcesync.Bytes(x.read), hasher.Digests()
	x.digests = slices.DeleteFunc(slices.Clone(x.all), func(d resourcesync.Digest) bool {
		return !slices.Contains(l.algorithms(), d.Algorithm())
	})
	return nil
}

func (l *List) copyAll(x *examined, to io.Writer, body io.Reader, buffer []byte) error {
	length := int64(-1)
	if x.Length.Known() && x.encoding == "" {
		length = x.Length.Int64()
	}
	var ds resourcesync.Digests
	if x.encoding == "" {
		ds = x.Digests
	}
	body = resourcesync.NewVerifyReader(body, length, ds)
	prefix, err := readPrefix(body, buffer[:mediatype.PrefixSize])
	if err != nil {
		return err
	}
	x.read = int64(len(prefix))
	if x.mimeType == "" {
		x.mimeType = mediatype.Of(l.name(&x.Listed), prefix)
	}
	if _, err := to.Write(prefix); err != nil {
		return err
	}
	more, err := io.CopyBuffer(to, body, buffer)
	x.read += more
	return err
}

func (x *examined) change(known *catalog.Resource) (resourcesync.Change, error) {
	switch {
	case x.same && (!known.Member || known.Due != ""):
		return "", errors.New("the recorded state changed during the scan, so the next scan examines the resource again")
	case !known.Member:
		return resourcesync.Created, nil
	case known.Due != "": // another set has recorded the new bytes, and this set records the change now
		return resourcesync.Updated, nil
	case known.Path != x.catalogPath():
		return resourcesync.Updated, nil
	case x.same:
		return "", nil
	case known.Length.Known() && x.length.Known() && known.Length != x.length:
		return resourcesync.Updated, nil
	case agree(known.Digests, x.all) && !x.statementsChanged(known):
		return "", nil
	}
	return resourcesync.Updated, nil
}

func (x *examined) resource(known *catalog.Resource) catalog.Resource {
	if x.same {
		r := x.withLabels(known)
		r.Stat = x.stat
		return r
	}
	return catalog.Resource{URI: x.URI, Path: x.catalogPath(), Length: x.length, Digests: x.digests, Type: x.mimeType,
		Encoding: x.encoding, LastMod: x.lastMod, ChangeFreq: x.ChangeFreq, Stat: x.stat, Remainder: x.Remainder}
}

// Open opens the current bytes of a resource. It returns fs.ErrNotExist if there are no
// bytes.
func (l *List) Open(ctx context.Context, r catalog.Resource) (io.ReadCloser, error) {
	if r.Path != r.URI {
		return l.openFile(r.Path)
	}
	uri := r.URI
	if stat := parseListStat(r.Stat); stat.URL != "" {
		uri = stat.URL
	}
	resp, err := l.Client.Get(ctx, fetch.Request{URL: uri})
	if errors.Is(err, fetch.NotFound) {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

func (l *List) openFile(name string) (io.ReadCloser, error) {
	if l.Tree == nil {
		return nil, fmt.Errorf("file %q: %w: no directory with the files was given", name, fs.ErrNotExist)
	}
	f, reason, err := l.dir().locate(name)
	if err != nil {
		return nil, err
	}
	if reason != "" {
		return nil, fmt.Errorf("file %q: %w: the file is not published: %s", name, fs.ErrNotExist, reason)
	}
	return l.Tree.Open(f.target)
}

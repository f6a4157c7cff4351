package publish

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"instep/blob"
	"instep/document"
	"instep/internal/scan"
	"instep/resourcesync"
)

type reader struct {
	ctx    context.Context
	bucket blob.Bucket
	base   string
}

// doc describes a document that was read completely, without its entries.
type doc struct {
	key     string
	header  resourcesync.Header
	length  int64
	sum     [sha256.Size]byte
	entries int64
	nested  bool // whether the document is an index: its entries are documents of the same capability
	first   time.Time
}

func (d *doc) index() bool { return d.header.Root == resourcesync.SitemapIndex || d.nested }

func (d *doc) start() time.Time {
	if d.header.From.IsZero() {
		return d.first
	}
	return d.header.From.Time().UTC()
}

func (d *doc) number() int64 {
	return atoi(strings.TrimSuffix(path.Base(d.key), ".xml"))
}

// read reads a document completely. It returns an error if the document's capability
// differs from want. If want is "", it accepts any document, even a plain sitemap.
func (r *reader) read(key string, want resourcesync.Capability) (*doc, error) {
	d := &doc{key: key}
	whole, err := r.load(document.Reader{}, key, func(e *resourcesync.Entry) error {
		d.countEntry(e, want)
		return nil
	})
	if err != nil {
		return nil, err
	}
	defer whole.Close()
	d.header = whole.Header
	if got := d.header.Capability; want != "" && got != want {
		return nil, &AdoptError{key, fmt.Sprintf("is a document of capability %q, expected %q", got, want), nil}
	}
	h := sha256.New()
	d.length, err = io.Copy(h, whole.Raw())
	h.Sum(d.sum[:0])
	return d, err
}

func (d *doc) countEntry(e *resourcesync.Entry, want resourcesync.Capability) {
	d.entries++
	if want == "" {
		return
	}
	d.nested = d.nested || e.Capability == want
	if when := e.Datetime.Time(); !when.IsZero() && (d.first.IsZero() || when.Before(d.first)) {
		d.first = when.UTC()
	}
}

func (r *reader) eachEntry(d *doc, visit func(*resourcesync.Entry) error) error {
	_, err := r.load(document.Reader{Once: true}, d.key, visit)
	return err
}

// load reads a document completely and passes each entry to the function visit. A single
// unusable entry is an error, since the adoption would lose its resource.
func (r *reader) load(in document.Reader, key string, visit func(*resourcesync.Entry) error) (*document.Document, error) {
	var failed error // the error that visit returned
	in.From = document.Opener(r.open)
	in.Entry = func(_ *document.Document, e *resourcesync.Entry, err error) error {
		if err != nil {
			return err
		}
		if failed = visit(e); failed == nil {
			failed = r.ctx.Err()
		}
		return failed
	}
	whole, err := in.Read(r.ctx, key)
	var bad *document.Error
	switch {
	case failed != nil:
		return nil, failed
	case errors.As(err, &bad):
		return nil, &AdoptError{key, "cannot be read", bad.Err}
	}
	return whole, err
}

func (r *reader) open(ctx context.Context, key string) (io.ReadCloser, error) {
	body, _, err := r.bucket.Get(ctx, key, 0, -1)
	switch {
	case errors.Is(err, blob.ErrNotExist), errors.Is(err, blob.ErrForeign):
		return nil, &AdoptError{key, "is linked by a document, but does not exist", nil}
	case err != nil:
		return nil, fmt.Errorf("reading %q: %w", key, err)
	}
	return body, nil
}

// key returns the key of a document. The URI loc is that of a link to it in the document
// parent, and may be relative.
func (r *reader) key(loc string, parent *doc) (string, error) {
	u, err := url.Parse(r.base + parent.key)
	if err == nil {
		u, err = u.Parse(loc)
	}
	if err != nil {
		return "", &AdoptError{parent.key, fmt.Sprintf("names %q", loc), err}
	}
	key, below := strings.CutPrefix(u.String(), r.base)
	if !below || blob.ValidKey(key) != nil {
		return "", &AdoptError{parent.key, fmt.Sprintf("names the document %q, expected one below %s", u, r.base), nil}
	}
	return key, nil
}

// path returns the path of a resource in the catalog: the path of its file or, if no file
// can have this URI, the URI itself.
func (r *reader) path(uri string) string {
	if name, ok := scan.FileOf(r.base, uri); ok {
		return name
	}
	return uri
}

// offer holds the documents that readers find through one Capability List, directly or
// through an index.
type offer struct {
	capabilities *doc
	list         *doc   // the Resource List, or its index
	parts        []*doc // the Resource List, or its parts if it is an index
	resources    int64
	named        []*doc   // the Change Lists and indexes of Change Lists to which the Capability List links
	changes      []*doc   // the Change Lists, oldest first, without a gap
	left         []string // the keys of the documents that later publications will not link to
	others       []resourcesync.Capability
	gap          string // the reason why older Change Lists are not continued; "" if all Change Lists are continued
}

func (o *offer) listAt() time.Time { return o.list.header.At.Time().UTC().Truncate(time.Microsecond) }

func (r *reader) offer(key string) (*offer, error) {
	d, err := r.read(key, resourcesync.CapabilityCapabilityList)
	if err != nil {
		return nil, err
	}
	o := &offer{capabilities: d}
	err = r.eachEntry(d, func(e *resourcesync.Entry) error {
		key, err := r.key(e.Loc, d)
		switch {
		case e.Capability != resourcesync.CapabilityResourceList && e.Capability != resourcesync.CapabilityChangeList:
			o.others = append(o.others, e.Capability)
			if err == nil {
				o.left = append(o.left, key)
			}
			return nil
		case err != nil:
			return err
		}
		return r.readList(o, key, e.Capability)
	})
	if err == nil && o.list == nil {
		err = &AdoptError{key, "names no Resource List", nil}
	}
	if err == nil {
		o.sortChanges()
	}
	return o, err
}

func (r *reader) readList(o *offer, key string, c resourcesync.Capability) error {
	d, err := r.read(key, c)
	if err != nil {
		return err
	}
	parts := []*doc{d}
	if d.index() {
		if parts, err = r.parts(d); err != nil {
			return err
		}
	}
	if c == resourcesync.CapabilityResourceList {
		if o.list != nil {
			return &AdoptError{o.capabilities.key, fmt.Sprintf("names several Resource Lists, %q and %q", o.list.key, key), nil}
		}
		o.list, o.parts = d, parts
		return r.checkBelow(o)
	}
	o.named = append(o.named, d)
	for _, p := range parts {
		if err := r.checkChanges(p); err != nil {
			return err
		}
		if !slices.ContainsFunc(o.changes, func(c *doc) bool { return c.key == p.key }) {
			o.changes = append(o.changes, p)
		}
	}
	return nil
}

func (r *reader) parts(index *doc) (parts []*doc, err error) {
	err = r.eachEntry(index, func(e *resourcesync.Entry) error {
		if index.header.Root != resourcesync.SitemapIndex && e.Capability != index.header.Capability {
			return nil
		}
		key, err := r.key(e.Loc, index)
		if err != nil {
			return err
		}
		d, err := r.read(key, index.header.Capability)
		if err == nil && d.index() {
			err = &AdoptError{key, "is an index in an index", nil}
		}
		parts = append(parts, d)
		return err
	})
	return parts, err
}

// checkBelow returns an error if a resource of the Resource Lists is not below the base
// URL. It also counts the resources.
func (r *reader) checkBelow(o *offer) error {
	for _, d := range o.parts {
		o.resources += d.entries
		err := r.eachEntry(d, func(e *resourcesync.Entry) error { return r.checkEntry(d, e) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) checkEntry(d *doc, e *resourcesync.Entry) error {
	if strings.HasPrefix(e.Loc, r.base) && e.Loc != r.base {
		said := scan.Listed{URI: e.Loc, LastMod: e.LastMod, Length: e.Length, Digests: e.Digests, Type: e.Type, Encoding: e.Encoding, ChangeFreq: e.ChangeFreq}
		if err := said.Check(); err != nil {
			return &AdoptError{d.key, fmt.Sprintf("line %d: describes a resource in a way that Instep cannot repeat in its lists", e.Line), err}
		}
		return nil
	}
	return &AdoptError{d.key, fmt.Sprintf("line %d: lists %q, expected a resource below %s", e.Line, e.Loc, r.base), nil}
}

// checkChanges returns an error if a document lists anything but changes of resources below
// the base URL.
func (r *reader) checkChanges(d *doc) error {
	return r.eachEntry(d, func(e *resourcesync.Entry) error {
		switch e.Change {
		case resourcesync.Created, resourcesync.Updated, resourcesync.Deleted:
			return r.checkEntry(d, e)
		}
		return &AdoptError{d.key, fmt.Sprintf("line %d: %q: expected created, updated or deleted, found %q", e.Line, e.Loc, e.Change), nil}
	})
}

// sortChanges sorts the Change Lists by time. If there is a period that no list covers, it
// drops all lists before that period.
func (o *offer) sortChanges() {
	slices.SortStableFunc(o.changes, func(a, b *doc) int { return a.start().Compare(b.start()) })
	for i := len(o.changes) - 1; i > 0; i-- {
		a, b := o.changes[i-1], o.changes[i]
		if until := a.header.Until.Time(); !until.IsZero() && until.Before(b.start()) {
			o.gap = fmt.Sprintf("no Change List has the changes between the end of %q and the beginning of %q: only the later lists are continued", a.key, b.key)
			o.changes = o.changes[i:]
			return
		}
	}
}

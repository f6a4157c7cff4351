package record

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"instep/internal/catalog"
	"instep/internal/scan"
	"instep/resourcesync"
)

// MaxLine is the largest length of a line in bytes.
const MaxLine = 64 << 10

type line struct {
	URI  string `json:"uri"`
	Path string `json:"path"` // path of a file below the published directory, instead of a URI

	Change  resourcesync.Change   `json:"change"`
	LastMod resourcesync.Datetime `json:"lastmod"`
	Length  *int64                `json:"length"`
	Hash    resourcesync.Digests  `json:"hash"`
	Type    string                `json:"type"`
}

var errTooLong = fmt.Errorf("expected lines of at most %d bytes", MaxLine)

type lines struct {
	r *bufio.Reader
	n int // number of the line that was read last
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, MaxLine)} }

// next returns the next line that is not empty, or io.EOF. The text is valid until the
// following call. After errTooLong, the following call returns the line after the long one.
func (l *lines) next() (text []byte, err error) {
	for {
		text, err = l.r.ReadSlice('\n')
		if len(text) > 0 {
			l.n++
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, l.skip()
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			return text, nil // an error after the text is returned by the following call
		}
		if err != nil {
			return nil, err
		}
	}
}

func (l *lines) skip() error {
	for {
		_, err := l.r.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return errTooLong // any other error is returned by the following call of next
		}
	}
}

// replacement is the character that encoding/json writes for invalid UTF-8 and for half of
// a surrogate pair.
const replacement = "\ufffd"

// checkUnaltered returns an error if the JSON decoder has altered the URI or the path, since
// the line would then name another resource.
func (l *line) checkUnaltered(text []byte) error {
	if !utf8.Valid(text) {
		return errors.New("expected UTF-8: a line cannot name a file whose name is not UTF-8; only a scan finds such a file")
	}
	meant := bytes.Count(text, []byte(replacement)) + bytes.Count(bytes.ToLower(text), []byte(`\ufffd`))
	if strings.Count(l.URI+l.Path, replacement) > meant {
		return errors.New(`expected UTF-8, found an escape such as "\udc80" that is half a character`)
	}
	return nil
}

// parse returns the change that a line describes, and reads the file if the line names one.
// The caller must call release to free the bytes that are stored for the change, unless
// release is nil.
func (r *Recorder) parse(ctx context.Context, text []byte) (ch catalog.Change, release func(), err error) {
	var l line
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		te, ok := errors.AsType[*json.UnmarshalTypeError](err)
		switch {
		case ok && te.Field != "":
			return ch, nil, fmt.Errorf("%s: found a JSON %s, expected a value of another type", te.Field, te.Value)
		case ok:
			return ch, nil, fmt.Errorf("expected a JSON object with \"uri\" or \"path\", found %s", te.Value)
		}
		return ch, nil, fmt.Errorf("expected a JSON object with \"uri\" or \"path\": %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return ch, nil, errors.New("expected one JSON object in each line, found more after the object")
	}
	if err := l.checkUnaltered(text); err != nil {
		return ch, nil, err
	}
	switch l.Change {
	case "", resourcesync.Created, resourcesync.Updated, resourcesync.Deleted:
	default:
		return ch, nil, fmt.Errorf("change: expected created, updated or deleted, found %q", l.Change)
	}
	switch {
	case (l.URI == "") == (l.Path == ""):
		return ch, nil, errors.New("expected either \"uri\" or \"path\"")
	case l.Path != "":
		return r.fromFile(ctx, &l)
	}
	return r.fromURI(ctx, &l)
}

// fromURI returns the change of a resource that the line names by its URI. It accepts the
// deletion of a resource that was never recorded, or whose file still exists.
func (r *Recorder) fromURI(ctx context.Context, l *line) (catalog.Change, func(), error) {
	e := scan.Listed{URI: l.URI, LastMod: l.LastMod, Digests: l.Hash, Type: l.Type}
	ch := catalog.Change{Change: l.Change, Resource: catalog.Resource{URI: l.URI, LastMod: l.LastMod, Digests: l.Hash, Type: l.Type}}
	if l.Length != nil {
		if *l.Length < 0 {
			return ch, nil, fmt.Errorf("length: expected a number of bytes, found %d", *l.Length)
		}
		e.Length = resourcesync.Bytes(*l.Length)
		ch.Length = e.Length
	}
	if err := e.Check(); err != nil || l.Change == resourcesync.Deleted {
		return ch, nil, err
	}
	accepted, release, err := r.Session.Accept(ctx, r.Set, ch.Resource)
	if err == nil {
		ch.Resource = accepted
	}
	return ch, release, err
}

// fromFile reads a file in the published directory and returns its change.
func (r *Recorder) fromFile(ctx context.Context, l *line) (catalog.Change, func(), error) {
	uri, err := r.Session.URIOf(ctx, l.Path)
	if err != nil {
		return catalog.Change{}, nil, err
	}
	gone := catalog.Change{Change: resourcesync.Deleted, Resource: catalog.Resource{URI: uri, Path: l.Path}}
	if len(l.Hash) > 0 || l.Length != nil || l.Type != "" || !l.LastMod.IsZero() {
		return gone, nil, errors.New("expected only \"path\" and \"change\", because everything else is read from the file")
	}
	if l.Change == resourcesync.Deleted {
		return gone, nil, nil
	}
	found, release, err := r.Session.Look(ctx, r.Set, l.Path)
	switch {
	case err == nil:
		return catalog.Change{Change: l.Change, Resource: found}, release, nil
	case errors.Is(err, fs.ErrNotExist) && l.Change == "":
		return gone, nil, nil
	}
	return gone, nil, err
}

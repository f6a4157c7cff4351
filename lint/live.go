package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"instep/fetch"
	"instep/resourcesync"
)

// DefaultSample is the default number of entries per document whose resources are
// requested.
const DefaultSample = 20

// Live checks the rules about the responses that a Source's server sends. It sends one
// request at a time. Defects of the server become findings of Checker.
type Live struct {
	Checker *Checker
	Client  *fetch.Client
	Sample  int              // the number of entries per document whose resources are requested; 0 means DefaultSample, and a negative number means all entries
	Seed    uint64           // the seed for the random choice of entries; the same seed and document give the same entries
	Now     func() time.Time // the clock; required

	// Unchecked is called with a URI that could not be checked for a reason that is not
	// a mistake of the server: the connection is not permitted, or the body is longer
	// than the limit.
	Unchecked func(uri string, err error)
}

// Answer describes the HTTP response that contained a document.
type Answer struct {
	URL    string // the URL of the response, after redirects
	Header http.Header
}

type liveRun struct {
	*run
	l      *Live
	kind   string
	newest map[key]int // in documents of changes, the line of the last entry of each resource
	keys   keys

	missing []missing // not reported yet

	hashed, failed int // the number of compared hashes, and of those that differ from the served bytes
	future, first  int // the number of datetimes that are in the future, and the line of the first one
}

func (l *Live) run(uri string, profile Profile, kind string) *liveRun {
	r := newRun(l.Checker, uri)
	r.auto, r.profile = false, cmp.Or(profile, r.profile)
	return &liveRun{run: r, l: l, kind: kind, keys: newKeys()}
}

// Document checks how a document was served, and whether the resources of a sample of its
// entries match the entries. It sets the fields Requested and Existing of d, the result of
// Checker.Document. The function open opens the body of the response in which the document
// was served. Document returns an error only if reading the body fails or ctx is done.
func (l *Live) Document(ctx context.Context, d *Document, a Answer, open func() (io.ReadCloser, error)) error {
	r := l.run(d.URI, d.Profile, d.Kind)
	defer func() { d.Requested, d.Existing = r.doc.Requested, r.doc.Existing }()
	head, err := headOf(open)
	if err != nil {
		return err
	}
	r.checkResponse(d, &a, head)
	if !d.Complete {
		return nil
	}
	if err := r.entries(ctx, open); err != nil {
		return err
	}
	if err := r.reportMissing(ctx); err != nil {
		return err
	}
	return r.checkClosed(ctx, d, open)
}

func headOf(open func() (io.ReadCloser, error)) ([]byte, error) {
	src, err := open()
	if err != nil {
		return nil, err
	}
	defer src.Close()
	head := make([]byte, HeadSize)
	n, err := io.ReadFull(src, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return head[:n], nil
}

func (r *liveRun) entries(ctx context.Context, open func() (io.ReadCloser, error)) error {
	if err := r.survey(ctx, open); err != nil || r.isForeign() {
		return err
	}
	if r.l.Sample < 0 {
		err := r.eachExisting(ctx, open, func(e *entry) error {
			r.doc.Existing++
			return r.checkListed(ctx, e)
		})
		r.reportWrongHashes()
		return err
	}
	sample, n, err := r.sample(ctx, open)
	if err != nil {
		return err
	}
	r.doc.Existing = n
	for i := range sample {
		if err := r.checkListed(ctx, &sample[i]); err != nil {
			return err
		}
	}
	r.reportWrongHashes()
	return nil
}

// survey reads the whole document before its entries are checked. It finds the header
// and the last entry of each resource, and reports times that are in the future.
func (r *liveRun) survey(ctx context.Context, open func() (io.ReadCloser, error)) error {
	if listsChanges(r.kind) {
		r.newest = make(map[key]int)
	}
	limit := resourcesync.DatetimeOf(r.l.Now().Add(clockSkew))
	err := r.readAgain(ctx, open, func(e *entry) error {
		if r.newest != nil {
			r.newest[r.keys.hash(e.Loc)] = e.Line
		}
		for _, d := range []resourcesync.Datetime{e.LastMod, e.Datetime, e.At, e.From, e.Completed, e.Until} {
			r.notFuture(d, limit, e.Line)
		}
		return nil
	})
	h := &r.header
	for _, d := range []resourcesync.Datetime{h.At, h.From, h.Completed, h.Until} {
		r.notFuture(d, limit, r.seen.Line)
	}
	const id = "quirk-32-local-time-as-utc"
	if rule := r.active(id, r.kind); rule != nil && r.future > 0 {
		r.report(rule, Finding{Line: r.first, Message: fmt.Sprintf("%d datetimes are in the future; this is the first one", r.future)})
	}
	return err
}

// clockSkew is how far a datetime may be in the future without a finding.
const clockSkew = 5 * time.Minute

func (r *liveRun) notFuture(d, limit resourcesync.Datetime, line int) {
	if !d.After(limit) {
		return
	}
	if r.future++; r.future == 1 {
		r.first = line
	}
}

// sample chooses entries at random, each with the same probability. n is the number of all
// entries from which it chose.
func (r *liveRun) sample(ctx context.Context, open func() (io.ReadCloser, error)) (chosen []entry, n int, err error) {
	h := fnv.New64a()
	_, _ = io.WriteString(h, r.uri)
	random := rand.New(rand.NewPCG(r.l.Seed, h.Sum64()))
	most := cmp.Or(r.l.Sample, DefaultSample)
	err = r.eachExisting(ctx, open, func(e *entry) error {
		n++
		if len(chosen) < most {
			chosen = append(chosen, *e)
		} else if i := random.IntN(n); i < most {
			chosen[i] = *e
		}
		return nil
	})
	slices.SortFunc(chosen, func(a, b entry) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.column, b.column)) })
	return chosen, n, err
}

// eachExisting calls f for each entry whose resource should exist. If a resource has several
// changes, only the last one counts.
func (r *liveRun) eachExisting(ctx context.Context, open func() (io.ReadCloser, error), f func(*entry) error) error {
	return r.readAgain(ctx, open, func(e *entry) error {
		switch {
		case !isHTTP(e.Loc), e.Change == resourcesync.Deleted:
			return nil
		case r.newest != nil && r.newest[r.keys.hash(e.Loc)] != e.Line:
			return nil
		}
		return f(e)
	})
}

// readAgain reads the document again and calls f for each entry. It reports no findings,
// because they were reported when the document was read before.
func (r *liveRun) readAgain(ctx context.Context, open func() (io.ReadCloser, error), f func(*entry) error) error {
	src, err := open()
	if err != nil {
		return err
	}
	defer src.Close()
	in := newInput(ctx, src)
	dec := resourcesync.NewDecoder(in, resourcesync.WithLimits(r.c.Limits))
	for e, err := range dec.Entries() {
		switch {
		case errors.Is(err, resourcesync.BadEntry):
			continue
		case err != nil:
			return in.err
		}
		seen := dec.SeenEntry()
		if err := f(&entry{Entry: e, column: seen.Column, hasMD: seen.Metadata}); err != nil {
			return err
		}
	}
	if h, err := dec.Header(); err == nil {
		r.header, r.seen = h, dec.SeenRoot()
	}
	return in.err
}

func isHTTP(uri string) bool {
	scheme, _, ok := strings.Cut(uri, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// unreached makes a finding if the server caused the error of a request, and otherwise calls
// Live.Unchecked. It returns an error only if ctx is done.
func (r *liveRun) unreached(ctx context.Context, uri string, f Finding, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if isOurs(err) {
		if r.l.Unchecked != nil {
			r.l.Unchecked(uri, err)
		}
		return nil
	}
	if rule := r.active("quirk-59-http-errors", r.kind); rule != nil {
		f.Message = err.Error()
		r.report(rule, f)
	}
	return nil
}

// isOurs reports whether a limit of the client, and not the server, caused the error.
func isOurs(err error) bool {
	return errors.Is(err, fetch.Refused) || errors.Is(err, fetch.TooLarge)
}

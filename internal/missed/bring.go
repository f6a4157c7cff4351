package missed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"instep/fetch"
	"instep/harvest"
	"instep/internal/memento"
	"instep/internal/versions"
	"instep/resourcesync"
)

// Bringer fetches versions of resources that the runs have skipped, and stores them.
type Bringer struct {
	Client *fetch.Client
	Store  *versions.Store // the store of the fetched versions; Version.Path is the URI of the resource
	// Held reports whether the mirror has the resource, with bytes that have this digest.
	Held         func(ctx context.Context, uri string, sha256 resourcesync.Digest) (bool, error)
	AllowOrigins []string // the origins other than that of the resource from which versions may be fetched
	// Stop is called before a version is fetched, with the length of the version. If Stop
	// returns an error, no more versions are fetched, the fetched ones are stored, and the
	// Bringer returns the error. Stop may be nil.
	Stop func(length int64) error
}

// Report counts what a Bringer did.
type Report struct {
	Fetched  int64 // the number of versions that were added to the store
	Bytes    int64
	Failed   int64
	Failures []Failure // the first 100 failures
}

// Failure is a version that could not be fetched, with the reason.
type Failure struct {
	URI string
	Err error
}

const (
	maxFailures = 100
	batchSize   = 50 // the number of versions that are stored together
)

// Before fetches the versions of the changes in the Log, except the last change of each
// resource. It must be called before the run records its position in the Change Lists. If
// the run is interrupted before that, the next run reads the changes again.
func (b *Bringer) Before(ctx context.Context, l *Log, rep *Report) error {
	n := l.n
	err := b.bring(ctx, l, rep, func(of []change) []change { return of[:len(of)-1] })
	if err == nil {
		l.brought = n
	}
	return err
}

// After must be called when the mirror has fetched the present states. It fetches the versions
// of the changes that were added to the Log after the call of Before, and the last version of
// each resource unless the mirror has this version.
func (b *Bringer) After(ctx context.Context, l *Log, rep *Report) error {
	return b.bring(ctx, l, rep, func(of []change) []change {
		for i := range of {
			if i == len(of)-1 || of[i+1].Number >= l.brought {
				return of[i:]
			}
		}
		return of
	})
}

// bring fetches and stores versions. The function selection chooses the changes of a
// resource whose versions are fetched.
func (b *Bringer) bring(ctx context.Context, l *Log, rep *Report, selection func([]change) []change) error {
	run := &batch{Bringer: b, rep: rep}
	for of, err := range l.byResource() {
		if err != nil {
			return err
		}
		last := of[len(of)-1].Number
		r := &resource{b: b}
		for _, c := range selection(of) {
			if err := run.add(ctx, r, c, c.Number == last); err != nil {
				return err
			}
		}
	}
	return run.flush(ctx)
}

// batch collects versions until they are stored together.
type batch struct {
	*Bringer
	rep    *Report
	states []versions.State
	tries  []*attempt // the request for each state; no request is sent for a deletion
}

// add adds the version of a change. It skips a version that is stored already, and the last
// version of a resource if the mirror has this version.
func (r *batch) add(ctx context.Context, of *resource, c change, last bool) error {
	v := versions.Version{Path: c.URI, Since: c.Since, Deleted: c.Deleted}
	if !c.Deleted {
		v.SHA256, v.Length, v.Type, v.Encoding = c.Digests.Get(resourcesync.SHA256), c.Length.Int64(), c.Type, c.Encoding
		if v.SHA256.IsZero() || !c.Length.Known() {
			r.fail(c.URI, errUnproved)
			return nil
		}
	}
	known, err := r.setUniqueTime(ctx, &v)
	if errors.Is(err, errCrowded) {
		r.fail(c.URI, err)
		return nil
	}
	if known || err != nil {
		return err
	}
	if last && !c.Deleted {
		if held, err := r.Held(ctx, c.URI, v.SHA256); held || err != nil {
			return err
		}
	}
	if r.Stop != nil && !c.Deleted {
		if err := r.Stop(v.Length); err != nil {
			return errors.Join(err, r.flush(ctx))
		}
	}
	a := &attempt{of: of, change: c}
	r.states, r.tries = append(r.states, versions.State{Version: v, Open: a.open}), append(r.tries, a)
	if len(r.states) < batchSize {
		return nil
	}
	return r.flush(ctx)
}

// maxAtOnce is the largest number of states of a resource that are stored although they
// have the same datetime at the Source.
const maxAtOnce = 100

var errCrowded = fmt.Errorf("more than %d changes of the resource have the same datetime", maxAtOnce)

// setUniqueTime adds microseconds to the time of a state until no stored state of the
// resource has the same time. A Source with times in whole seconds may list several changes
// in one second. It returns true if the state is stored already.
func (r *batch) setUniqueTime(ctx context.Context, v *versions.Version) (known bool, err error) {
	if n := len(r.states); n > 0 && r.states[n-1].Path == v.Path && !r.states[n-1].Since.Before(v.Since) {
		if err := r.flush(ctx); err != nil {
			return false, err
		}
	}
	for range maxAtOnce {
		at, err := r.Store.At(ctx, v.Path, v.Since)
		switch {
		case errors.Is(err, versions.ErrNoVersion):
			return false, nil
		case err != nil:
			return false, err
		case at.Deleted == v.Deleted && at.SHA256 == v.SHA256:
			return true, nil
		case at.Since.Before(v.Since):
			return false, nil
		}
		v.Since = v.Since.Add(time.Microsecond)
	}
	return false, errCrowded
}

func (r *batch) flush(ctx context.Context) error {
	if len(r.states) == 0 {
		return nil
	}
	lost, err := r.Store.Keep(ctx, r.states)
	if err != nil {
		return fmt.Errorf("storing the fetched versions: %w", err)
	}
	missing := map[string]bool{}
	for i := range lost {
		missing[lost[i].Place()] = true
	}
	for i, a := range r.tries {
		switch v := &r.states[i].Version; {
		case missing[v.Place()]:
			r.fail(v.Path, a.reason())
		case !v.Deleted:
			r.rep.Fetched++
			r.rep.Bytes += v.Length
		}
	}
	r.states, r.tries = r.states[:0], r.tries[:0]
	return nil
}

func (r *batch) fail(uri string, err error) {
	if r.rep.Failed++; len(r.rep.Failures) < maxFailures {
		r.rep.Failures = append(r.rep.Failures, Failure{uri, err})
	}
}

// resource has the data that all versions of a resource share: its TimeMap, which is
// requested only once.
type resource struct {
	b     *Bringer
	asked bool
	list  []memento.Memento // the Mementos in the TimeMap; empty unless the TimeMap was requested
	err   error             // the reason why the TimeMap cannot be used, or nil
}

type attempt struct {
	of     *resource
	change change
	from   string // URI from which the version was requested
	failed error
}

// reason returns the reason why the version was not stored: either the error of the
// request, or that the bytes differ from those that the entry describes.
func (a *attempt) reason() error {
	if a.failed != nil {
		return a.failed
	}
	return fmt.Errorf("the version of %s at %s has other bytes than the entry in the Change List states", a.change.Since.Format(time.RFC3339), a.from)
}

// open requests the version. If the request fails, the error wraps fs.ErrNotExist, so that
// the Store skips the version. Any other error means that the run is interrupted.
func (a *attempt) open(ctx context.Context) (io.ReadCloser, error) {
	body, err := a.request(ctx)
	if err != nil {
		return nil, a.lose(ctx, err)
	}
	return &losingBody{body, func(err error) error { return a.lose(ctx, err) }}, nil
}

func (a *attempt) lose(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a.failed = err
	return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
}

// losingBody treats an error while reading the body like an error of the request.
type losingBody struct {
	io.ReadCloser
	lose func(error) error
}

func (l *losingBody) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = l.lose(err)
	}
	return n, err
}

// request uses the link to the version itself (Memento) if there is one. Otherwise it uses
// the TimeMap of the resource, or else the TimeGate.
func (a *attempt) request(ctx context.Context) (io.ReadCloser, error) {
	req := fetch.Request{MaxBytes: max(1, a.change.Length.Int64())}
	switch c := &a.change; {
	case c.Memento != "":
		a.from = c.Memento
	case c.TimeMap != "":
		uri, err := a.of.findInTimeMap(ctx, c)
		if err != nil {
			return nil, err
		}
		a.from = uri
	default:
		a.from, req.Datetime = c.TimeGate, c.Since
	}
	if err := a.of.b.checkOrigin(a.change.URI, a.from); err != nil {
		return nil, err
	}
	req.URL = a.from
	resp, err := a.of.b.Client.Get(ctx, req)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// findInTimeMap returns the URI of the version that a change has made: the last version in the
// TimeMap that is not later than the change.
func (r *resource) findInTimeMap(ctx context.Context, c *change) (string, error) {
	if !r.asked {
		r.asked = true
		r.list, r.err = r.b.timeMap(ctx, c)
	}
	if r.err != nil {
		return "", r.err
	}
	end, found := c.Since.Add(time.Second), memento.Memento{}
	for _, m := range r.list {
		if m.Datetime.Before(end) && !m.Datetime.Before(found.Datetime) {
			found = m
		}
	}
	if found.URI == "" {
		return "", fmt.Errorf("the TimeMap %s lists no version from %s or earlier", c.TimeMap, c.Since.Format(time.RFC3339))
	}
	return found.URI, nil
}

func (b *Bringer) timeMap(ctx context.Context, c *change) ([]memento.Memento, error) {
	if err := b.checkOrigin(c.URI, c.TimeMap); err != nil {
		return nil, err
	}
	resp, err := b.Client.Get(ctx, fetch.Request{URL: c.TimeMap, Accept: memento.TimeMapType, MaxBytes: memento.MaxTimeMap})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	m, list, err := memento.ReadTimeMap(resp.Body, resp.URL)
	if err == nil && m.Original != "" && m.Original != c.URI {
		err = fmt.Errorf("the TimeMap %s is for another resource, %q", c.TimeMap, m.Original)
	}
	return list, err
}

// checkOrigin returns an error if a version has another origin than the resource, and the user
// has not allowed this origin.
func (b *Bringer) checkOrigin(resource, at string) error {
	own, err := fetch.ParseReference(resource)
	if err != nil {
		return err
	}
	u, err := fetch.ParseReference(at)
	if err != nil || u.Host == "" || u.User != nil || len(at) > harvest.MaxURI {
		return fmt.Errorf("%q is not a URI from which a version can be fetched", at)
	}
	origin := fetch.Origin(u)
	if origin == fetch.Origin(own) || slices.Contains(b.AllowOrigins, origin) {
		return nil
	}
	return fmt.Errorf("%s has another origin than the resource; allow it with --allow-origin %s", at, origin)
}

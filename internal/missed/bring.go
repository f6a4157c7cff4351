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

// Bringer fetches missed versions of resources and puts them into a store.
type Bringer struct {
	Client *fetch.Client
	Store  *versions.Store // where versions are stored; their field Path is the URI of the resource
	// Held reports whether the bytes with this digest are the present state of a resource
	// in the mirror.
	Held         func(ctx context.Context, uri string, sha256 resourcesync.Digest) (bool, error)
	AllowOrigins []string // the origins from which versions may be fetched, in addition to the origin of the resource
	// Stop is called before each version is fetched, with its length. If Stop returns an
	// error, the calling method stores the versions that were fetched before and returns
	// the error. Stop may be nil.
	Stop func(length int64) error
}

// Report counts what a Bringer did.
type Report struct {
	Fetched  int64 // the number of versions that were added to the store
	Bytes    int64
	Failed   int64
	Failures []Failure // the first failures
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

// Before fetches the versions of the changes that the Log has so far, except the last
// change of each resource. It must be called before the position in the changes is
// recorded, so that a run that is interrupted earlier reads the changes again.
func (b *Bringer) Before(ctx context.Context, l *Log, rep *Report) error {
	n := l.n
	err := b.bring(ctx, l, rep, func(of []change) []change { return of[:len(of)-1] })
	if err == nil {
		l.brought = n
	}
	return err
}

// After fetches the remaining versions, after the present states have been fetched: the
// versions of changes that were read since Before was called, and the last version of
// each resource if the mirror does not have it.
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

// bring fetches and stores versions. It passes the changes of each resource to choose, and
// fetches the versions of the changes that choose returns.
func (b *Bringer) bring(ctx context.Context, l *Log, rep *Report, choose func([]change) []change) error {
	run := &bringing{Bringer: b, rep: rep}
	for of, err := range l.byResource() {
		if err != nil {
			return err
		}
		last := of[len(of)-1].Number
		r := &resource{b: b}
		for _, c := range choose(of) {
			if err := run.add(ctx, r, c, c.Number == last); err != nil {
				return err
			}
		}
	}
	return run.flush(ctx)
}

// bringing collects versions until they are stored together.
type bringing struct {
	*Bringer
	rep    *Report
	states []versions.State
	tries  []*attempt // one attempt for each version; nil for a deletion
}

// add adds the version of a change. It skips versions that are stored already, and the
// last version of a resource if the mirror has it as the present state.
func (r *bringing) add(ctx context.Context, of *resource, c change, last bool) error {
	v := versions.Version{Path: c.URI, Since: c.Since, Deleted: c.Deleted}
	if !c.Deleted {
		v.SHA256, v.Length, v.Type, v.Encoding = c.Digests.Get(resourcesync.SHA256), c.Length.Int64(), c.Type, c.Encoding
		if v.SHA256.IsZero() || !c.Length.Known() {
			r.fail(c.URI, errUnproved)
			return nil
		}
	}
	known, err := r.place(ctx, &v)
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

// maxAtOnce is the maximum number of states of a resource that are stored for the same
// datetime.
const maxAtOnce = 100

// errCrowded is the reason why further states with the same datetime are not fetched.
var errCrowded = fmt.Errorf("more than %d changes of the resource have the same datetime", maxAtOnce)

// place makes the time of a state different from the times of the stored states of the same
// resource. As long as another state has the same time, it adds a microsecond, because a
// Source with times in whole seconds may state several changes in one second. known
// means that the state is already stored.
func (r *bringing) place(ctx context.Context, v *versions.Version) (known bool, err error) {
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

func (r *bringing) flush(ctx context.Context) error {
	if len(r.states) == 0 {
		return nil
	}
	lost, err := r.Store.Keep(ctx, r.states)
	if err != nil {
		return fmt.Errorf("keeping the versions fetched: %w", err)
	}
	missing := map[string]bool{}
	for i := range lost {
		missing[lost[i].Place()] = true
	}
	for i, a := range r.tries {
		switch v := &r.states[i].Version; {
		case missing[v.Place()]:
			r.fail(v.Path, a.why())
		case !v.Deleted:
			r.rep.Fetched++
			r.rep.Bytes += v.Length
		}
	}
	r.states, r.tries = r.states[:0], r.tries[:0]
	return nil
}

func (r *bringing) fail(uri string, err error) {
	if r.rep.Failed++; len(r.rep.Failures) < maxFailures {
		r.rep.Failures = append(r.rep.Failures, Failure{uri, err})
	}
}

// resource has the data that are requested only once for all versions of a resource.
type resource struct {
	b     *Bringer
	asked bool
	list  []memento.Memento // the Mementos in the TimeMap of the resource, if it was requested
	err   error             // the reason why the TimeMap cannot be used, or nil
}

type attempt struct {
	of     *resource
	change change
	from   string // URI from which the version was requested
	failed error
}

// why returns the reason why the version was not stored: an error, or bytes that differ
// from the entry of the version.
func (a *attempt) why() error {
	if a.failed != nil {
		return a.failed
	}
	return fmt.Errorf("the version of %s at %s has other bytes than its entry states", a.change.Since.Format(time.RFC3339), a.from)
}

// open requests the version. For every error of the server it returns fs.ErrNotExist,
// so that the Store skips the version. It returns another error only if the run is
// interrupted.
func (a *attempt) open(ctx context.Context) (io.ReadCloser, error) {
	body, err := a.request(ctx)
	if err != nil {
		return nil, a.lose(ctx, err)
	}
	return &losing{body, func(err error) error { return a.lose(ctx, err) }}, nil
}

func (a *attempt) lose(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a.failed = err
	return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
}

// losing is a reader of a body that treats an error while reading in the same way as an
// error of the server.
type losing struct {
	io.ReadCloser
	lose func(error) error
}

func (l *losing) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = l.lose(err)
	}
	return n, err
}

// request fetches the version with the help of the links in its entry: the Memento
// itself, or the TimeMap or TimeGate of the resource.
func (a *attempt) request(ctx context.Context) (io.ReadCloser, error) {
	req := fetch.Request{MaxBytes: max(1, a.change.Length.Int64())}
	switch c := &a.change; {
	case c.Memento != "":
		a.from = c.Memento
	case c.TimeMap != "":
		uri, err := a.of.listed(ctx, c)
		if err != nil {
			return nil, err
		}
		a.from = uri
	default:
		a.from, req.Datetime = c.TimeGate, c.Since
	}
	if err := a.of.b.allowed(a.change.URI, a.from); err != nil {
		return nil, err
	}
	req.URL = a.from
	resp, err := a.of.b.Client.Get(ctx, req)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// listed finds the version of a change in the TimeMap of its resource, and returns its
// URI. It takes the last version that is not later than the change.
func (r *resource) listed(ctx context.Context, c *change) (string, error) {
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
	if err := b.allowed(c.URI, c.TimeMap); err != nil {
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

// allowed returns an error if the URL of a version has another origin than the
// resource, and the user has not allowed this origin.
func (b *Bringer) allowed(resource, at string) error {
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

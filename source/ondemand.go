package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"instep/pack"
	"instep/resourcesync"
)

// PackageData supplies the resources for packages on demand. Its methods are called
// concurrently. Each Bitstream that they yield has a length and, unless it is a
// deletion, an Open function.
type PackageData interface {
	// Resources yields those of the resources with the given URIs that are in the set
	// now. The error is ErrNoSet if the set is not published.
	Resources(ctx context.Context, set string, uris []string) iter.Seq2[Bitstream, error]
	// Changes yields the changes of a set since the time start, oldest first. If a resource
	// has changed several times, the last change is enough. The error is ErrNoSet, or
	// ErrForgotten if not all changes since start are still recorded.
	Changes(ctx context.Context, set string, start time.Time) iter.Seq2[Bitstream, error]
}

// Errors that a PackageData returns.
var (
	ErrNoSet     = errors.New("no such set is published here")
	ErrForgotten = errors.New("the changes since that time are no longer recorded")
)

// OnDemand configures NewPackageHandler, an extension of Instep that standard readers do
// not need (docs/on-demand.md). Data, BaseURL and Now are required. A limit of 0 means its
// default.
type OnDemand struct {
	Data    PackageData
	BaseURL string // the base URL in the form that ParseBaseURL returns
	Now     func() time.Time
	Report  func(error) // a function that is called with each internal error; nil ignores the errors

	Entries  int           // the largest number of resources or changes in a package, at most 50,000; 0 means 10,000
	Bytes    int64         // the largest total size of the uncompressed resources in bytes; 0 means 1 GiB
	Requests int           // the largest number of requests answered at the same time (further ones get 503); 0 means 2
	Time     time.Duration // the longest time for one answer; 0 means 10 minutes
}

// NewPackageHandler answers a POST request with a package: a ZIP file with the requested
// resources, or with those that have changed since a given time, and a manifest (1.1 §11.2,
// §13.2). The package is streamed and not stored. The limits in o bound its size and the
// memory used. The handler refuses requests that browsers send from pages of other origins.
func NewPackageHandler(o OnDemand) http.Handler {
	o.Entries = min(cmp.Or(max(o.Entries, 0), 10_000), resourcesync.MaxEntries)
	o.Bytes = cmp.Or(max(o.Bytes, 0), 1<<30)
	o.Requests = cmp.Or(max(o.Requests, 0), 2)
	o.Time = cmp.Or(max(o.Time, 0), 10*time.Minute)
	if o.Report == nil {
		o.Report = func(error) {}
	}
	h := &onDemand{OnDemand: o, turns: make(chan struct{}, o.Requests)}
	return http.NewCrossOriginProtection().Handler(h)
}

type onDemand struct {
	OnDemand
	turns chan struct{} // a semaphore that limits the number of requests answered at the same time
}

// refusal is an error that is sent to the client as the response.
type refusal struct {
	status int
	why    string
}

func (e *refusal) Error() string { return e.why }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

func (h *onDemand) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := newResponse(w, h.Now)
	out.Header().Set("X-Content-Type-Options", "nosniff")
	out.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodPost {
		out.Header().Set("Allow", http.MethodPost)
		http.Error(out, "expected a POST that names resources or a time", http.StatusMethodNotAllowed)
		return
	}
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	default:
		h.fail(out, refuse(http.StatusServiceUnavailable, "%d packages are being made, which is the limit", h.Requests))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.Time)
	defer cancel()
	if err := h.answer(ctx, out, r); err != nil {
		h.fail(out, err)
	}
}

// fail answers with an error. If a part of the answer was already sent, fail closes the
// connection, so that the client notices that the answer is incomplete.
func (h *onDemand) fail(w *response, err error) {
	said, refused := errors.AsType[*refusal](err)
	if !refused {
		h.Report(fmt.Errorf("making a package on demand: %w", err))
		said = &refusal{http.StatusServiceUnavailable, "the package could not be made now"}
	}
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	w.Header().Del("Content-Disposition")
	if said.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "60")
	}
	http.Error(w, said.why, said.status)
}

func (h *onDemand) answer(ctx context.Context, w *response, r *http.Request) error {
	wanted, err := h.read(r)
	if err != nil {
		return err
	}
	header, members, err := h.collect(ctx, wanted)
	switch {
	case errors.Is(err, ErrNoSet):
		return refuse(http.StatusNotFound, "%v: %q", ErrNoSet, wanted.Set)
	case errors.Is(err, ErrForgotten):
		return refuse(http.StatusGone, "%v: begin with a Resource List or Resource Dump", ErrForgotten)
	case err != nil:
		return err
	}
	w.Header().Set("Content-Type", zipType)
	w.Header().Set("Content-Disposition", `attachment; filename="package.zip"`)
	_, err = new(pack.Writer).Write(ctx, w, func(out io.Writer) error { return writeManifest(out, header, members) }, members)
	return err
}

func (h *onDemand) collect(ctx context.Context, wanted wantedPackage) (resourcesync.Header, []pack.Member, error) {
	l := layout{base: h.BaseURL, set: wanted.Set}
	var header resourcesync.Header
	var data iter.Seq2[Bitstream, error]
	if wanted.from.IsZero() {
		header = l.header(resourcesync.CapabilityResourceDumpManifest)
		header.At = resourcesync.DatetimeOf(h.Now().UTC())
		data = h.Data.Resources(ctx, wanted.Set, wanted.URIs)
	} else {
		header = l.header(resourcesync.CapabilityChangeDumpManifest)
		header.From = resourcesync.DatetimeOf(wanted.from)
		data = h.Data.Changes(ctx, wanted.Set, wanted.from)
	}
	var members []pack.Member
	left := h.Bytes
	for b, err := range data {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return header, nil, err
		}
		if b.Open != nil {
			if !b.Length.Known() {
				return header, nil, fmt.Errorf("%q has no length", b.Loc)
			}
			left -= b.Length.Int64()
		}
		switch {
		case len(members) == h.Entries:
			return header, nil, refuse(http.StatusRequestEntityTooLarge, "a package has at most %d entries, but more were requested", h.Entries)
		case left < 0:
			return header, nil, refuse(http.StatusRequestEntityTooLarge, "a package has at most %d bytes, but more were requested", h.Bytes)
		}
		members = append(members, memberOf(b, len(members)+1))
	}
	return header, members, nil
}

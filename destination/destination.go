package destination

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"instep/discover"
	"instep/fetch"
	"instep/guard"
	"instep/harvest"
	"instep/resourcesync"
	"instep/transfer"
)

// Destination keeps a Mirror in step with a Source. Runs do not change the fields. One
// Destination may be used for any number of runs, one at a time.
type Destination struct {
	Source string        // any URI of the Source: of its site, Source Description, Capability List or a list
	Mirror Mirror        // the mirror to synchronise
	Client *fetch.Client // client for requests to the Source

	Sets          []string            // the sets to synchronise, by name or by the URI of the Capability List; empty for all
	AllowOrigins  []string            // origins, besides the Source's own, from which resources may be fetched
	MaxDelete     guard.Limit         // maximum number of deletions in a run without consent
	KeepDeleted   bool                // apply no deletion
	Duplicates    transfer.Duplicates // when to fetch a resource from one of its "duplicate" links
	NoPatches     bool                // fetch changed resources whole, even if the Source offers patches (1.1 §14.4)
	Prefer        Prefer              // whether to use lists or dumps if the Source offers both
	Strict        bool                // accept only bytes that sha-256 or better proves, and only documents without errors
	Include       []string            // globs for the URI paths of the resources to fetch; empty for all
	Exclude       []string            // globs for the URI paths of resources to leave out
	Types         []string            // media types of the resources to fetch; empty for all
	Collections   []string            // fetch only resources with a link to one of these collections (1.1 §14.7); empty for all
	Profiles      []string            // fetch only resources with a link to one of these profiles (1.1 §14.5); empty for all
	WithMetadata  bool                // also fetch the metadata records of the chosen resources; then Profiles applies only to these records
	Where         Selector            // fetch only resources whose metadata record this Selector selects (1.1 §14.5); nil for all
	Accept        []string            // media types of alternate representations to fetch, best first (1.1 §14.3); empty for the resource as listed
	Workers       int                 // maximum number of concurrent transfers; 0 for 4
	Quick         bool                // Audit does not read files that the Mirror reports as Untouched
	ReadOnly      bool                // Audit writes nothing to the Mirror
	MaxChanges    int                 // number of changed resources of a set after which a run reads no further Change List; 0 for 250,000
	MaxTransfer   int64               // number of bytes after which a run starts no further transfer (ErrMaxTransfer); 0 for no limit
	MaxTime       time.Duration       // time from the start of Apply after which no further transfer starts (ErrMaxTime); 0 for no limit
	BaselineEvery time.Duration       // maximum time between baselines; 0 for DefaultBaselineEvery; negative for no maximum
	Spool         string              // directory for temporary files; "" for the system's directory

	// At is a past moment: the mirror holds each set as it was then (Archives §1, §4). The
	// mirror records the moment, so later runs need not set At. The zero time means the
	// recorded moment, or the present if the mirror has recorded none.
	At time.Time

	// AcceptRollback accepts that a Source shows an older state than before: a baseline
	// then makes the mirror equal to the Source.
	AcceptRollback bool

	// AcceptGap accepts the state of the lists even if the changes after them are
	// unknown. It clears SetPlan.Gap.
	AcceptGap bool

	// Passed is called during planning with each change of a resource that the run
	// handles, including changes that a later change supersedes. If the plan is made
	// again, the same changes may be passed again. Passed may be nil.
	Passed func(*harvest.ChangeEntry)

	Observe func(Event) // receives events, from several goroutines at once; may be nil
}

// Prefer selects lists or dumps if a Source offers both. "" selects what costs less.
type Prefer string

// These are the values of Prefer.
const (
	PreferList Prefer = "list" // resources are requested one by one
	PreferDump Prefer = "dump" // resources are extracted from packages
)

// Event describes one step or finding of a run.
type Event struct {
	Kind    EventKind
	Set     string
	Action  Action // action of an EventBegun, EventTransferred, EventDone or EventFailed
	Path    string
	Bytes   int64
	Verdict Verdict            // verdict of an EventVerdict
	Again   bool               // set if this is the second verdict for the resource, after the repair
	Err     error              // error of an EventTransferred or EventFailed; for an EventVerdict the difference, or why the comparison was impossible
	Text    string             // sentence of an EventNote
	Quirk   resourcesync.Quirk // deviation from the standard that an EventNote reports; 0 if there is none
	Plan    *SetPlan
}

// EventKind is the kind of an Event.
type EventKind string

// These are the kinds of events.
const (
	EventPlanned     EventKind = "planned"     // a set was planned
	EventBegun       EventKind = "begun"       // the transfer of an action has started
	EventTransferred EventKind = "transferred" // the transfer of an action has ended; EventDone or EventFailed follows when the batch is committed
	EventDone        EventKind = "done"        // the bytes are verified, and their batch is committed or is being committed
	EventFailed      EventKind = "failed"      // an action failed; the run continues
	EventRetried     EventKind = "retried"     // the failed resources of the set, except those with ErrNoPlace, are tried again in this run; their EventFailed no longer counts
	EventNote        EventKind = "note"        // a deviation was tolerated, a resource was skipped, or a value was guessed
	EventTried       EventKind = "tried"       // Plan or Audit tried one way to find the Source; Text has the way and the result
	EventVerdict     EventKind = "verdict"     // Audit judged one resource
)

func (d *Destination) workers() int { return cmp.Or(max(d.Workers, 0), 4) }

func (d *Destination) observe(e Event) {
	if d.Observe != nil {
		d.Observe(e)
	}
}

func (d *Destination) note(set, text string) { d.quirk(0, set, text) }

func (d *Destination) quirk(q resourcesync.Quirk, set, text string) {
	d.observe(Event{Kind: EventNote, Quirk: q, Set: set, Text: text})
}

func (d *Destination) client() *fetch.Client {
	if d.Mirror != nil && !d.Client.HasCache() {
		if c := d.Mirror.Documents(); c != nil {
			return d.Client.WithCache(c)
		}
	}
	return d.Client
}

// reader returns a reader for documents from the Source's own origin and from origins
// that the user allowed.
func (d *Destination) reader(sc *scope) *harvest.Reader {
	r := &harvest.Reader{
		Client: d.client(), Spool: d.Spool, Strict: d.Strict, Origins: sc.origins, Packages: d.transport(),
		MaxChanges: cmp.Or(max(d.MaxChanges, 0), harvest.DefaultMaxChanges),
		Tell: func(q resourcesync.Quirk, set, text string) {
			if sc.told.isNew(set, text) {
				d.quirk(q, set, text)
			}
		},
	}
	if d.Passed != nil {
		r.Passed = func(c *harvest.ChangeEntry) {
			if skip, _ := sc.admit(new(c.Resource), c.Change == resourcesync.Deleted); skip == "" {
				d.Passed(c)
			}
		}
	}
	return r
}

func (d *Destination) discover(ctx context.Context) (*discover.Source, []discover.Set, *scope, error) {
	filter, err := d.newFilter()
	if err != nil {
		return nil, nil, nil, err
	}
	f := discover.Finder{Client: d.client(), AllowOrigins: d.AllowOrigins, Strict: d.Strict}
	src, err := discover.Find(ctx, f, d.Source)
	if err != nil {
		return nil, nil, nil, d.blocked(ctx, err)
	}
	for _, t := range src.Tried {
		d.observe(Event{Kind: EventTried, Text: fmt.Sprintf("%s %s: %s", t.Way, t.URL, t.Outcome)})
	}
	sc := &scope{origins: map[string]bool{}, filter: filter, selects: d.selector(ctx)}
	for _, o := range slices.Concat(src.Origins, d.AllowOrigins) {
		sc.origins[o] = true
	}
	for _, n := range src.Notices {
		at := n.URI
		if n.Line > 0 {
			at = fmt.Sprintf("%s line %d", n.URI, n.Line)
		}
		d.quirk(n.Quirk, "", at+": "+n.Msg)
	}
	if sc.moment, err = d.moment(ctx); err != nil {
		return nil, nil, nil, err
	}
	sets, err := src.Choose(d.Sets)
	return src, sets, sc, err
}

// blocked returns an error of the Source if an earlier run has read the Source, and now
// an HTML page comes instead of a document: the page may come from a firewall or an
// outage.
func (d *Destination) blocked(ctx context.Context, err error) error {
	var none *discover.Error
	if d.Mirror == nil || !errors.As(err, &none) {
		return err
	}
	known, failed := d.Mirror.Sets(ctx)
	if failed != nil || len(known) == 0 {
		return errors.Join(err, failed)
	}
	for _, a := range none.Tried {
		named := a.Way == discover.WayWellKnown || a.Way == discover.WayBelow || slices.Contains(known, a.URL)
		if a.Page != nil && named {
			return fmt.Errorf("cannot read the Source of %q, which an earlier run has read: %w", d.Source, &harvest.SourceError{Err: a.Page})
		}
	}
	return err
}

// sourceURI returns the URI of the Source Description. If there is none, it returns the
// URI of the only set.
func sourceURI(src *discover.Source) string {
	if src.Description != "" {
		return src.Description
	}
	return src.Sets[0].URI
}

// scope decides which resources a run handles.
type scope struct {
	origins map[string]bool
	filter  *filter
	selects func(record resourcesync.Link) (bool, error) // nil if every resource is chosen
	moment  time.Time                                    // past moment of the mirror; zero for the present
	told    toldOnce
}

// toldOnce remembers the reported notes, because a run may read a document several
// times. Its zero value is ready for use.
type toldOnce struct {
	mu    sync.Mutex
	notes map[[sha256.Size]byte]bool
}

// maxTold is the maximum number of remembered notes. Further notes may be repeated.
const maxTold = 10_000

func (t *toldOnce) isNew(set, text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := sha256.Sum256([]byte(set + "\n" + text))
	known := t.notes[key]
	if t.notes == nil {
		t.notes = map[[sha256.Size]byte]bool{}
	}
	if len(t.notes) < maxTold {
		t.notes[key] = true
	}
	return !known
}

// Skip is the reason why a run left out a resource that the Source lists.
type Skip string

// These are values of Skip.
const (
	SkipOrigin      Skip = "of another origin"
	SkipUnsupported Skip = "not an http or https URI"
	SkipFiltered    Skip = "filtered out"
	SkipWeak        Skip = "not proved by sha-256 or better"
)

// Missed returns the number of resources that a run left out for another reason than a
// filter of the caller.
func Missed(skipped map[Skip]int64) (n int64) {
	for _, s := range [...]Skip{SkipOrigin, SkipUnsupported, SkipWeak, SkipStale, SkipDisputed, SkipRecord} {
		n += skipped[s]
	}
	return n
}

// represent replaces the resource by its preferred alternate representation. It returns
// false if the Source offers no accepted representation.
func (s *scope) represent(w *harvest.Resource) bool {
	if len(s.filter.d.Accept) == 0 {
		return true
	}
	ok, err := w.Represent(s.filter.d.Accept, s.origins)
	return ok || err != nil
}

// admit decides whether the run handles a resource or, if deleted is true, its
// deletion. A deletion has no links or digests, so the filters by links and digests do
// not apply. With SkipOrigin, admit returns the origin that the user would have to
// allow.
func (s *scope) admit(w *harvest.Resource, deleted bool) (skip Skip, origin string) {
	u, err := fetch.ParseReference(w.URI)
	if err != nil || len(w.URI) > harvest.MaxURI || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return SkipUnsupported, ""
	}
	if !deleted && !s.represent(w) {
		return SkipFiltered, ""
	}
	if !s.filter.admits(w, u.Path, deleted) {
		return SkipFiltered, ""
	}
	if o := fetch.Origin(u); !s.origins[o] {
		return SkipOrigin, o
	}
	if s.filter.d.Strict && !deleted && !w.Digests.Strong() {
		return SkipWeak, ""
	}
	if !deleted {
		skip = s.skipByRecord(w)
	}
	if skip == "" {
		w.Choose(s.origins)
	}
	return skip, ""
}

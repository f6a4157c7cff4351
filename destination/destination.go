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

// Destination keeps a Mirror in step with a Source. The fields are read, not
// changed; one Destination may be used for any number of runs, one at a time.
type Destination struct {
	Source string        // any URI of the Source: site, Source Description, Capability List, list
	Mirror Mirror        // the held copy
	Client *fetch.Client // client for requests to the Source

	Sets          []string            // only these sets, by Capability List URI or name; empty: all
	AllowOrigins  []string            // origins beside the Source's own whose resources are fetched
	MaxDelete     guard.Limit         // limit of deletions of a run without consent
	KeepDeleted   bool                // apply no deletion
	Duplicates    transfer.Duplicates // when a resource is fetched from a duplicate
	NoPatches     bool                // use no patches: they are used for resources of which earlier bytes are held, if a digest proves the result (1.1 §14.4)
	Prefer        Prefer              // preferred documents of a baseline or an increment, if both kinds are offered
	Strict        bool                // accept only what a sha-256 or better proves, and documents without a flaw
	Include       []string            // globs on the path of a resource; empty: all
	Exclude       []string            // globs on the path of a resource
	Types         []string            // media types; empty: all
	Collections   []string            // only resources that an entry links to one of these (1.1 §14.7); empty: all
	Profiles      []string            // only resources that an entry links to one of these profiles (1.1 §14.5); empty: all
	WithMetadata  bool                // also metadata that describes what Include and Types choose; Profiles is then about metadata only
	Accept        []string            // of resources with alternates the representation of the first of these media types (1.1 §14.3); empty: as listed
	Workers       int                 // resources in transfer at a time; 0: 4
	Quick         bool                // Audit does not read bytes that by size and modification time are untouched, if the Mirror is a Prober
	ReadOnly      bool                // Audit marks nothing in the Mirror
	MaxChanges    int                 // changed resources of a set after which a run reads no further Change List, and the next run continues; 0: 250,000
	MaxTransfer   int64               // bytes of resources after which a run begins no further transfer (ErrMaxTransfer); 0: no limit
	MaxTime       time.Duration       // from the beginning of Apply, after which it begins no further transfer (ErrMaxTime); 0: no limit
	BaselineEvery time.Duration       // how long increments alone suffice, since Sources may omit deletions; 0: DefaultBaselineEvery; negative: for ever
	Spool         string              // directory of temporary files; "": the system's

	// At makes a mirror of each set as it was at this moment (Archives §1, §4), instead of the
	// present. A mirror is of one moment, which it remembers: later runs need no At. Zero: the
	// present, or the moment of the mirror.
	At time.Time

	// AcceptRollback accepts that a Source shows an older state than before: a baseline
	// makes the mirror equal to the Source.
	AcceptRollback bool

	// AcceptGap accepts the state as of the lists if the changes since are unknown:
	// SetPlan.Gap is "" then.
	AcceptGap bool

	// Passed is called while planning with each change of a resource that concerns this run,
	// also if a later one overtakes it, and perhaps again when a plan is made anew; nil is none.
	Passed func(*harvest.ChangeEntry)

	Observe func(Event) // called with events, from several goroutines at a time; may be nil
}

// Prefer selects lists or dumps if a Source offers both. "" selects the cheaper.
type Prefer string

// The preferences.
const (
	PreferList Prefer = "list" // resources are requested one by one
	PreferDump Prefer = "dump" // resources are taken out of packages
)

// Event is something that happened in a run.
type Event struct {
	Kind    EventKind
	Set     string
	Action  Action // of EventBegun, EventTransferred, EventDone and EventFailed
	Path    string
	Bytes   int64
	Verdict Verdict            // of EventVerdict
	Again   bool               // of EventVerdict: the second verdict, after a repair
	Err     error              // of EventTransferred and EventFailed, and of EventVerdict: the difference, or why it is unknown
	Text    string             // of EventNote: one sentence
	Quirk   resourcesync.Quirk // of EventNote: the related habit of Sources; 0 if none
	Plan    *SetPlan
}

// EventKind is the kind of an Event.
type EventKind string

// The kinds of event.
const (
	EventPlanned     EventKind = "planned"     // Plan: the needs of one set are known
	EventBegun       EventKind = "begun"       // the transfer of an action begins
	EventTransferred EventKind = "transferred" // the transfer of an action ended, successfully or with Err; EventDone or EventFailed follows when its batch is committed
	EventDone        EventKind = "done"        // an action's bytes are verified and wait for, or survived, the commit of their batch
	EventFailed      EventKind = "failed"      // an action failed; the run continues
	EventNote        EventKind = "note"        // something was tolerated, skipped or guessed
	EventTried       EventKind = "tried"       // Plan, Audit: one way to find the Source was tried; Text has the way and the result
	EventVerdict     EventKind = "verdict"     // Audit: one resource
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

// client is the Client with the documents that the Mirror keeps.
func (d *Destination) client() *fetch.Client {
	if d.Mirror != nil && !d.Client.HasCache() {
		if c := d.Mirror.Documents(); c != nil {
			return d.Client.WithCache(c)
		}
	}
	return d.Client
}

// reader reads documents of the Source, as far as origins may speak for it.
func (d *Destination) reader(sc *scope) *harvest.Reader {
	r := &harvest.Reader{
		Client: d.client(), Spool: d.Spool, Strict: d.Strict, Origins: sc.origins, Packages: d.transport(),
		MaxChanges: cmp.Or(max(d.MaxChanges, 0), harvest.DefaultMaxChanges),
		Tell: func(q resourcesync.Quirk, set, text string) {
			if sc.told.once(set, text) {
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

// discover finds the requested sets of the Source, and the parts of them that concern this
// run.
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
	sc := &scope{origins: map[string]bool{}, filter: filter, strict: d.Strict, told: toldOnce{notes: map[[sha256.Size]byte]bool{}}}
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

// blocked is the reason why a Source was not found: pages in the place of known documents
// are no sign that it is gone.
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
			return fmt.Errorf("the Source of %q was read before: %w", d.Source, &harvest.SourceError{Err: a.Page})
		}
	}
	return err
}

// sourceURI names a Source: by its Source Description where it has one, else by its
// only set.
func sourceURI(src *discover.Source) string {
	if src.Description != "" {
		return src.Description
	}
	return src.Sets[0].URI
}

// scope decides which resources of a list concern this run.
type scope struct {
	origins map[string]bool
	filter  *filter
	strict  bool
	moment  time.Time // Destination.At, or that of the mirror; zero: the present
	told    toldOnce
}

// toldOnce remembers reported notes: a document may be read several times in a run.
type toldOnce struct {
	mu    sync.Mutex
	notes map[[sha256.Size]byte]bool
}

// maxTold bounds the remembered notes; others may be repeated.
const maxTold = 10_000

// once reports whether a note is new.
func (t *toldOnce) once(set, text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := sha256.Sum256([]byte(set + "\n" + text))
	known := t.notes[key]
	if len(t.notes) < maxTold {
		t.notes[key] = true
	}
	return !known
}

// Skip says why a resource that a list names is left alone.
type Skip string

// The reasons for a Skip.
const (
	SkipOrigin      Skip = "of another origin"
	SkipUnsupported Skip = "not an http or https URI"
	SkipFiltered    Skip = "filtered out"
	SkipWeak        Skip = "not proved by sha-256 or better"
)

// Missed is how many resources were left alone that nobody has asked to leave alone.
func Missed(skipped map[Skip]int64) (n int64) {
	for _, s := range [...]Skip{SkipOrigin, SkipUnsupported, SkipWeak, SkipStale, SkipDisputed} {
		n += skipped[s]
	}
	return n
}

// represent chooses the representation of w; false leaves w out.
func (s *scope) represent(w *harvest.Resource) bool {
	if len(s.filter.accept) == 0 {
		return true
	}
	ok, err := w.Represent(s.filter.accept, s.origins)
	return ok || err != nil
}

// admit decides whether w is followed; origin is the one to allow for a SkipOrigin. If it is
// gone, it has no links and no digest by which it could be left out.
func (s *scope) admit(w *harvest.Resource, gone bool) (skip Skip, origin string) {
	u, err := fetch.ParseReference(w.URI)
	if err != nil || len(w.URI) > harvest.MaxURI || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") {
		return SkipUnsupported, ""
	}
	if !gone && !s.represent(w) {
		return SkipFiltered, ""
	}
	if !s.filter.admits(w, u.Path, gone) {
		return SkipFiltered, ""
	}
	if o := fetch.Origin(u); !s.origins[o] {
		return SkipOrigin, o
	}
	if s.strict && !gone && !w.Digests.Strong() {
		return SkipWeak, ""
	}
	w.Choose(s.origins)
	return "", ""
}

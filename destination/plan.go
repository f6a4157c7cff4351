package destination

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"iter"
	"time"

	"instep/discover"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Mode says how a set is brought in step.
type Mode string

// The modes of 1.1 §5.2: a baseline by Resource List, an incremental synchronisation by Change List.
const (
	Baseline    Mode = "baseline"
	Incremental Mode = "incremental"
)

// ActionKind is what an Action does.
type ActionKind string

// The kinds of action.
const (
	Fetch  ActionKind = "fetch"  // GET the resource
	Copy   ActionKind = "copy"   // take the bytes of another URI, which the mirror holds
	Adopt  ActionKind = "adopt"  // take a file that is there, and that the mirror did not put there
	Mark   ActionKind = "mark"   // the bytes are here and right: only what is known of them changes
	Delete ActionKind = "delete" // end the membership
)

// Via is the way by which the bytes of a resource come.
type Via string

// The ways.
const (
	ViaGet   Via = "get"   // a request for the resource
	ViaDump  Via = "dump"  // out of a package that is transferred whole (1.1 §11, §13)
	ViaRange Via = "range" // out of a package of which only some bytes are transferred
	ViaLocal Via = "local" // from what the mirror holds, or what lies where it belongs
)

// Action is one step of a Plan.
type Action struct {
	Kind    ActionKind
	Change  resourcesync.Change // what it means for the mirror; "" for a Mark
	Repair  bool                // the bytes were held and are damaged or missing
	Want    Wanted
	Via     Via    // of what brings bytes
	From    string // of a Copy the URI whose bytes are taken, of an Adopt the path of the file
	Package int    // of ViaDump and ViaRange: which of SetPlan.Packages, counted from 1
	Member  string // of ViaDump and ViaRange: rs:md/@path in that package
}

// Package is a package of a dump that a plan reads from.
type Package struct {
	URI     string
	Length  resourcesync.Length
	Digests resourcesync.Digests
	Via     Via   // ViaDump or ViaRange
	Wanted  int64 // members that Actions take
	Bytes   int64 // to be transferred of it, as far as is known
}

// Counts are the totals of a plan or a run, in resources.
type Counts struct {
	Same, Created, Updated, Deleted int64
	Skipped                         map[Skip]int64 // named by the Source and left alone
}

func (c *Counts) skip(s Skip) {
	if c.Skipped == nil {
		c.Skipped = map[Skip]int64{}
	}
	c.Skipped[s]++
}

// Plan is what a run will do: a value, made without touching the mirror. Close it.
type Plan struct {
	Source string // as found: the Source Description, or the document given
	Origin string // the Source's own origin
	Sets   []*SetPlan
}

// SetPlan is the part of a Plan that concerns one set.
type SetPlan struct {
	Set, Name string
	Mode      Mode
	Why       string // one sentence: why this mode
	Counts
	Bytes    int64            // to be transferred, as far as the Source gives lengths
	Requests int64            // to be sent for the resources, packages and parts of packages
	Packages []Package        // from which Actions take members; those of one package follow each other
	Reasons  []string         // why each choice was made, one sentence each, in the order in which they were made
	Unsized  int64            // resources to be transferred whose length is unknown
	Members  int64            // members of the set before the run, where deletions are planned
	Origins  map[string]int64 // resources skipped by the origin that would have to be allowed
	Pulse    Pulse            // how often the Source changes the set
	Partial  error            // part of the Source's documents could not be used: nothing is deleted, the cursor stays
	Hash     string           // of the deletions; "" if there are none
	Withheld bool             // the guard holds the deletions until this Hash is approved

	move    *CursorMove // nil: the cursor stays
	actions *spool.Log[Action]
	deletes *spool.Log[Action]
	opened  map[int]*openedPackage // of Packages, counted from 1: those that had to be opened to plan
}

// URIs are those of the plan's sets.
func (p *Plan) URIs() []string {
	uris := make([]string, len(p.Sets))
	for i, s := range p.Sets {
		uris[i] = s.Set
	}
	return uris
}

// Withheld reports how many deletions the guard holds.
func (p *Plan) Withheld() (n int64) {
	for _, s := range p.Sets {
		if s.Withheld {
			n += s.Deleted
		}
	}
	return n
}

// Actions yields everything the plan does, in order: deletions last, and those that
// are withheld not at all. It can be ranged over any number of times.
func (s *SetPlan) Actions() iter.Seq2[Action, error] {
	return func(yield func(Action, error) bool) {
		for a, err := range s.actions.All() {
			if !yield(a, err) || err != nil {
				return
			}
		}
		if s.Withheld {
			return
		}
		for a, err := range s.deletes.All() {
			if !yield(a, err) || err != nil {
				return
			}
		}
	}
}

// Deletions yields the deletions, withheld or not.
func (s *SetPlan) Deletions() iter.Seq2[Action, error] { return s.deletes.All() }

// Close frees the plan's temporary files.
func (p *Plan) Close() {
	for _, s := range p.Sets {
		s.actions.Close()
		s.deletes.Close()
		for _, p := range s.opened {
			_ = p.close() // a temporary file
		}
	}
}

// Plan asks the Source what it offers and decides what brings the mirror in step.
// It changes nothing. A set whose documents cannot be used is Partial and without
// actions, as long as there is another one. An error means that nothing can be
// decided about any set.
func (d *Destination) Plan(ctx context.Context) (*Plan, error) {
	src, sets, sc, err := d.discover(ctx)
	if err != nil {
		return nil, err
	}
	p := &Plan{Source: sourceURI(src), Origin: src.Origin}
	unusable := 0
	for _, set := range sets {
		sp, err := d.planSet(ctx, sc, set)
		if ofSource(err) && ctx.Err() == nil {
			if unusable++; unusable < len(sets) {
				set.Err = err
				sp, err = d.planSet(ctx, sc, set)
			}
		}
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("set %s: %w", set.URI, err)
		}
		p.Sets = append(p.Sets, sp)
		d.observe(Event{Kind: EventPlanned, Set: set.URI, Plan: sp})
	}
	return p, nil
}

// planner makes the plan of one set.
type planner struct {
	*SetPlan
	d     *Destination
	scope *scope
	set   discover.Set
	empty bool // the mirror holds nothing of the set: no lookups for content that is held
	sum   hash.Hash
	left  bool // something was left out that another choice of resources would not leave out

	unknown    int    // deletions of what was never listed
	unknownURI string // of the first of them

	weaker downgrades
}

func (d *Destination) planSet(ctx context.Context, sc *scope, set discover.Set) (_ *SetPlan, err error) {
	pl := &planner{
		SetPlan: &SetPlan{
			Set: set.URI, Name: set.Name,
			actions: spool.NewLog[Action](d.Spool), deletes: spool.NewLog[Action](d.Spool),
		},
		d: d, scope: sc, set: set, sum: sha256.New(),
	}
	defer func() {
		if err != nil {
			pl.actions.Close()
			pl.deletes.Close()
		}
	}()
	if set.Err != nil {
		pl.Partial = set.Err
		return pl.SetPlan, nil
	}
	fmt.Fprintf(pl.sum, "%s\n", set.URI)
	cursor, followed, err := d.Mirror.Cursor(ctx, set.URI)
	if err != nil {
		return nil, err
	}
	var since time.Time // the changes are needed from the beginning, unless the cursor can be followed
	follows := followed && cursor.covers(d.choice())
	if follows {
		since = cursor.At
	}
	var c *chain
	if follows {
		c, err = d.openCurrent(ctx, sc, set, cursor)
	}
	if c == nil && err == nil {
		c, err = d.openChain(ctx, sc, set, since)
	}
	if err != nil {
		return nil, err
	}
	defer c.close()
	var changes *changes
	if follows {
		if changes, err = c.after(ctx, cursor); err != nil {
			return nil, err
		}
	}
	pl.Mode, pl.Why = chooseMode(cursor, followed, d.choice(), c, changes)
	if pl.Mode == Incremental {
		err = pl.incremental(ctx, cursor, changes)
	} else {
		err = pl.baseline(ctx, cursor, c, changes)
	}
	if err != nil {
		return nil, err
	}
	pl.weaker.tell(d, set.URI)
	if err := pl.guard(ctx); err != nil {
		return nil, err
	}
	pl.Pulse = changes.pulse(set.ChangeFreq)
	pl.Pulse.News = pl.move != nil && pl.move.Cursor != cursor
	return pl.SetPlan, nil
}

// chooseMode decides between baseline and incremental: an incremental needs a cursor
// and a Change List that reaches back to it without a gap (1.1 §12.1).
func chooseMode(cur Cursor, followed bool, choice string, c *chain, ch *changes) (Mode, string) {
	switch {
	case !followed:
		return Baseline, "no earlier synchronisation"
	case !cur.covers(choice):
		return Baseline, "what earlier runs left out may be asked for now"
	case ch == nil:
		return Baseline, c.why
	case ch.resumed:
		return Incremental, fmt.Sprintf("after entry %d of %s", cur.Applied, ch.first)
	case ch.since.IsZero():
		return Baseline, fmt.Sprintf("the Change List %s does not say where it begins (no from)", ch.first)
	case ch.since.Time().After(cur.At) && c.why != "":
		return Baseline, c.why
	case ch.since.Time().After(cur.At):
		return Baseline, fmt.Sprintf("gap: the Change List %s begins at %s, the mirror ends at %s",
			ch.first, ch.since, cur.At.UTC().Format(time.RFC3339Nano))
	case ch.slid:
		return Baseline, fmt.Sprintf("gap: the Change List %s has dropped the changes up to %s, and maybe more", ch.first, cur.At.UTC().Format(time.RFC3339Nano))
	case !ch.placed(cur.At):
		return Baseline, fmt.Sprintf("the Change List %s has entries without datetime, which may be older than the mirror", ch.first)
	default:
		return Incremental, fmt.Sprintf("changes since %s in %s", cur.At.UTC().Format(time.RFC3339Nano), ch.first)
	}
}

// lookupBatch is how many URIs a planner asks the mirror for at a time.
const lookupBatch = 500

// compare looks wants up and adds what each needs.
func (pl *planner) compare(ctx context.Context, wants []Wanted) error {
	uris := make([]string, len(wants))
	for i := range wants {
		uris[i] = wants[i].URI
	}
	held, err := pl.d.Mirror.Lookup(ctx, pl.Set, uris)
	if err != nil {
		return err
	}
	for i := range wants {
		if err := pl.decide(ctx, &wants[i], &held[i]); err != nil {
			return err
		}
	}
	return nil
}

// decide adds what brings one URI, held as h, to the state w.
func (pl *planner) decide(ctx context.Context, w *Wanted, h *Held) error {
	pl.weaker.look(h, w)
	if h.Member && h.Changed.After(w.Changed) { // never back
		if h.Due == "" {
			pl.Same++
			return nil
		}
		w = &h.Wanted
	}
	if h.Stored && h.Due == "" && sameBytes(h, w) {
		pl.Same++
		if h.Member && (pl.Mode == Baseline || !w.Changed.After(h.Changed)) {
			return nil
		}
		return pl.actions.Append(Action{Kind: Mark, Want: *w})
	}
	a := Action{Kind: Fetch, Via: ViaGet, Change: resourcesync.Created, Want: *w, Repair: h.Due != "" && h.Stored}
	if h.Stored {
		a.Change = resourcesync.Updated
		pl.Updated++
	} else {
		pl.Created++
	}
	if err := pl.findStray(ctx, &a); err != nil {
		return err
	}
	if a.Kind == Fetch {
		if err := pl.findContent(ctx, &a); err != nil {
			return err
		}
	}
	if a.Kind == Fetch {
		if w.Length.Known() {
			pl.Bytes += w.Length.Int64()
		} else {
			pl.Unsized++
		}
	}
	return pl.actions.Append(a)
}

// findContent turns a fetch into a copy where the mirror holds the same bytes under
// another URI. Only sha-256 or stronger and the length together prove that.
func (pl *planner) findContent(ctx context.Context, a *Action) error {
	best := a.Want.Digests.Get(resourcesync.SHA256) // the one that every mirror keeps
	if best.IsZero() {
		best = a.Want.Digests.Strongest()
	}
	if pl.empty || !best.Strong() || !a.Want.Length.Known() {
		return nil
	}
	from, ok, err := pl.d.Mirror.FindContent(ctx, best, a.Want.Length.Int64())
	if err == nil && ok && from.URI != a.Want.URI {
		a.Kind, a.Via, a.From = Copy, ViaLocal, from.URI
	}
	return err
}

// sameBytes reports whether the bytes held are those that w describes, by what was
// known of them when they were stored.
func sameBytes(h *Held, w *Wanted) bool {
	if w.Length.Known() && w.Length != h.Length {
		return false
	}
	if len(w.Digests) == 0 {
		return !w.LastMod.IsZero() && w.LastMod == h.LastMod
	}
	proved := false
	for _, want := range w.Digests {
		got := h.Digests.Get(want.Algorithm())
		if got.IsZero() {
			continue
		}
		if got != want {
			return false
		}
		proved = true
	}
	return proved
}

// remove adds the deletion of a member.
func (pl *planner) remove(h *Held, when time.Time) error {
	if pl.d.KeepDeleted {
		pl.left = true
		pl.Same++
		return nil
	}
	pl.Deleted++
	fmt.Fprintf(pl.sum, "%s\n", h.URI)
	return pl.deletes.Append(Action{
		Kind: Delete, Change: resourcesync.Deleted,
		Want: Wanted{URI: h.URI, Length: h.Length, Changed: when},
	})
}

// guard withholds the deletions of the plan if there are too many and nobody approved them.
func (pl *planner) guard(ctx context.Context) error {
	if pl.Deleted == 0 {
		return nil
	}
	// The hash names the set and exactly the resources that would go: consent to
	// these deletions is consent to no others.
	pl.Hash = hex.EncodeToString(pl.sum.Sum([]byte(nil)))[:32]
	members, err := pl.d.Mirror.Count(ctx, pl.Set)
	if err != nil {
		return err
	}
	pl.Members = members
	if !pl.d.MaxDelete.Exceeded(pl.Deleted, members) {
		return nil
	}
	approved, err := pl.d.Mirror.Approved(ctx, pl.Hash)
	pl.Withheld = !approved
	if pl.Withheld {
		pl.move = nil
	}
	return err
}

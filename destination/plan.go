package destination

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"instep/discover"
	"instep/harvest"
	"instep/internal/packages"
	"instep/internal/spool"
	"instep/resourcesync"
)

// Mode is how a set is synchronised: from a complete list or by changes.
type Mode string

// These are the modes (1.1 §5.2): a baseline compares the mirror with the whole set, an
// incremental synchronisation applies the changes of the set.
const (
	Baseline    Mode = "baseline"
	Incremental Mode = "incremental"
)

// ActionKind is the kind of an Action.
type ActionKind string

// These are the kinds of actions.
const (
	Fetch    ActionKind = "fetch"    // request the resource
	Copy     ActionKind = "copy"     // copy the held bytes of another URI
	Adopt    ActionKind = "adopt"    // take over a file in the directory that the mirror did not store
	Mark     ActionKind = "mark"     // update only the recorded metadata, because the held bytes are right
	Delete   ActionKind = "delete"   // remove the resource from the set
	Remember ActionKind = "remember" // record the deletion of a resource that the mirror does not hold
)

// Via is the way in which the bytes of a resource are obtained.
type Via string

// These are the ways to obtain bytes.
const (
	ViaGet     Via = "get"     // a request for the resource
	ViaDump    Via = "dump"    // extracted from a package that is transferred whole (1.1 §11, §13)
	ViaRange   Via = "range"   // extracted from a package of which only parts are transferred
	ViaMemento Via = "memento" // a request for the bytes of an earlier version (1.1 §14.6)
	ViaPatch   Via = "patch"   // patches applied to the held bytes (1.1 §14.4)
	ViaLocal   Via = "local"   // no request: bytes of another resource in the mirror, or a file that is already at the path
)

// Action is one step of a Plan.
type Action struct {
	Kind    ActionKind
	Change  resourcesync.Change // effect on the mirror; "" for a Mark
	Repair  bool                // set if the mirror held the bytes, but they are damaged or missing
	Again   bool                // set if an earlier run failed to fetch this state, or its bytes were found to be wrong
	Want    harvest.Resource
	Via     Via    // how the bytes are obtained, if the action needs bytes
	From    string // for a Copy: the URI of the bytes; for an Adopt: the path of the file
	Package int    // number of the package in the plan, counted from 1, if the bytes come from a package (ViaDump, ViaRange)
	Member  string // path of the resource in that package ("path" attribute)
}

// Counts are numbers of resources in a plan or a run.
type Counts struct {
	Same, Created, Updated, Deleted int64
	Skipped                         map[Skip]int64 // number of listed resources that were left out, by reason
}

func (c *Counts) skip(s Skip, n int64) {
	if n == 0 {
		return
	}
	if c.Skipped == nil {
		c.Skipped = map[Skip]int64{}
	}
	c.Skipped[s] += n
}

// Plan contains the actions of a run. The caller must close it.
type Plan struct {
	Source string // URI of the Source Description that was found, or of the given document
	Origin string // the Source's own origin
	Sets   []*SetPlan

	Orphans []Orphan // sets that the mirror holds and the Source no longer offers
}

// SetState is the common part of the plan and the report of a set.
type SetState struct {
	Set, Name string
	Mode      Mode
	Why       string           // the reason for the mode, in one sentence
	Origins   map[string]int64 // number of skipped resources for each origin that is not allowed
	Moment    time.Time        // the past moment of the plan; zero for the present
	Latest    time.Time        // newest time in the documents of the set, as read in this run or an earlier one
	Partial   error            // error of an unusable document; then nothing is deleted and the cursor does not move

	// RolledBack describes how the Source shows an older state than before; "" if it does
	// not. Unless AcceptRollback is set, neither the mirror nor the cursor then changes.
	RolledBack string

	// Gap describes which changes after the lists are unknown. Then the plan leads only to
	// the state of the lists. "" means that all changes are known, or that the Source
	// offers no Change Lists.
	Gap string
}

// SetPlan is the plan for one set.
type SetPlan struct {
	SetState
	Counts
	Bytes    int64    // number of bytes to transfer; resources of unknown length do not count
	Requests int64    // number of requests for resources, packages and parts of packages
	Reasons  []string // reasons for the choices of the planner, one sentence each, in order
	Members  int64    // number of members of the set before the run; counted only if deletions are planned
	Pulse    Pulse    // how often the Source changes the set
	Hash     string   // hash of the deletions; "" if there are none
	Withheld bool     // set if a person must approve this Hash before the deletions are applied
	Guard    Guard    // numbers that explain why the deletions are withheld

	asOf      time.Time    // time at which the Source sent the documents, by its own clock; zero if unknown
	silent    time.Time    // latest possible time of a list that does not state its time; zero if there is none
	consent   bool         // set if a person has approved the deletions
	set       discover.Set // the planned set
	scope     *scope       // decides which resources a further plan of the set handles; nil if no further plan is made
	move      *CursorMove
	actions   *spool.Log[Action]    // actions as the planner made them; Action.Package is still an index in decisions, counted from 1
	ordered   *spool.Sorter[Action] // the requests of a first baseline, sorted by the keys of their URIs
	decisions []int                 // for each package: its index in planned, counted from 1; 0 if its members are requested one by one
	retries   int64                 // number of actions that repeat a failed action of an earlier run
	first     int64                 // number of retries that are moved to the end, so that the first retry is not always the same
	deletes   *spool.Log[Action]
	planned   []packages.Planned // the packages of the plan; members of one package are consecutive in Actions
}

// decidedActions yields the planned actions with the way to obtain the member of a
// package, which is known only when all members of the package have been planned.
func (s *SetPlan) decidedActions(retries bool) iter.Seq2[Action, error] {
	return func(yield func(Action, error) bool) {
		for a, err := range s.actions.All() {
			if a.Package > 0 {
				switch a.Package = s.decisions[a.Package-1]; {
				case a.Package == 0:
					a.Member = ""
				case s.planned[a.Package-1].Whole:
					a.Via = ViaDump
				default:
					a.Via = ViaRange
				}
			}
			if (err != nil || a.retry() == retries) && !yield(a, err) {
				return
			}
		}
	}
}

// retry reports whether an action requests a resource again that failed in an earlier
// run. Retries are carried out last, so that permanent failures delay nothing.
func (a *Action) retry() bool { return a.Kind == Fetch && a.Via == ViaGet && a.Again }

// URIs returns the URIs of the plan's sets.
func (p *Plan) URIs() []string {
	return urisOf(p.Sets, func(s **SetPlan) string { return (*s).Set })
}

// Actions yields all actions of the plan in order: retries after all others, and
// deletions last. It leaves out withheld deletions. The sequence can be used any number
// of times.
func (s *SetPlan) Actions() iter.Seq2[Action, error] {
	return func(yield func(Action, error) bool) {
		all := []iter.Seq2[Action, error]{s.decidedActions(false), s.ordered.All(), s.rotatedRetries(), s.deletes.All()}
		if s.Withheld {
			all = all[:3]
		}
		for _, some := range all {
			for a, err := range some {
				if !yield(a, err) || err != nil {
					return
				}
			}
		}
	}
}

// rotatedRetries yields the actions that failed in an earlier run. Each plan begins
// with a different one. Otherwise a resource whose retry ends each run would always
// prevent the retries after it.
func (s *SetPlan) rotatedRetries() iter.Seq2[Action, error] {
	return func(yield func(Action, error) bool) {
		if s.retries == 0 {
			return
		}
		for _, again := range []bool{false, true} {
			n := int64(0)
			for a, err := range s.decidedActions(true) {
				if n++; err == nil && n <= s.first != again {
					continue
				}
				if !yield(a, err) || err != nil {
					return
				}
			}
		}
	}
}

// Deletions yields the deletions, withheld or not.
func (s *SetPlan) Deletions() iter.Seq2[Action, error] { return s.deletes.All() }

// Close removes the plan's temporary files.
func (p *Plan) Close() {
	for _, s := range p.Sets {
		s.close()
	}
}

func (d *Destination) newSetPlan(s SetState) *SetPlan {
	return &SetPlan{SetState: s, actions: spool.NewLog[Action](d.Spool), ordered: spool.NewSorter[Action](d.Spool), deletes: spool.NewLog[Action](d.Spool)}
}

func (s *SetPlan) close() {
	s.actions.Close()
	_ = s.ordered.Close()
	s.deletes.Close()
	for _, p := range s.planned {
		if p.Opened != nil {
			_ = p.Opened.Leave() // the error is harmless: bytes that were not kept are transferred again
		}
	}
}

// Plan reads the Source's documents and decides the actions that synchronise the
// mirror. It changes nothing. If the documents of a set are unusable, its plan has no
// actions and Partial is set, unless it is the only set. An error means that no set can
// be planned.
func (d *Destination) Plan(ctx context.Context) (*Plan, error) {
	src, sets, sc, err := d.discover(ctx)
	if err != nil {
		return nil, err
	}
	p := &Plan{Source: sourceURI(src), Origin: src.Origin}
	held, err := d.Mirror.Sets(ctx)
	if err == nil && len(held) > 0 { // bound already, so Bind records nothing, and refuses another Source before its sets are read
		err = d.Mirror.Bind(ctx, p.Source, p.Origin, urisOf(sets, func(s *discover.Set) string { return s.URI })...)
	}
	if err != nil {
		return nil, err
	}
	err = eachSet(ctx, sets, func(set discover.Set) error {
		sp, err := d.planSet(ctx, sc, set, 0)
		if err == nil {
			p.Sets = append(p.Sets, sp)
			d.observe(Event{Kind: EventPlanned, Set: set.URI, Plan: sp})
		}
		return err
	})
	if err == nil && !slices.ContainsFunc(p.Sets, func(s *SetPlan) bool { return s.Mode != Baseline || s.Partial != nil }) {
		d.tellUnmatched(sc.filter)
	}
	if err == nil {
		p.Orphans, err = d.orphans(ctx, src)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// eachSet calls plan for each set. If the documents of a set are unusable and there are
// other sets, it calls plan again with the error in set.Err.
func eachSet(ctx context.Context, sets []discover.Set, plan func(discover.Set) error) error {
	unusable := 0
	for _, set := range sets {
		err := plan(set)
		if harvest.OfSource(err) && ctx.Err() == nil {
			if unusable++; unusable < len(sets) {
				set.Err = err
				err = plan(set)
			}
		}
		if errors.As(err, new(*harvest.UncoveredError)) {
			return err // returned as it is, because it already contains the URI of the set
		}
		if err != nil {
			return fmt.Errorf("set %s: %w", set.URI, err)
		}
	}
	return nil
}

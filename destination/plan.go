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

// Mode says how a set is brought in step.
type Mode string

// The modes of 1.1 §5.2: a baseline compares with the whole set, an incremental
// synchronisation follows its changes.
const (
	Baseline    Mode = "baseline"
	Incremental Mode = "incremental"
)

// ActionKind is the kind of an Action.
type ActionKind string

// The kinds of action.
const (
	Fetch    ActionKind = "fetch"    // GET the resource
	Copy     ActionKind = "copy"     // copy the held bytes of another URI
	Adopt    ActionKind = "adopt"    // take over a file in the directory that the mirror did not store
	Mark     ActionKind = "mark"     // the held bytes are right: only the recorded facts change
	Delete   ActionKind = "delete"   // end the membership
	Remember ActionKind = "remember" // record the deletion of a resource that is not held
)

// Via is the way by which the bytes of a resource are obtained.
type Via string

// The ways.
const (
	ViaGet     Via = "get"     // a request for the resource
	ViaDump    Via = "dump"    // from a package that is transferred whole (1.1 §11, §13)
	ViaRange   Via = "range"   // out of a package of which only some bytes are transferred
	ViaMemento Via = "memento" // a request for the bytes as they were (1.1 §14.6)
	ViaPatch   Via = "patch"   // made from the held bytes by patches (1.1 §14.4)
	ViaLocal   Via = "local"   // without a request: copied from bytes that the mirror holds, or taken from a file already at the path of the resource
)

// Action is one step of a Plan.
type Action struct {
	Kind    ActionKind
	Change  resourcesync.Change // the effect on the mirror; "" for a Mark
	Repair  bool                // the bytes were held and are damaged or missing
	Again   bool                // an earlier run was to bring it in this state and could not, or has found it wrong
	Want    harvest.Resource
	Via     Via    // of actions with bytes
	From    string // of a Copy the URI of the bytes, of an Adopt the path of the file
	Package int    // of ViaDump and ViaRange: number of the package in the plan, from 1
	Member  string // of ViaDump and ViaRange: rs:md/@path in that package
}

// Counts are the totals of a plan or a run, in resources.
type Counts struct {
	Same, Created, Updated, Deleted int64
	Skipped                         map[Skip]int64 // named by the Source and left alone
}

func (c *Counts) skip(s Skip) { c.skipMany(s, 1) }

func (c *Counts) skipMany(s Skip, n int64) {
	if n == 0 {
		return
	}
	if c.Skipped == nil {
		c.Skipped = map[Skip]int64{}
	}
	c.Skipped[s] += n
}

// Plan is the actions of a run: a value, made without touching the mirror. Close it.
type Plan struct {
	Source string // the Source Description that was found, or the given document
	Origin string // the Source's own origin
	Sets   []*SetPlan

	Orphans []Orphan // sets that the mirror holds and the Source does not offer any more
}

// SetState is the common part of a set's plan and report.
type SetState struct {
	Set, Name string
	Mode      Mode
	Why       string           // one sentence: why this mode
	Origins   map[string]int64 // resources skipped by the origin that would have to be allowed
	Moment    time.Time        // the past moment that the plan is of; zero: the present
	Latest    time.Time        // newest moment in the set's documents, in this run or an earlier one
	Partial   error            // part of the Source's documents could not be used: nothing is deleted, the cursor stays

	// RolledBack describes how the Source shows an older state than before; "" if it does
	// not. Unless AcceptRollback is set, the mirror and the cursor stay unchanged.
	RolledBack string

	// Gap describes the unknown changes after the moment of the lists; "" if there are
	// none, or the Source offers none. The plan gives the state of that moment.
	Gap string
}

// SetPlan is the part of a Plan that concerns one set.
type SetPlan struct {
	SetState
	Counts
	Bytes    int64    // bytes to transfer, as far as the Source gives lengths
	Requests int64    // requests for the resources, packages and parts of packages
	Reasons  []string // why each choice was made, one sentence each, in the order in which they were made
	Members  int64    // members of the set before the run, where deletions are planned
	Pulse    Pulse    // how often the Source changes the set
	Hash     string   // hash of the deletions; "" if there are none
	Withheld bool     // the guard holds the deletions until this Hash is approved
	Guard    Guard    // the guard that withholds them

	asOf      time.Time             // time at which the Source sent the documents, by its own clock; zero if unknown
	silent    time.Time             // latest possible moment of a list without a stated one; zero: there is none
	consent   bool                  // somebody has consented to the deletions
	set       discover.Set          // the set during planning
	scope     *scope                // scope of the next plan of the set; nil: it is not planned again in this run
	move      *CursorMove           // nil: the cursor stays
	actions   *spool.Log[Action]    // Package counts decisions, from 1
	ordered   *spool.Sorter[Action] // requests of a first baseline, by the keys of their URIs: see planner.add
	decisions []int                 // the packages in planned, from 1, whose members were wanted; 0: these are requested one by one
	retries   int64                 // number of actions that are a retry
	first     int64                 // index of the first retry
	deletes   *spool.Log[Action]
	planned   []packages.Planned // from which Actions take members; those of one package follow each other
}

// decided yields the actions that are a retry, or the others, with the way that was chosen for each
// package. That is known when all its wanted members are, so the actions are written before.
func (s *SetPlan) decided(retries bool) iter.Seq2[Action, error] {
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

// retry reports whether an action repeats a failed one of an earlier run. Retries come
// last, so that permanent failures delay nothing.
func (a *Action) retry() bool { return a.Kind == Fetch && a.Via == ViaGet && a.Again }

// URIs lists the URIs of the plan's sets.
func (p *Plan) URIs() []string {
	return urisOf(p.Sets, func(s **SetPlan) string { return (*s).Set })
}

// Actions yields all actions of the plan, in order: retries after all others, and deletions
// last; it leaves out withheld ones. It can be ranged over any number of times.
func (s *SetPlan) Actions() iter.Seq2[Action, error] {
	return func(yield func(Action, error) bool) {
		all := []iter.Seq2[Action, error]{s.decided(false), s.ordered.All(), s.rotated(), s.deletes.All()}
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

// rotated yields the retries, from the first on and round to it.
func (s *SetPlan) rotated() iter.Seq2[Action, error] {
	return func(yield func(Action, error) bool) {
		if s.retries == 0 {
			return
		}
		for _, again := range []bool{false, true} {
			n := int64(0)
			for a, err := range s.decided(true) {
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

// Close frees the plan's temporary files.
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
	_ = s.ordered.Close() // the plan is no longer read
	s.deletes.Close()
	for _, p := range s.planned {
		if p.Opened != nil {
			_ = p.Opened.Leave() // of no consequence
		}
	}
}

// Plan reads the Source's documents and decides the actions that synchronise the mirror. It
// changes nothing. A set whose documents cannot be used is Partial and without actions, if
// there is another one. An error means that no set can be planned.
func (d *Destination) Plan(ctx context.Context) (*Plan, error) {
	src, sets, sc, err := d.discover(ctx)
	if err != nil {
		return nil, err
	}
	p := &Plan{Source: sourceURI(src), Origin: src.Origin}
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

// eachSet does something with each set: once more, with its Err, where its documents cannot be used,
// as long as there is another set.
func eachSet(ctx context.Context, sets []discover.Set, do func(discover.Set) error) error {
	unusable := 0
	for _, set := range sets {
		err := do(set)
		if harvest.OfSource(err) && ctx.Err() == nil {
			if unusable++; unusable < len(sets) {
				set.Err = err
				err = do(set)
			}
		}
		if errors.As(err, new(*harvest.UncoveredError)) {
			return err // it names the set
		}
		if err != nil {
			return fmt.Errorf("set %s: %w", set.URI, err)
		}
	}
	return nil
}

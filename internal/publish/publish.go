// Package publish keeps the ResourceSync documents of a directory up to date: it
// joins internal/scan (what changed), internal/catalog (what is known) and source
// (what the documents say and in which order they appear).
package publish

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"instep/internal/guard"
	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

// Options says what to publish, and where. Dir, State, BaseURL and Now are required.
type Options struct {
	Dir     string // the directory to publish
	Out     string // where the documents go; "" is Dir
	State   string // what is remembered between runs; belongs to one Dir and one BaseURL; below Dir or Out its name begins with a dot
	BaseURL string // http or https; Dir is served there; "/" is appended if it is missing
	Set     string // name of the set; "" is the default one

	Algorithms       []resourcesync.Algorithm // nil is sha-256 alone
	Include, Exclude []string                 // globs on the slash-separated path
	MaxEntries       int                      // per document, at most 50,000; 0 is that
	ChangeListMax    int                      // a Change List is closed before it exceeds this; 0 is 5,000
	MaxDelete        string                   // "50" or "5%": more deletions are refused; "" is the default of the guard
	Rebase           bool                     // write the Resource List anew in any case
	DryRun           bool                     // write nothing, not even state; report what would be done
	Workers          int                      // files hashed at a time; 0 is one per processor
	Generator        string                   // name and version of the program, for the pages people read

	Now     func() time.Time
	Observe func(Event) // called for each change found, never concurrently; nil is none
}

// Event is one thing that a run found: a change, or a file that could not be published.
type Event = scan.Event

// Report is what a run did, or would do with Options.DryRun. It is filled as far
// as the run came when there is an error.
type Report struct {
	Published   bool  // false: nothing had changed, or a dry run
	Publication int64 // id of the publication; 0 if none was made
	Recovered   bool  // an interrupted publication was finished first
	Rebased     bool  // the Resource List was written anew
	At          time.Time

	Resources, Bytes                             int64 // in the set now
	Created, Updated, Deleted, Unchanged, Failed int64
	Hashed                                       int64            // bytes read for hashing
	Failures                                     []Event          // the first of them
	Excluded                                     map[string]int64 // number of files by reason

	Documents []string // keys written below Out, in order
	Notes     []string
	// URIs for people.
	Description, CapabilityList, ResourceList, ChangeList string
}

// OptionError is an option that cannot be used: an error of usage.
type OptionError struct {
	Option, Value string
	Err           error
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("option %s %q: %v", e.Option, e.Value, e.Err)
}

func (e *OptionError) Unwrap() error { return e.Err }

// StateError is a state that belongs to another directory or base URL than the
// ones given, or whose documents are in another output directory. Nothing was changed.
type StateError struct {
	State           string
	What            string // "directory", "base URL" or "output directory"
	Recorded, Given string
}

const whatOut = "output directory"

func (e *StateError) Error() string {
	if e.What == whatOut {
		return fmt.Sprintf("the documents of state %q are in %q, not in %q (move them there, or remove them)", e.State, e.Recorded, e.Given)
	}
	return fmt.Sprintf("state %q belongs to %s %q, not to %q (give another one with --state)", e.State, e.What, e.Recorded, e.Given)
}

// Run brings the documents of a directory up to date. What is wrong with it is for
// errors.As a *OptionError, *StateError, *flock.LockedError, *scan.GuardError,
// *source.NotOursError or *source.WrongStateError, and for errors.Is scan.ErrRoot
// when Dir cannot be read. What a run has recorded before an error is published by
// the next one; documents are published whole or not at all.
func Run(ctx context.Context, o Options) (Report, error) {
	s, err := o.settle()
	if err != nil {
		return Report{}, err
	}
	return s.run(ctx)
}

func (s settled) run(ctx context.Context) (rep Report, err error) {
	p, err := openPlaces(ctx, s)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	r := run{settled: s, places: p}
	err = r.do(ctx)
	return r.report, err
}

// settled are options that were checked, with their defaults filled in.
type settled struct {
	Options
	limit guard.Limit
	hard  int64 // changes that a Change List can take at most
}

const defaultChangeListMax = 5000

func (o Options) settle() (settled, error) {
	s := settled{Options: o, hard: resourcesync.MaxEntries}
	var err error
	if s.BaseURL, err = source.ParseBaseURL(o.BaseURL); err != nil {
		return s, &OptionError{"base-url", o.BaseURL, err}
	}
	if err := source.CheckSet(o.Set); err != nil {
		return s, &OptionError{"set", o.Set, err}
	}
	if s.limit, err = guard.ParseLimit(o.MaxDelete); err != nil {
		return s, &OptionError{"max-delete", o.MaxDelete, err}
	}
	if o.MaxEntries < 0 || o.MaxEntries > resourcesync.MaxEntries {
		return s, &OptionError{"max-entries", strconv.Itoa(o.MaxEntries), errors.New("expected 1 to 50000")}
	}
	if o.ChangeListMax < 0 || o.ChangeListMax > resourcesync.MaxEntries {
		return s, &OptionError{"change-list-max", strconv.Itoa(o.ChangeListMax), errors.New("expected 1 to 50000")}
	}
	if o.ChangeListMax == 0 {
		s.ChangeListMax = defaultChangeListMax
	}
	for _, a := range o.Algorithms {
		if !a.Known() {
			return s, &OptionError{"hash", string(a), resourcesync.ErrUnknownAlgorithm}
		}
	}
	for option, globs := range map[string][]string{"include": o.Include, "exclude": o.Exclude} {
		for _, g := range globs {
			if !doublestar.ValidatePattern(g) {
				return s, &OptionError{option, g, doublestar.ErrBadPattern}
			}
		}
	}
	return s, nil
}

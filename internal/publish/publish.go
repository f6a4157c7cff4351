// Package publish keeps the ResourceSync documents of sets up to date: it joins
// internal/scan (finds changes), internal/catalog (records them) and source (writes
// documents).
//
// [Run] is one publication of a [Site]; a [Session] is any number of them, with
// changes that an application records in between.
package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"instep/internal/aggregate"
	"instep/internal/scan"
	"instep/resourcesync"
	"instep/source"
)

// Site describes a publication. State, BaseURL, Sets and Now are required. Dir is
// required while a set has no Input of its own; if all have one, Out is.
type Site struct {
	Dir     string // the directory to publish; "" if no set consists of files
	Out     string // directory for the documents; "" is Dir
	State   string // state directory; used for one Dir, BaseURL and Out only; below Dir or Out its name must begin with a dot
	BaseURL string // http or https; Dir is served there; "/" is appended if it is missing
	About   source.About
	// Recall names fields of About, such as "title", that were not given this time and
	// keep their values from the last publication.
	Recall []string
	Sets   []Set

	Algorithms []resourcesync.Algorithm // digest algorithms; nil is sha-256 alone
	Adopt      bool                     // if the state is new, take over the publication in Out; otherwise ignored
	Move       bool                     // move a publication from another base URL to this one: remove its documents and publish the site from scratch
	DryRun     bool                     // write nothing, not even state; only report what would be done
	Workers    int                      // number of files hashed concurrently; 0 is one per processor
	Generator  string                   // name and version of the program, for the HTML pages
	// RebaseMin is the minimum time between two snapshots (Resource Lists and dumps) of
	// a set. Within this time a publication writes only changes, unless a snapshot is
	// requested, so that its cost depends on the number of changes and not on the size
	// of the set.
	RebaseMin time.Duration

	Now     func() time.Time
	Observe func(Event) // called for each change found, never concurrently; may be nil
	// LeftOut is called for each file or directory that is not published, never
	// concurrently; may be nil.
	LeftOut func(path string, why scan.Reason)
}

// Set is one set of resources of a Site.
type Set struct {
	Name string // "" is the default set
	// Input returns the resources with which the set is compared. If nil they are the
	// files of Site.Dir; without Site.Dir, only Session.Record adds changes.
	Input       func(scan.Deps) (scan.Input, error)
	scan.Choice // which files of Site.Dir are in the set; with an Input only Include and Exclude apply
	Rules       []scan.Rule
	// Aggregations group the resources; each group has a Resource Map (OAI-ORE). The
	// maps describe the snapshot in the Resource List and are written together with it.
	Aggregations []aggregate.Rule
	Policy       source.Policy // policy; if the Site has only one set, Site.About replaces Policy.About

	// KeepVersions is how long a superseded state of a resource is kept, at a URI of
	// its own to which entries link (1.1 §14.6). It is KeepAll, or at least as long as
	// the policy keeps changes; 0 keeps no versions.
	KeepVersions time.Duration
	TimeGates    bool // entries also link to TimeGates and TimeMaps, which versions.Handler answers

	Patches     bool          // publish patches of changed resources, and keep in State the published bytes from which they are made
	Dumps       bool          // offer Resource Dumps and Change Dumps
	DumpEvery   time.Duration // maximum age of the Resource Dump if something changed; 0: only the number of changes counts
	RebaseEvery time.Duration // maximum age of the Resource List if something changed; 0: only the number of changes counts
	RotateEvery time.Duration // maximum age of an open Change List with changes; 0: only the number of changes counts

	ChangeListMax int    // maximum number of changes in a Change List, exceeded only by changes of one time; 0 is 5,000
	MaxEntries    int    // maximum number of entries in one document of a Resource List, at most 50,000; 0 is 50,000
	MaxDelete     string // "50" or "5%": more deletions are an error; "" is the default of the guard
}

// What selects the sets and steps of a publication.
type What struct {
	Sets   []string // names of the sets; nil is all
	Rebase bool     // always write the Resource List and Resource Dump
	NoScan bool     // do not scan: publish recorded changes only
	// Paths, if not nil, limits the scan to these files and directories below Site.Dir,
	// slash-separated. Sets with an Input of their own are then not scanned.
	Paths []string
}

// Event is a finding of a run: a change, or a file that could not be published.
type Event = scan.Event

// SetReport counts the effects of a run on a set, or with Site.DryRun those that it
// would have. After an error it has the counts up to there.
type SetReport struct {
	Set         string
	Published   bool  // false: nothing had changed, or a dry run
	Publication int64 // id of the publication; 0 if there is none
	Recovered   bool  // an interrupted publication was finished first
	Rebased     bool  // the Resource List was rewritten
	Dumped      bool  // the Resource Dump was rewritten
	At          time.Time

	Resources, Bytes                             int64 // number and total length of the resources in the set
	Created, Updated, Deleted, Unchanged, Failed int64
	Hashed                                       int64            // bytes read for hashing
	Kept                                         int64            // bytes of changed resources kept until a Change Dump contains them; in a dry run, those that would be kept
	Packaged                                     int64            // bytes of resources put into packages; in a dry run, those that would be
	Patches                                      int64            // patches published
	PatchBytes, Patched                          int64            // their bytes, and those of the resources that they make
	Failures                                     []Event          // the first failures
	Excluded                                     map[string]int64 // number of files by reason

	Documents []string // keys written below Out, in order
	Retired   []string // keys to which no document links any more; they are removed later
	Notes     []string
	// URIs of the documents; "" if a document does not exist.
	CapabilityList, ResourceList, ChangeList, FixedChangeList, ResourceDump, ChangeDump string
}

// Report summarises a run over all sets and contains the report of each set. With
// several sets, Publication, At and the URIs are those of the first.
type Report struct {
	SetReport
	Description string // URI
	Sets        []SetReport
}

// OptionError reports an option that cannot be used.
type OptionError struct {
	Option, Value string
	Err           error
}

func (e *OptionError) Error() string {
	return fmt.Sprintf("option %s %q: %v", e.Option, e.Value, e.Err)
}

func (e *OptionError) Unwrap() error { return e.Err }

// StateError reports a state that belongs to another directory or base URL than the
// given one, or whose documents are in another output directory. Nothing was changed.
type StateError struct {
	State           string
	What            string // "directory", "base URL", "output directory" or "the mirror of"
	Recorded, Given string
}

// Values of StateError.What.
const (
	WhatBaseURL = "base URL"
	WhatOut     = "output directory"
)

func (e *StateError) Error() string {
	switch e.What {
	case WhatBaseURL:
		return fmt.Sprintf("this was published for %s, not for %s", e.Recorded, e.Given)
	case WhatOut:
		return fmt.Sprintf("the documents of state %q are in %q, not in %q", e.State, e.Recorded, e.Given)
	}
	return fmt.Sprintf("state %q belongs to %s %q, not to %q", e.State, e.What, e.Recorded, e.Given)
}

// NothingError reports that no resource of a new set could be read. The empty set was
// not published.
type NothingError struct{ Failed int64 }

func (e *NothingError) Error() string {
	return fmt.Sprintf("no resource could be read (%d failed): nothing was published", e.Failed)
}

// SetError names the set, of several, that failed.
type SetError struct {
	Set string // "" is the default set
	Err error
}

func (e *SetError) Error() string {
	if e.Set == "" {
		return fmt.Sprintf("the default set: %v", e.Err)
	}
	return fmt.Sprintf("set %q: %v", e.Set, e.Err)
}

func (e *SetError) Unwrap() error { return e.Err }

// Run brings the documents of a site up to date: Open, Publish and Close. The errors are
// those of Open and Session.Publish.
func Run(ctx context.Context, site Site, what What) (rep Report, err error) {
	s, err := Open(ctx, site)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.Publish(ctx, what)
}

func (r *Report) add(s SetReport) {
	first := len(r.Sets) == 0
	r.Sets = append(r.Sets, s)
	if first {
		r.SetReport = s
		r.Excluded = map[string]int64{}
		r.Set = ""
	} else {
		r.Published = r.Published || s.Published
		r.Recovered = r.Recovered || s.Recovered
		r.Rebased = r.Rebased || s.Rebased
		r.Dumped = r.Dumped || s.Dumped
		r.Resources += s.Resources
		r.Bytes += s.Bytes
		r.Created += s.Created
		r.Updated += s.Updated
		r.Deleted += s.Deleted
		r.Unchanged += s.Unchanged
		r.Failed += s.Failed
		r.Hashed += s.Hashed
		r.Kept += s.Kept
		r.Packaged += s.Packaged
		r.Patches += s.Patches
		r.PatchBytes += s.PatchBytes
		r.Patched += s.Patched
		r.Failures = append(r.Failures[:len(r.Failures):len(r.Failures)], s.Failures...)
		r.Documents = append(r.Documents[:len(r.Documents):len(r.Documents)], s.Documents...)
		r.Retired = append(r.Retired[:len(r.Retired):len(r.Retired)], s.Retired...)
		r.Notes = append(r.Notes[:len(r.Notes):len(r.Notes)], s.Notes...)
	}
	for reason, n := range s.Excluded {
		r.Excluded[reason] += n
	}
}

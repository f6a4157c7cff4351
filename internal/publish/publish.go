// Package publish keeps the ResourceSync documents of sets up to date. It uses
// internal/scan to find changes, internal/catalog to record them, and source to write
// documents.
//
// [Run] publishes a [Site] once. A [Session] publishes it any number of times, and an
// application can record changes in between.
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

// Site describes a publication. State, BaseURL, Sets and Now are required. Dir is required
// if a set has no Input of its own, otherwise Out is required.
type Site struct {
	Dir     string // the directory to publish; "" if no set consists of files
	Out     string // directory for the documents; "" means Dir
	State   string // state directory, which belongs to one Dir, BaseURL and Out; if it is below Dir or Out, its name must begin with a dot
	BaseURL string // http or https URL at which Dir is served; a missing "/" is appended
	About   source.About
	// Recall lists the fields of About, such as "title", that were not given this time.
	// They get the values of the last publication.
	Recall []string
	Sets   []Set

	Algorithms []resourcesync.Algorithm // digest algorithms; nil means only sha-256
	Adopt      bool                     // whether to take over a publication in Out whose state is lost or that another program made; no effect unless State is new
	Move       bool                     // if the state belongs to another base URL: whether to remove the documents published there and to publish the site from scratch at BaseURL
	DryRun     bool                     // whether to write nothing, not even the state, and to report what a real run would do
	Workers    int                      // number of files hashed concurrently; 0 means one per processor
	Generator  string                   // name and version of the program, for the HTML pages
	// RebaseMin is the minimum time between two Resource Lists, and between two Resource
	// Dumps, of a set. Publications in between write only the changes, unless What.Rebase
	// is set, so their cost depends on the number of changes and not on the size of the
	// set.
	RebaseMin time.Duration

	Now     func() time.Time
	Observe func(Event) // a function that is called for each change that a scan finds, never concurrently; may be nil
	// LeftOut is called for each file or directory that is not published. It is never
	// called concurrently, and may be nil.
	LeftOut func(path string, why scan.Reason)
}

// Set is one set of resources of a Site.
type Set struct {
	Name string // "" is the default set
	// Input returns the resources of the set. A scan compares them with the recorded ones.
	// If Input is nil, the resources are the files of Site.Dir. If Site.Dir is also empty,
	// only Session.Record adds changes.
	Input       func(scan.Deps) (scan.Input, error)
	scan.Choice // the selection of the files of Site.Dir that are in the set; if the set has an Input, only Include and Exclude apply
	Rules       []scan.Rule
	// Aggregations are rules that group the resources of the set. A Resource Map (OAI-ORE)
	// describes each group. The maps describe the same snapshot as the Resource List, and
	// are written together with it.
	Aggregations []aggregate.Rule
	Policy       source.Policy // the settings of the publication; if the Site has only one set and Policy.About is empty, Site.About is used instead

	// KeepVersions is how long a superseded state of a resource is kept at its own URI, to
	// which entries link (1.1 §14.6). It must be KeepAll or at least Policy.KeepChanges. 0
	// means that no versions are kept.
	KeepVersions time.Duration
	TimeGates    bool // whether entries also link to TimeGates and TimeMaps; requests for these are answered by versions.Handler

	Patches     bool          // whether to publish patches of changed resources; to make them, the last published bytes of all resources are stored in State
	Dumps       bool          // whether to offer Resource Dumps and Change Dumps
	DumpEvery   time.Duration // age after which a Resource Dump is replaced if something has changed; 0 means that only the number of changes decides
	RebaseEvery time.Duration // age after which a Resource List is replaced if something has changed; 0 means that only the number of changes decides
	RotateEvery time.Duration // the age at which an open Change List that has changes is closed; if 0, only the number of changes closes it

	ChangeListMax int    // maximum number of changes in a Change List; 0 means 5,000; if one Record call has more changes, they get a larger list
	MaxEntries    int    // maximum number of entries in one document of a Resource List, at most 50,000; 0 means 50,000
	MaxDelete     string // largest number of deletions that a scan may find, such as "50" or "5%"; if it finds more, the set is not published; "" is the default of package guard
}

// A What is the task of a call of Session.Publish: the sets to publish, and the steps to
// do.
type What struct {
	Sets   []string // names of the sets; nil means all
	Rebase bool     // whether to write a new Resource List and Resource Dump in any case
	NoScan bool     // whether to publish only recorded changes, without a scan
	// Paths limits the scan to these files and directories, slash-separated paths below
	// Site.Dir. Sets with an Input are then not scanned. If Paths is nil, everything is
	// scanned.
	Paths []string
}

// Event is a finding of a run: a change, or a file that could not be published.
type Event = scan.Event

// SetReport counts the effects of a run on a set, or with Site.DryRun the effects that a
// real run would have. After an error it has the counts up to the error.
type SetReport struct {
	Set         string
	Published   bool  // whether a publication was made; false if nothing had changed, and in a dry run
	Publication int64 // id of the publication; 0 if there is none
	Recovered   bool  // whether an interrupted publication was completed before this one
	Rebased     bool  // whether the Resource List was rewritten
	Dumped      bool  // whether the Resource Dump was rewritten
	At          time.Time

	Resources, Bytes                             int64 // number and total length of the resources in the set
	Created, Updated, Deleted, Unchanged, Failed int64
	Hashed                                       int64            // number of bytes that were read for hashing
	Kept                                         int64            // number of bytes of changed resources that were (in a dry run: would be) stored for Change Dumps
	Packaged                                     int64            // number of bytes of resources that were (in a dry run: would be) packed into packages
	Patches                                      int64            // patches published
	PatchBytes, Patched                          int64            // the total length of the published patches, and of the new versions that they produce
	Failures                                     []Event          // the first few failures
	Excluded                                     map[string]int64 // number of files that are not published, by reason

	Documents []string // keys written below Out, in order
	Retired   []string // keys of documents that are no longer linked and will be removed later
	Notes     []string
	// The following fields are the URIs of documents, or "" if there is no such document.
	CapabilityList, ResourceList, ChangeList, FixedChangeList, ResourceDump, ChangeDump string
}

// Report summarises a run over all sets and contains the report of each set. With several
// sets, Publication, At and the URIs are those of the first set.
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

// StateError reports that a state belongs to another directory or base URL than the given
// one, or that its documents are in another output directory. Nothing was changed.
type StateError struct {
	State           string
	What            string // what differs: "directory", "base URL", "output directory" or "the mirror of"
	Recorded, Given string
}

// Values of StateError.What.
const (
	WhatDir     = "directory"
	WhatBaseURL = "base URL"
	WhatOut     = "output directory"
)

func (e *StateError) Error() string {
	switch e.What {
	case WhatBaseURL:
		return fmt.Sprintf("this site was published for the base URL %s, not for %s", e.Recorded, e.Given)
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

// SetError names the set that failed, in a site of several sets.
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

// Run brings the documents of a site up to date. It calls Open, Session.Publish and
// Session.Close, and returns their errors.
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

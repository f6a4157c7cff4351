package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"instep/internal/catalog"
	"instep/internal/versions"
	"instep/resourcesync"
	"instep/source"
)

// Session keeps a site open for any number of publications, and holds the lock of the
// state. Record may be called concurrently, also while Publish runs.
type Session struct {
	site checkedSite
	*places
	sets []*setState

	publishing sync.Mutex // serialises publications
	binding    sync.Mutex
	bound      bool // whether the state has a record of its directory, base URL and output
	closers    []io.Closer

	others      []string        // names of the published sets that the site does not contain
	versions    *versions.Store // the store of versions; nil in a dry run, and if no set has ever kept versions
	hasVersions bool            // whether some set keeps versions now or kept versions earlier

	withdrawn []string        // names of the sets whose documents somebody removed from the output
	foreign   map[string]bool // keys of those documents of an adopted publication that stay in the output and are not resources
	takenOver bool            // whether this session adopted another program's publication
	notes     []string        // the notes for the next report
}

type setState struct {
	checkedSet
	id   catalog.SetID
	pub  *source.Publisher
	last source.Publication // the last publication, as read by the last run
	// content stores the bytes that later Change Dumps and versions will need. It is nil if
	// no such bytes will be needed.
	content *store
	// bases stores the last published bytes of each resource. It is nil if no patches are
	// made.
	bases *bases
	// recording is locked by each call of Record, while a scan compares and records, and
	// while the time of a publication is set.
	recording sync.Mutex

	// pending are documents of a committed publication that have not been written yet.
	pending []source.Document

	recovered bool  // whether an interrupted publication was completed, and no report has mentioned this yet
	looked    bool  // whether this session has checked that the published documents are in the output
	sinceList tally // the number of changes since the last Resource List
	sinceDump tally
}

// Open takes the lock of the site's state and completes an interrupted run. A dry run works
// on a copy of the state. The errors are *OptionError, *StateError, *flock.LockedError,
// *source.NotOursError and *source.WrongStateError for errors.As, and scan.ErrRoot for
// errors.Is if Dir cannot be read.
func Open(ctx context.Context, site Site) (*Session, error) {
	o, err := site.validate()
	if err != nil {
		return nil, err
	}
	p, err := openPlaces(ctx, o)
	if err != nil {
		return nil, err
	}
	var moved string
	if o.Move && !o.DryRun {
		if moved, err = p.moveAway(ctx, o); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	s, err := openSession(ctx, o, p)
	if err == nil && moved != "" {
		s.notes = append(s.notes, moved)
	}
	return s, err
}

func openSession(ctx context.Context, o checkedSite, p *places) (*Session, error) {
	s := &Session{site: o, places: p}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// Close ends the session.
func (s *Session) Close() error {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	return s.close()
}

func (s *Session) close() error {
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, s.places.close())...)
}

// prepare checks that state, directory and output belong together, and completes an
// interrupted run.
func (s *Session) prepare(ctx context.Context) error {
	if err := s.checkSettings(ctx); err != nil {
		return err
	}
	if err := s.adopt(ctx); err != nil {
		return err
	}
	kept, err := s.loadAdopted(ctx)
	if err != nil {
		return err
	}
	uuid, err := s.catalog.UUID(ctx)
	if err != nil {
		return err
	}
	if err := s.recall(ctx); err != nil {
		return err
	}
	for _, one := range s.site.sets {
		set := &setState{checkedSet: one}
		if set.id, err = s.facts.Set(ctx, one.Name); err != nil {
			return err
		}
		s.sets = append(s.sets, set)
	}
	names, err := s.linkedSets(ctx)
	if err != nil {
		return err
	}
	for _, set := range s.sets {
		set.pub = &source.Publisher{
			Bucket: s.bucket, Staging: s.staging, Journal: journal{s.facts, s.pubs}, BaseURL: s.site.BaseURL, UUID: uuid,
			About: s.site.About, Generator: s.site.Generator, MaxEntries: set.MaxEntries, Now: s.site.Now,
			Aliases: kept.Aliases, Sets: names,
		}
	}
	if err := s.sets[0].pub.CheckState(ctx); err != nil {
		return err
	}
	if err := s.checkOut(ctx, uuid); err != nil {
		return err
	}
	if err := s.openVersions(ctx); err != nil {
		return err
	}
	return s.recover(ctx)
}

// recover completes interrupted publications. It must be called only after checkOut,
// because it writes to the output.
func (s *Session) recover(ctx context.Context) error {
	if s.site.DryRun {
		return s.openAllBases(ctx)
	}
	if err := s.clean(ctx); err != nil {
		return err
	}
	for _, set := range s.sets {
		if err := s.openContent(ctx, set); err != nil {
			return err
		}
		finished, err := set.pub.Recover(ctx, set.Name)
		if err != nil {
			return err
		}
		set.recovered = finished.ID != 0
	}
	if err := s.openAllBases(ctx); err != nil {
		return err
	}
	return s.recoverOthers(ctx)
}

// recoverOthers completes interrupted publications of sets that this site does not contain
// or this run does not publish. Otherwise the Source Description would link to incomplete
// documents.
func (s *Session) recoverOthers(ctx context.Context) error {
	published := s.sets[0].pub
	for _, name := range published.Sets {
		if _, err := s.set(name); err == nil {
			continue
		}
		finished, err := published.Recover(ctx, name)
		if err != nil {
			return &SetError{name, err}
		}
		if finished.ID != 0 {
			s.notes = append(s.notes, fmt.Sprintf("an interrupted publication of set %q was finished, although this run does not publish that set", name))
		}
	}
	return nil
}

// names of settings in the catalog
const (
	dirSetting    = "dir"     // the published directory to which the state belongs
	outSetting    = "out"     // the output directory
	hashSetting   = "hash "   // prefix, followed by the name of a set; the value has the options with which the set's Resource List was written
	calledSetting = "called " // prefix, followed by the name of a set; the value is what Relabelled returned when the set's Resource List was written
	policySetting = "policy " // prefix, followed by the name of a set; the value is the JSON of a policyRecord
)

// checkSettings returns an error if the state belongs to another site or to a mirror.
func (s *Session) checkSettings(ctx context.Context) error {
	mirrored, ok, err := s.facts.Setting(ctx, catalog.MirrorSetting)
	if err != nil {
		return err
	}
	if ok {
		return &StateError{State: s.site.State, What: "the mirror of", Recorded: mirrored, Given: s.site.BaseURL}
	}
	for _, c := range []struct{ name, what, given string }{
		{dirSetting, WhatDir, s.dir},
		{catalog.PublisherSetting, WhatBaseURL, s.site.BaseURL},
	} {
		recorded, ok, err := s.facts.Setting(ctx, c.name)
		if err != nil {
			return err
		}
		if ok && recorded != c.given {
			return &StateError{State: s.site.State, What: c.what, Recorded: recorded, Given: c.given}
		}
		s.bound = ok
	}
	return nil
}

// checkOut returns an error for a new output directory in two cases: if documents of this
// state are still in the previous output, or if the published directory itself contains
// documents of any state. Such old documents would be published as resources, or would be
// served instead of the new ones.
func (s *Session) checkOut(ctx context.Context, uuid string) error {
	if s.tree != nil && s.outPath != s.dir {
		info, err := source.ReadPublicationInfo(s.tree.FS())
		if err == nil && info.State != uuid {
			return fmt.Errorf("the directory %q holds documents: %w", s.dir, &source.WrongStateError{Found: info.State, Want: uuid, BaseURL: info.BaseURL})
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.As(err, new(*source.NotOursError)) {
			return err
		}
	}
	recorded, ok, err := s.facts.Setting(ctx, outSetting)
	if err != nil {
		return err
	}
	if recorded == s.outPath {
		return nil
	}
	s.bound = false
	if info, err := publishedInfo(recorded); ok && err == nil && info.State == uuid {
		return &StateError{State: s.site.State, What: WhatOut, Recorded: recorded, Given: s.outPath}
	}
	return nil
}

// bind records in the state to which directory and base URL it belongs. It is called when
// the first change is recorded, so a run that cannot read the directory does not bind the
// state.
func (s *Session) bind(ctx context.Context) error {
	s.binding.Lock()
	defer s.binding.Unlock()
	if s.bound {
		return nil
	}
	err := s.facts.SetSettings(ctx, map[string]string{dirSetting: s.dir, catalog.PublisherSetting: s.site.BaseURL, outSetting: s.outPath})
	s.bound = err == nil
	return err
}

// Publish brings the documents of sets up to date. If one set fails, the others are
// published nevertheless. For errors.As, the errors of a set include *scan.GuardError,
// *source.NotOursError and *source.WrongStateError; if the site has several sets, they are
// inside a *SetError. Changes that were recorded before an error are published by the next
// call. A publication becomes visible completely or not at all.
func (s *Session) Publish(ctx context.Context, what What) (Report, error) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	rep := Report{Description: source.DescriptionURI(s.site.BaseURL)}
	sets, err := s.choose(what.Sets)
	if err != nil {
		return rep, err
	}
	var errs []error
	for _, set := range sets {
		r := run{Session: s, setState: set, what: what, report: SetReport{Set: set.Name, Excluded: map[string]int64{}, Notes: s.notes}}
		s.notes = nil
		err := r.publishSet(ctx)
		rep.add(r.report)
		if err != nil && len(s.sets) > 1 {
			err = &SetError{set.Name, err}
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return rep, errors.Join(errs...)
}

func (s *Session) choose(names []string) ([]*setState, error) {
	if names == nil {
		return s.sets, nil
	}
	var chosen []*setState
	for _, name := range names {
		set, err := s.set(name)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, set)
	}
	return chosen, nil
}

func (s *Session) set(name string) (*setState, error) {
	for _, set := range s.sets {
		if set.Name == name {
			return set, nil
		}
	}
	return nil, &OptionError{"set", name, errors.New("the site has no set of this name")}
}

// Record records changes that an application made to a set, at most catalog.MaxChanges. It
// records either all of them or none. The next call of Publish publishes them. A change
// whose field Change is "" is recorded as an update if the resource is in the set,
// otherwise as a creation. While the set is scanned, Record waits. It returns
// catalog.ErrState if a change contradicts the recorded state, and ErrNoBytes if the set
// has dumps and the bytes of a change are not stored. Look and Accept return resources that
// can be recorded.
func (s *Session) Record(ctx context.Context, set string, changes []catalog.Change) error {
	one, err := s.set(set)
	if err != nil {
		return err
	}
	if s.site.DryRun {
		return errors.New("recording changes: a dry run records nothing")
	}
	one.recording.Lock()
	defer one.recording.Unlock()
	if err := s.checkBytesKept(ctx, one, changes); err != nil {
		return err
	}
	if err := s.bind(ctx); err != nil {
		return err
	}
	if err := s.decideChanges(ctx, one.id, changes); err != nil {
		return err
	}
	if err := s.facts.Record(ctx, one.id, changes); err != nil {
		return fmt.Errorf("recording changes: %w", err)
	}
	return nil
}

// isOurs reports whether a file or directory of the site belongs to this program and is not
// a resource of the set.
func (s *Session) isOurs(ctx context.Context, set *setState, path string) (bool, error) {
	if s.isOwnPath(path) || s.isVersionPath(path) || s.isOut && s.foreign[path] {
		return true, nil
	}
	if !s.isOut || !source.MayBeDocument(path) {
		return false, nil
	}
	_, ours, err := set.pub.Journal.Document(ctx, path)
	return ours, err
}

// decideChanges fills in the empty Change fields of the given changes: with created or
// updated, according to the recorded state.
func (s *Session) decideChanges(ctx context.Context, set catalog.SetID, changes []catalog.Change) error {
	if !slices.ContainsFunc(changes, func(ch catalog.Change) bool { return ch.Change == "" }) {
		return nil
	}
	uris := make([]string, len(changes))
	for i := range changes {
		uris[i] = changes[i].URI
	}
	known, err := s.facts.Lookup(ctx, set, uris)
	if err != nil {
		return err
	}
	member := make(map[string]bool, len(known))
	for i, k := range uris {
		member[k] = known[i].Member
	}
	for i, k := range uris {
		ch := &changes[i]
		if ch.Change == "" {
			ch.Change = resourcesync.Created
			if member[k] {
				ch.Change = resourcesync.Updated
			}
		}
		member[k] = ch.Change != resourcesync.Deleted
	}
	return nil
}

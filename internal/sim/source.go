package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"instep/blob"
	"instep/resourcesync"
	"instep/source"
)

// Options configure how a Model is published and served. Model, BaseURL, Bucket and
// Staging are required.
type Options struct {
	Model           *Model
	BaseURL         string      // the base URL, in the form in which source.ParseBaseURL returns it
	Bucket, Staging blob.Bucket // Bucket is for published documents, Staging for documents before their publication; both are empty at first, and no other Source uses them

	ChangeListMax int           // the largest number of changes in a Change List, at most 50,000; 0 means 5,000
	MaxEntries    int           // the largest number of entries in a Resource List; 0 means 50,000
	RebaseEvery   time.Duration // the longest simulated time between two Resource Lists; 0 means 24 h
	Dumps         bool          // whether the Source offers Resource Dumps and Change Dumps
	DumpEvery     time.Duration // the simulated time between two Resource Dumps; 0 means 24 h
	Archive       *source.Archive
	// Keep is the simulated time for which documents stay available after they were
	// replaced; 0 means an hour.
	Keep      time.Duration
	Generator string
	Switches  []Switched // the switches that are on at first, in the order in which they are applied
}

const (
	defaultChangeList = 5_000
	defaultEvery      = 24 * time.Hour
	defaultKeep       = time.Hour
)

// Source publishes a Model and serves it. Only one call of Publish or Round may run at
// a time. ServeHTTP is safe for concurrent use.
type Source struct {
	o         Options
	publisher *source.Publisher
	journal   *journal
	sets      []published
	past      generations
	wire      wire
}

type published struct {
	name     string
	through  int64     // the number of the last published change of the set
	at       time.Time // the time of the last publication of the set
	dumped   time.Time // the time of the last Resource Dump
	snapshot time.Time // the time of the last Resource List
	listed   int64     // the number of the last change that the last Resource List includes
}

// NewSource returns a Source that has not published yet.
func NewSource(o Options) (*Source, error) {
	if o.Model == nil || o.Bucket == nil || o.Staging == nil {
		return nil, errors.New("simulating: Model, Bucket and Staging are required")
	}
	if o.ChangeListMax < 0 || o.ChangeListMax > resourcesync.MaxEntries {
		return nil, fmt.Errorf("simulating: expected Change Lists of 1 to %d changes, found %d", resourcesync.MaxEntries, o.ChangeListMax)
	}
	setDefault(&o.ChangeListMax, defaultChangeList)
	setDefault(&o.RebaseEvery, defaultEvery)
	setDefault(&o.DumpEvery, defaultEvery)
	setDefault(&o.Keep, defaultKeep)
	s := &Source{o: o, journal: newJournal(), past: generations{byKey: map[string][]*generation{}}}
	s.publisher = &source.Publisher{
		Bucket: o.Bucket, Staging: o.Staging, Journal: s.journal, BaseURL: o.BaseURL,
		UUID:      fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(o.Model.cfg.Seed>>32), o.Model.cfg.Seed&(1<<48-1)),
		Generator: o.Generator, MaxEntries: o.MaxEntries, Keep: o.Keep, Now: o.Model.Now,
	}
	for i := range o.Model.Sets() {
		name := ""
		if o.Model.Sets() > 1 {
			name = fmt.Sprintf("set-%04d", i+1)
		}
		s.sets = append(s.sets, published{name: name})
		s.publisher.Sets = append(s.publisher.Sets, name)
	}
	return s, s.wire.open(s)
}

func setDefault[T int | time.Duration](option *T, value T) {
	if *option == 0 {
		*option = value
	}
}

// Round advances the simulated time and publishes the changes made in that time. It
// returns the number of changes.
func (s *Source) Round(ctx context.Context, d time.Duration) (Counts, error) {
	n, err := s.o.Model.Step(ctx, d)
	if err != nil {
		return n, err
	}
	return n, s.Publish(ctx)
}

// Publish publishes the new changes of each set.
func (s *Source) Publish(ctx context.Context) error {
	for i := range s.sets {
		if err := s.publish(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (s *Source) publish(ctx context.Context, set int) error {
	p := &s.sets[set]
	through, now := s.o.Model.Last(set), s.o.Model.Now()
	u := source.Update{Set: p.name, Policy: source.Policy{Archive: s.o.Archive, KeepChanges: s.o.Keep}}
	last, _, err := s.journal.Last(ctx, p.name)
	if err != nil {
		return err
	}
	next := *p
	next.through, next.at = through, now
	if last.ID == 0 || through-p.listed > s.relistAfter() || now.Sub(p.snapshot) >= s.o.RebaseEvery {
		u.Snapshot = &source.Snapshot{At: now, Completed: now, Through: through, Resources: s.resources(set)}
		next.snapshot, next.listed = now, through
	}
	if s.o.Dumps && (last.ID == 0 || now.Sub(p.dumped) >= s.o.DumpEvery) {
		u.Dump = &source.Dump{At: now, Completed: now, Through: through, Bitstreams: s.bitstreams(set)}
		next.dumped = now
	}
	if u.Snapshot == nil && u.Dump == nil && through == p.through {
		return nil
	}
	number, from := last.ChangesNumber, last.ChangesFrom
	if last.ID == 0 {
		number, from = through+1, now
	}
	if u.Changes, err = s.windows(set, number, from, through); err != nil {
		return err
	}
	if _, err := s.publisher.Publish(ctx, u); err != nil {
		return fmt.Errorf("publishing set %q: %w", p.name, err)
	}
	*p = next
	return s.keepGenerations(ctx)
}

// relistAfter returns the number of changes after which a new Resource List is written: as
// many as a Change List can have, or a tenth of the set if that is more.
func (s *Source) relistAfter() int64 {
	return int64(max(s.o.ChangeListMax, s.o.Model.Len()/s.o.Model.Sets()/10))
}

// windows divides the changes with the numbers from start to through into Change Lists.
func (s *Source) windows(set int, start int64, from time.Time, through int64) ([]source.Window, error) {
	var all []source.Window
	for {
		w := source.Window{Number: start, From: from, Through: through}
		end := start + int64(s.o.ChangeListMax)
		if end > through {
			return append(all, s.withChanges(set, w)), nil
		}
		first, err := s.o.Model.change(set, end)
		if err != nil {
			return nil, err
		}
		w.Until, w.Through = first.Datetime, end-1
		all = append(all, s.withChanges(set, w))
		start, from = end, first.Datetime
	}
}

func (s *Source) withChanges(set int, w source.Window) source.Window {
	w.Changes = s.changes(set, w.Number, w.Through)
	if p := &s.sets[set]; s.o.Dumps {
		w.FreshFrom = w.From
		if p.at.After(w.From) {
			w.FreshFrom = p.at
		}
		w.Fresh = s.fresh(set, max(w.Number, p.through+1), w.Through)
	}
	return w
}

func (s *Source) entry(r *Resource) resourcesync.Entry {
	en := resourcesync.Entry{Loc: s.o.BaseURL + r.Path, LastMod: resourcesync.DatetimeOf(r.Changed)}
	d, err := resourcesync.NewDigest(resourcesync.SHA256, r.SHA256[:])
	if err != nil {
		panic(err) // the error cannot occur, because the bytes have the length of a SHA-256 digest
	}
	en.Digests, en.Length, en.Type = resourcesync.Digests{d}, resourcesync.Bytes(r.Length), r.Type
	return en
}

func (s *Source) changeEntry(ch *Change) resourcesync.Entry {
	en := resourcesync.Entry{Loc: s.o.BaseURL + ch.Path}
	if ch.Change != resourcesync.Deleted {
		en = s.entry(&ch.Resource)
	}
	en.Change, en.Datetime = ch.Change, resourcesync.DatetimeOf(ch.Datetime)
	return en
}

func (s *Source) resources(set int) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for r := range s.o.Model.Resources(set) {
			if !yield(s.entry(&r), nil) {
				return
			}
		}
	}
}

func (s *Source) changes(set int, from, through int64) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for ch, err := range s.o.Model.Changes(set, from, through) {
			if !yield(s.changeEntry(&ch), err) {
				return
			}
		}
	}
}

func (s *Source) bitstreams(set int) iter.Seq2[source.Bitstream, error] {
	return func(yield func(source.Bitstream, error) bool) {
		for r := range s.o.Model.Resources(set) {
			if !yield(source.Bitstream{Entry: s.entry(&r), Open: opener(r)}, nil) {
				return
			}
		}
	}
}

func (s *Source) fresh(set int, from, through int64) iter.Seq2[source.Bitstream, error] {
	return func(yield func(source.Bitstream, error) bool) {
		for ch, err := range s.o.Model.Changes(set, from, through) {
			b := source.Bitstream{Entry: s.changeEntry(&ch)}
			if ch.Change != resourcesync.Deleted {
				b.Open = opener(ch.Resource)
			}
			if !yield(b, err) {
				return
			}
		}
	}
}

func opener(r Resource) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(r.Open()), nil }
}

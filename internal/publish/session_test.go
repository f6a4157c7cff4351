package publish

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/google/go-cmp/cmp"

	"instep/internal/catalog"
	"instep/internal/flock"
	"instep/internal/scan"
	"instep/resourcesync"
)

// open opens a session of the world's site.
func (w *world) open() *Session {
	w.t.Helper()
	s, err := Open(w.t.Context(), w.site())
	if err != nil {
		w.t.Fatalf("Open: %v", err)
	}
	w.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.t.Errorf("Close: %v", err)
		}
	})
	return s
}

// publish publishes a while later.
func (w *world) publish(s *Session, what What) Report {
	w.t.Helper()
	w.now = w.now.Add(10 * time.Second)
	rep, err := s.Publish(w.t.Context(), what)
	if err != nil {
		w.t.Fatalf("Publish: %v", err)
	}
	return rep
}

// recorded is a site that is made of what is recorded alone.
func recorded(t *testing.T) *world {
	w := newWorld(t)
	w.o.Dir = ""
	return w
}

func change(uri string, kind resourcesync.Change, content string) catalog.Change {
	ch := catalog.Change{Change: kind, Resource: catalog.Resource{URI: uri}}
	if kind != resourcesync.Deleted {
		h := resourcesync.NewHasher(resourcesync.SHA256)
		h.Write([]byte(content))
		ch.Path, ch.Digests, ch.Length = uri, h.Digests(), resourcesync.Bytes(int64(len(content)))
	}
	return ch
}

func (w *world) record(s *Session, changes ...catalog.Change) {
	w.t.Helper()
	if err := s.Record(w.t.Context(), w.set.Name, changes); err != nil {
		w.t.Fatalf("Record: %v", err)
	}
}

func TestRecordedChangesArePublished(t *testing.T) {
	w := recorded(t)
	s := w.open()
	w.record(s, change(base+"a", "", "1"), change(base+"b", "", "1"), change(base+"a", "", "2"))
	if rep := w.publish(s, What{NoScan: true}); !rep.Rebased || rep.Resources != 2 {
		t.Errorf("first: got %+v", rep)
	}
	w.record(s, change(base+"a", "", "3"), change(base+"b", resourcesync.Deleted, ""), change(base+"b", "", "4"), change(base+"c", "", "5"))
	if rep := w.publish(s, What{NoScan: true}); !rep.Published || rep.Resources != 3 {
		t.Errorf("second: got %+v", rep)
	}
	if rep := w.publish(s, What{NoScan: true}); rep.Published {
		t.Errorf("third: got %+v, want nothing to publish", rep)
	}
	var got []string
	for _, en := range w.linked("changelist").Entries {
		got = append(got, en.MD.Change+" "+en.Loc[len(base):])
	}
	if diff := cmp.Diff([]string{"updated a", "deleted b", "created b", "created c"}, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestRecordRefuses(t *testing.T) {
	w := recorded(t)
	s := w.open()
	var option *OptionError
	if err := s.Record(t.Context(), "maps", nil); !errors.As(err, &option) || option.Option != "set" {
		t.Errorf("unknown set: got %v, want *OptionError", err)
	}
	if err := s.Record(t.Context(), "", []catalog.Change{change(base+"a", "", "1"), change(base+"b", resourcesync.Deleted, "")}); !errors.Is(err, catalog.ErrState) {
		t.Errorf("deletion of what is not there: got %v, want ErrState", err)
	}
	if rep := w.publish(s, What{NoScan: true}); rep.Resources != 0 {
		t.Errorf("a part of what was refused is recorded: %+v", rep)
	}
	if _, err := s.Publish(t.Context(), What{Sets: []string{"maps"}}); !errors.As(err, &option) {
		t.Errorf("publishing an unknown set: got %v, want *OptionError", err)
	}
}

func TestSessionHoldsTheLock(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	w.open()
	var locked *flock.LockedError
	if _, err := w.try(); !errors.As(err, &locked) {
		t.Errorf("got %v, want *flock.LockedError", err)
	}
}

// While a session is open somebody removes its lock: neither another session nor a dry run
// begins.
func TestASessionWhoseLockWasRemovedIsAlone(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	w.open()
	if err := os.Remove(filepath.Join(w.o.State, lockName)); err != nil {
		t.Skipf("SKIPPED: the system keeps the file of a lock: %v", err)
	}
	for _, w.o.DryRun = range []bool{true, false} {
		var locked *flock.LockedError
		if _, err := w.try(); !errors.As(err, &locked) {
			t.Errorf("dry run %v: got %v, want *flock.LockedError", w.o.DryRun, err)
		}
	}
}

// The published directory is also that of a state, as that of a mirror may be.
func TestAStateInThePublishedDirectoryIsNotPublished(t *testing.T) {
	w := newWorld(t)
	w.fill(1)
	c, err := catalog.Open(t.Context(), catalog.Options{Path: filepath.Join(w.o.Dir, catalogName), Create: true})
	if err == nil {
		err = errors.Join(c.Close(), os.MkdirAll(filepath.Join(w.o.Dir, "runs"), 0o750),
			os.WriteFile(filepath.Join(w.o.Dir, "runs", "a.jsonl"), []byte("{}"), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	if rep := w.publish(w.open(), What{}); rep.Resources != 1 {
		t.Errorf("%d resources are published, want 1", rep.Resources)
	}
}

// TestSmallSetRestsBetweenLists: within RebaseMin a publication lists changes alone,
// and the Resource List comes after it though nothing else changed.
func TestSmallSetRestsBetweenLists(t *testing.T) {
	w := newWorld(t)
	w.o.RebaseMin = time.Minute
	w.fill(30)
	s := w.open()
	w.publish(s, What{})
	for i := range 2 {
		w.write(fmt.Sprint("new ", i), "x")
		rep := w.publish(s, What{})
		if !rep.Published || rep.Rebased || len(rep.Documents) > 4 {
			t.Errorf("publication %d: got %+v, want one of changes alone", i, rep)
		}
		w.check()
	}
	w.now = w.now.Add(time.Minute)
	if rep := w.publish(s, What{}); !rep.Rebased {
		t.Errorf("a minute later: got %+v, want a new Resource List", rep)
	}
	if rep := w.publish(s, What{}); rep.Published {
		t.Errorf("and then: got %+v, want nothing", rep)
	}
	w.check()
}

// TestRecordingWhilePublishing: many record while one publishes; at the end a reader
// has what was recorded last, whatever lists it is in.
func TestRecordingWhilePublishing(t *testing.T) {
	w := recorded(t)
	w.o.Now = time.Now
	w.o.RebaseMin = time.Hour // so that all of it is read from the Change Lists
	w.set.ChangeListMax = 50
	s := w.open()
	var writers sync.WaitGroup
	ctx, done := context.WithCancel(t.Context())
	for writer := range 4 {
		writers.Go(func() {
			for i := range 100 {
				batch := make([]catalog.Change, 3)
				for k := range batch {
					batch[k] = change(fmt.Sprintf("%s%d/%d", base, writer, (i+k)%7), "", fmt.Sprint(i))
				}
				if err := s.Record(ctx, "", batch); err != nil {
					t.Errorf("Record: %v", err)
					return
				}
			}
		})
	}
	go func() { writers.Wait(); done() }()
	n := 0
	for ; ctx.Err() == nil; n++ {
		if _, err := s.Publish(t.Context(), What{NoScan: true}); err != nil {
			t.Fatal(err)
		}
		w.replay() // reports gaps
	}
	w.publish(s, What{NoScan: true})
	if lists := w.changes(); len(lists) < 10 {
		t.Errorf("%d Change Lists, want many", len(lists))
	}
	want := map[string]string{}
	for m, err := range s.facts.Members(t.Context(), s.sets[0].id) {
		if err != nil {
			t.Fatal(err)
		}
		want[m.URI] = fmt.Sprintf("%s %d", m.Digests, m.Length.Int64())
	}
	if diff := cmp.Diff(want, w.replay()); diff != "" || len(want) != 28 {
		t.Errorf("after %d publications (-recorded +documents):\n%s", n, diff)
	}
}

// twoSets is a site with everything in one set and the rooms in the other.
func twoSets(t *testing.T) (*world, Site) {
	w := newWorld(t)
	w.fill(4)
	w.write("garden/tree.txt", "tree")
	site := w.site()
	site.Sets = []Set{{}, {Name: "rooms", Choice: scan.Choice{Include: []string{"room*/**"}}, MaxEntries: 2, Rules: []scan.Rule{{Match: "**", Type: "text/x-item"}}}}
	return w, site
}

func TestSeveralSetsInOneRun(t *testing.T) {
	w, site := twoSets(t)
	rep, err := Run(t.Context(), site, What{})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Sets) != 2 || rep.Sets[0].Resources != 5 || rep.Sets[1].Resources != 4 || rep.Created != 9 || rep.Sets[1].Set != "rooms" {
		t.Errorf("got %+v", rep)
	}
	sets := w.document(base + "resourcesync/description.xml").Entries
	if len(sets) != 2 {
		t.Fatalf("the Source Description names %d sets, want 2", len(sets))
	}
	list := w.document(rep.Sets[1].ResourceList)
	if len(list.Parts) != 2 {
		t.Errorf("the list of rooms has %d parts, want 2 of 2 entries each", len(list.Parts))
	}
	w.now = w.now.Add(time.Minute)
	w.write("garden/tree.txt", "larger")
	if rep, err = Run(t.Context(), site, What{}); err != nil || !rep.Sets[0].Published || rep.Sets[1].Published {
		t.Errorf("a change in one: %+v, %v", rep, err)
	}
}

func TestOneSetOfSeveral(t *testing.T) {
	_, site := twoSets(t)
	rep, err := Run(t.Context(), site, What{Sets: []string{"rooms"}})
	if err != nil || len(rep.Sets) != 1 || rep.Sets[0].Set != "rooms" {
		t.Errorf("got %+v, %v", rep, err)
	}
}

func TestRefusedSetDoesNotHoldTheOthersBack(t *testing.T) {
	w, site := twoSets(t)
	site.Sets[0].MaxDelete, site.Sets[1].MaxDelete = "50%", "0"
	s, err := Open(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w.publish(s, What{})
	w.remove("room 0/item.txt")
	w.now = w.now.Add(time.Minute)
	rep, err := s.Publish(t.Context(), What{})
	var which *SetError
	var held *scan.GuardError
	if !errors.As(err, &which) || which.Set != "rooms" || !errors.As(err, &held) {
		t.Errorf("got %v, want a *scan.GuardError of the rooms", err)
	}
	if !rep.Sets[0].Published || rep.Sets[0].Deleted != 1 {
		t.Errorf("the other set: got %+v, want it published", rep.Sets[0])
	}
}

func TestSetsHaveNamesOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	site := w.site()
	site.Sets = []Set{{Name: "a"}, {Name: "a"}}
	var wrong *OptionError
	if _, err := Open(t.Context(), site); !errors.As(err, &wrong) || wrong.Option != "set" {
		t.Errorf("got %v, want *OptionError", err)
	}
	site.Sets = nil
	if _, err := Open(t.Context(), site); !errors.As(err, &wrong) || wrong.Option != "set" {
		t.Errorf("no set: got %v, want *OptionError", err)
	}
}

// TestSessionSeesWhatStandsAtThePath: a disk that goes and comes back is no deletion,
// and no reason to start again.
func TestSessionSeesWhatStandsAtThePath(t *testing.T) {
	w := newWorld(t)
	w.fill(3)
	s := w.open()
	w.publish(s, What{})
	aside := w.o.Dir + " aside"
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	rename(w.o.Dir, aside)
	if _, err := s.Publish(t.Context(), What{}); !errors.Is(err, scan.ErrRoot) {
		t.Errorf("gone: got %v, want ErrRoot", err)
	}
	if err := os.Mkdir(w.o.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var held *scan.GuardError
	if _, err := s.Publish(t.Context(), What{}); !errors.As(err, &held) {
		t.Errorf("empty: got %v, want *scan.GuardError", err)
	}
	if err := os.Remove(w.o.Dir); err != nil {
		t.Fatal(err)
	}
	rename(aside, w.o.Dir)
	w.write("new.txt", "x")
	if rep := w.publish(s, What{}); rep.Created != 1 || rep.Deleted != 0 {
		t.Errorf("back: got %+v", rep)
	}
	w.check()
}

func TestStateNeedsNoDirectory(t *testing.T) {
	w := recorded(t)
	w.o.Out = ""
	var wrong *OptionError
	if _, err := Open(t.Context(), w.site()); !errors.As(err, &wrong) || wrong.Option != "out" {
		t.Errorf("neither directory nor output: got %v, want *OptionError", err)
	}
	w.o.Out = filepath.Join(t.TempDir(), "out")
	s := w.open()
	if rep := w.publish(s, What{}); !rep.Published || rep.Resources != 0 {
		t.Errorf("got %+v, want an empty set", rep)
	}
}

// TestOnlySomePathsAreLookedAt: what happened elsewhere is found by the next whole scan.
func TestOnlySomePathsAreLookedAt(t *testing.T) {
	w := newWorld(t)
	w.fill(20)
	s := w.open()
	w.publish(s, What{})
	w.write("room 0/item.txt", "changed")
	w.write("room 1/item.txt", "changed")
	w.remove("room 2/item.txt")
	if rep := w.publish(s, What{Paths: []string{"room 0", "room 2"}}); rep.Updated != 1 || rep.Deleted != 1 {
		t.Errorf("some paths: got %+v", rep)
	}
	if rep := w.publish(s, What{}); rep.Updated != 1 || rep.Deleted != 0 {
		t.Errorf("all: got %+v", rep)
	}
	w.check()
}

// TestSetsOfTheSameFilesCallThemAlike: what can be known from the rules is refused, what is
// found by a scan is noted.
func TestSetsOfTheSameFilesCallThemAlike(t *testing.T) {
	rules := func(match, media, encoding string) []scan.Rule {
		return []scan.Rule{{Match: match, Type: media, Encoding: encoding}, {Match: match, Type: "text/x-later", Encoding: "x-later"}}
	}
	for name, test := range map[string]struct {
		a, b Set
		want string
	}{
		"another type":       {Set{Rules: rules("*.gz", "text/x-a", "")}, Set{Rules: rules("*.gz", "text/x-b", "")}, `set "a" gives type "text/x-a", and set "b" gives "text/x-b"`},
		"another encoding":   {Set{Rules: rules("*.gz", "", "gzip")}, Set{Choice: scan.Choice{Include: []string{"maps/**"}}, Rules: rules("*.gz", "", "br")}, `encoding "gzip"`},
		"the same":           {Set{Rules: rules("*.gz", "text/x-a", "gzip")}, Set{Rules: rules("*.gz", "text/x-a", "gzip")}, ""},
		"other files":        {Set{Choice: scan.Choice{Include: []string{"a/**"}}, Rules: rules("**", "text/x-a", "")}, Set{Choice: scan.Choice{Include: []string{"b/**"}}, Rules: rules("**", "text/x-b", "")}, ""},
		"another changefreq": {Set{Rules: []scan.Rule{{Match: "**", ChangeFreq: "daily"}}}, Set{Rules: []scan.Rule{{Match: "**", ChangeFreq: "never"}}}, ""},
	} {
		w := newWorld(t)
		test.a.Name, test.b.Name = "a", "b"
		w.o.Sets = []Set{test.a, test.b}
		err := w.o.Check()
		var wrong *OptionError
		if test.want == "" && err != nil || test.want != "" && (!errors.As(err, &wrong) || wrong.Option != "rules" || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

func TestOtherLabelsOfAnotherSetAreNoted(t *testing.T) {
	w, site := twoSets(t)
	s, err := Open(t.Context(), site)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	note := func(n int, rep Report) {
		t.Helper()
		want := "another set gives " + english.Plural(n, "resource", "") + " a different type"
		if notes := rep.Sets[1].Notes; len(rep.Sets[0].Notes) != 0 || n > 0 && (len(notes) != 1 || !strings.HasPrefix(notes[0], want)) || n == 0 && len(notes) != 0 {
			t.Errorf("notes: %q and %q, want one of %d resources in the second set", rep.Sets[0].Notes, notes, n)
		}
	}
	note(4, w.publish(s, What{}))
	note(0, w.publish(s, What{}))
	w.write("room 0/item.txt", "changed")
	note(1, w.publish(s, What{}))
}

func TestSetRemovedFromTheOutputIsLinkedNoMore(t *testing.T) {
	w := newWorld(t)
	w.write("a", "1")
	sets := func(names ...string) (all []Set) {
		for _, name := range names {
			all = append(all, Set{Name: name})
		}
		return all
	}
	publish := func(names ...string) (linked, others []string) {
		t.Helper()
		w.now = w.now.Add(10 * time.Second)
		site := w.o
		site.Sets = sets(names...)
		s, err := Open(t.Context(), site)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Publish(t.Context(), What{}); err != nil {
			t.Fatal(err)
		}
		for _, en := range w.document("resourcesync/description.xml").Entries {
			linked = append(linked, path.Base(path.Dir(en.Loc)))
		}
		return linked, s.Others()
	}
	expect := func(when string, got, want []string) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	publish("one", "two")
	linked, others := publish("one")
	expect("linked while it is there", linked, []string{"one", "two"})
	expect("others while it is there", others, []string{"two"})
	if err := os.RemoveAll(filepath.Join(w.o.Out, "resourcesync/sets/two")); err != nil {
		t.Fatal(err)
	}
	linked, others = publish("one")
	expect("linked when it was removed", linked, []string{"one"})
	expect("others when it was removed", others, nil)
	linked, _ = publish("one", "two")
	expect("linked when it is published again", linked, []string{"one", "two"})
}

package catalogtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// batch builds an Outcome and commits it.
type batch struct {
	s       Stores
	set     catalog.SetID
	intents []catalog.Intent
	o       catalog.Outcome
}

func (s Stores) batch(set catalog.SetID, at time.Time, run *catalog.Run) *batch {
	return &batch{s: s, set: set, o: catalog.Outcome{At: at, Run: run}}
}

// put adds the new bytes of a resource to the batch. path and kept are "" if the URI is
// new.
func (b *batch) put(name, bytes, path, kept string) *batch {
	r := resource(name, bytes)
	b.intents = append(b.intents, catalog.Intent{URI: r.URI, Path: path, Kept: kept, Length: r.Length, SHA256: r.Digests[0]})
	b.o.Stored = append(b.o.Stored, r)
	return b.mark(name, "")
}

func (b *batch) mark(name, due string) *batch {
	b.o.Members = append(b.o.Members, catalog.Membership{Set: b.set, URI: host + name, Changed: b.o.At, Due: due})
	return b
}

// reserve adds a new resource to the batch, which gets a path but has no bytes yet.
func (b *batch) reserve(name, due string) *batch {
	b.intents = append(b.intents, catalog.Intent{URI: host + name})
	return b.mark(name, due)
}

// remove ends the membership of a resource in the batch. Unless kept is "", the file of
// the resource is to be moved to the path kept.
func (b *batch) remove(name, kept string) *batch {
	if kept != "" {
		b.intents = append(b.intents, catalog.Intent{URI: host + name, Path: name, Kept: kept})
	}
	b.o.Ended = append(b.o.Ended, catalog.Membership{Set: b.set, URI: host + name})
	return b
}

func (b *batch) intend(t *testing.T) error {
	return b.s.Mirror.Intend(t.Context(), b.intents, &b.o, place)
}

func (b *batch) commit(t *testing.T) {
	t.Helper()
	must(t, b.intend(t))
	must(t, b.s.Mirror.Settle(t.Context(), b.o, nil))
}

var errPathInUse = errors.New("the path is in use")

// place is a function for Intend. The path is the URI without its host. place returns an
// error if another file has this path.
func place(uri string, n catalog.Names) (p catalog.Place, err error) {
	p.Path = strings.TrimPrefix(uri, host)
	for i, c := range p.Path {
		if c != '/' {
			continue
		}
		_, ok, err := n.Directory(strings.ToLower(p.Path[:i]))
		if err != nil {
			return p, err
		}
		if !ok {
			p.Directories = append(p.Directories, p.Path[:i])
		}
	}
	taken, err := n.File(strings.ToLower(p.Path))
	if err == nil && !taken {
		_, taken, err = n.Directory(strings.ToLower(p.Path))
	}
	if err == nil && taken {
		err = errPathInUse
	}
	return p, err
}

// RunMirror runs the suite of Mirror.
func RunMirror(t *testing.T, make New) {
	for name, test := range map[string]func(*testing.T, Stores, *clock){
		"intents stay recorded until Settle":                                               intents,
		"an outcome whose files are not ready is not recorded":                             unready,
		"two resources cannot have paths that differ only in case, even in different sets": paths,
		"a directory is recorded as long as a file is in it":                               directories,
		"FindContent skips resources that are due in some set":                             found,
		"Holders returns the membership of each set":                                       holders,
		"an outcome stores a cursor, and a statement of a list removes evidence":           cursors,
		"earlier states of resources are stored with the runs that ended them":             states,
		"an approval is valid for its plan, for a day":                                     approvals,
		"a deletion counts as a loss until the resource comes back":                        losses,
		"Refold gives new paths to resources whose paths became equal, all or none":        refolded,
		"the log has the state of a resource in each of its sets after a commit":           logged,
		"the log is written only while somebody reads it, and lacks no change":             followed,
		"Loose returns bytes that may have no name any more":                               contents,
	} {
		t.Run(name, func(t *testing.T) {
			s, c := begin(t, make)
			s.Mirror.FoldBy(strings.ToLower)
			test(t, s, c)
		})
	}
}

func intents(t *testing.T, s Stores, _ *clock) {
	id := set(t, s.Facts, "")
	s.batch(id, Start, nil).put("old", "bytes", "", "").commit(t)
	b := s.batch(id, Start, nil).put("old", "newer", "old", "kept/old").put("d/new", "bytes", "", "")
	must(t, b.intend(t))
	b.s = s.Reopen()
	b.s.Mirror.FoldBy(strings.ToLower)
	found, err := b.s.Mirror.Intents(t.Context())
	must(t, err)
	if len(found) != 2 || found[0].Path != "d/new" || !found[0].New || found[1].Kept != "kept/old" || found[1].New || found[1].SHA256 != digest("newer") {
		t.Errorf("intents: %+v", found)
	}
	if r, err := b.s.Mirror.Find(t.Context(), id, host+"old"); err != nil || r.Digests[0] != digest("bytes") || !r.Member {
		t.Errorf("the resource before Settle: %+v, %v", r, err)
	}
	must(t, b.s.Mirror.Settle(t.Context(), b.o, nil))
	s = b.s.Reopen()
	if found, err := s.Mirror.Intents(t.Context()); len(found) > 0 || err != nil {
		t.Errorf("the intents after Settle: %+v, %v", found, err)
	}
	want(t, "members", namesOf(collect(t, s.Facts.Members(t.Context(), id))), "old d/new")
	if r, err := s.Mirror.Find(t.Context(), 0, host+"old"); err != nil || r.Digests[0] != digest("newer") || r.Member {
		t.Errorf("the resource as it is in no set: %+v, %v", r, err)
	}
}

func unready(t *testing.T, s Stores, _ *clock) {
	id := set(t, s.Facts, "")
	b := s.batch(id, Start, &catalog.Run{Begun: Start, What: "sync", Created: 1}).put("a", "bytes", "", "")
	b.o.Cursor = &catalog.Cursor{Set: id, Body: "moved"}
	must(t, b.intend(t))
	failed := errors.New("the disk is full")
	if err := s.Mirror.Settle(t.Context(), b.o, func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("Settle = %v, want the error of the function ready", err)
	}
	if _, ok, err := s.Mirror.Cursor(t.Context(), id); ok || err != nil {
		t.Errorf("the cursor after Settle failed: %v, %v", ok, err)
	}
	want(t, "members", namesOf(collect(t, s.Facts.Members(t.Context(), id))), "")
	if found, err := s.Mirror.Intents(t.Context()); len(found) != 1 || err != nil {
		t.Errorf("intents: %+v, %v", found, err)
	}
	must(t, s.Mirror.Settle(t.Context(), catalog.Outcome{}, nil)) // reverts the intents
	s.batch(id, Start, nil).put("a", "bytes", "", "").commit(t)
	want(t, "members", namesOf(collect(t, s.Facts.Members(t.Context(), id))), "a")
}

func paths(t *testing.T, s Stores, _ *clock) {
	one, two := set(t, s.Facts, "one"), set(t, s.Facts, "two")
	s.batch(one, Start, nil).put("d/file", "bytes", "", "").commit(t)
	for _, name := range []string{"D/FILE", "d", "D"} {
		b := s.batch(two, Start, nil).put("free", "bytes", "", "").put(name, "others", "", "")
		if err := b.intend(t); !errors.Is(err, errPathInUse) {
			t.Errorf("Intend with the path %s = %v, want an error because the path is in use", name, err)
		}
	}
	// Settle has to return an error if two resources have the same path, even if the
	// function place allows it
	b := s.batch(two, Start, nil).put("x", "others", "", "")
	err := s.Mirror.Intend(t.Context(), b.intents, &b.o, func(string, catalog.Names) (catalog.Place, error) {
		return catalog.Place{Path: "d/File"}, nil
	})
	if err == nil {
		err = s.Mirror.Settle(t.Context(), b.o, nil)
	}
	if err == nil {
		t.Error("two resources have one path")
	}
	must(t, s.Mirror.Settle(t.Context(), catalog.Outcome{}, nil))
	want(t, "members of the other set", namesOf(collect(t, s.Facts.Members(t.Context(), two))), "")
	s.batch(two, Start, nil).mark("d/file", "").commit(t) // the same resource
	want(t, "members of the other set", namesOf(collect(t, s.Facts.Members(t.Context(), two))), "d/file")
}

func directories(t *testing.T, s Stores, _ *clock) {
	id := set(t, s.Facts, "")
	s.batch(id, Start, nil).put("A/b/x", "bytes", "", "").put("A/y", "bytes", "", "").commit(t)
	there := func(dirs string) {
		t.Helper()
		var found []string
		for _, d := range []string{"a", "a/b"} {
			path, ok, err := s.Mirror.Names(t.Context()).Directory(d)
			must(t, err)
			if ok {
				found = append(found, path)
			}
		}
		want(t, "directories", strings.Join(found, " "), dirs)
	}
	there("A A/b")
	s.batch(id, Start, nil).remove("A/b/x", "kept/x").commit(t)
	there("A")
	s.batch(id, Start, nil).remove("A/y", "kept/y").commit(t)
	there("")
	s.batch(id, Start, nil).put("a", "the name is free", "", "").commit(t)
}

func found(t *testing.T, s Stores, _ *clock) {
	one, two := set(t, s.Facts, "one"), set(t, s.Facts, "two")
	s.batch(one, Start, nil).put("a", "same", "", "").put("b", "same", "", "").reserve("none", "not found").commit(t)
	s.batch(two, Start, nil).mark("a", "").commit(t)
	at := func(wantURI string) {
		t.Helper()
		r, ok, err := s.Mirror.FindContent(t.Context(), digest("same"), 4)
		if err != nil || ok != (wantURI != "") || strings.TrimPrefix(r.URI, host) != wantURI {
			t.Errorf("got %q, %v, %v; want %q", r.URI, ok, err, wantURI)
		}
	}
	at("a")
	s.batch(two, Start, nil).mark("a", "damaged").commit(t)
	at("b")
	want(t, "due in one", namesOf(collect(t, s.Mirror.Due(t.Context(), one))), "none")
	want(t, "due in two", namesOf(collect(t, s.Mirror.Due(t.Context(), two))), "a")
	s.batch(one, Start, nil).remove("b", "kept/b").commit(t)
	at("")
	if _, ok, err := s.Mirror.FindContent(t.Context(), digest("same"), 5); ok || err != nil {
		t.Errorf("FindContent with another length: %v, %v", ok, err)
	}
}

func holders(t *testing.T, s Stores, _ *clock) {
	one, two := set(t, s.Facts, "one"), set(t, s.Facts, "two")
	s.batch(one, Start, nil).put("a", "bytes", "", "").put("b", "bytes of b", "", "").commit(t)
	s.batch(two, Start.Add(time.Second), nil).mark("a", "why").commit(t)
	held, err := s.Mirror.Holders(t.Context(), []string{host + "a", host + "unknown"})
	must(t, err)
	if len(held) != 2 || held[0].Set == held[1].Set {
		t.Errorf("holders: %+v", held)
	}
	for _, m := range held {
		if at := Start.Add(time.Duration(m.Set-one) * time.Second); m.URI != host+"a" || !m.Changed.Equal(at) || (m.Due == "why") != (m.Set == two) {
			t.Errorf("holder: %+v", m)
		}
	}
	s.batch(one, Start, nil).remove("a", "").commit(t)
	if r, err := s.Mirror.Find(t.Context(), two, host+"a"); err != nil || !r.Member || !r.Stored {
		t.Errorf("the resource in the other set: %+v, %v", r, err)
	}
	for id, n := range map[catalog.SetID]int64{one: 1, two: 1} {
		got, _, err := s.Facts.Count(t.Context(), id)
		must(t, err)
		want(t, "members", got, n)
	}
}

func cursors(t *testing.T, s Stores, _ *clock) {
	id := set(t, s.Facts, "")
	b := s.batch(id, Start, nil).put("a", "bytes", "", "")
	b.o.Members[0].Told = true
	b.o.Gone = []catalog.Evidence{{Set: id, URI: host + "gone", Told: true, Gone: true, Moment: Start.Add(-time.Hour)}}
	b.o.Cursor = &catalog.Cursor{Set: id, Body: "first"}
	b.commit(t)
	told := func() string {
		t.Helper()
		e, err := s.Mirror.Evidence(t.Context(), id, []string{host + "a", host + "gone", host + "silent"})
		must(t, err)
		var text string
		for _, name := range []string{"a", "gone", "silent"} {
			if of, ok := e[host+name]; ok {
				text += " " + name + map[bool]string{true: " is gone"}[of.Gone]
			}
		}
		return text
	}
	want(t, "evidence", told(), " a gone is gone")
	committed := func(expected time.Time) {
		t.Helper()
		if at, err := s.Mirror.Committed(t.Context(), id); !at.Equal(expected) || err != nil {
			t.Errorf("the cursor was committed at %v, %v; want %v", at, err, expected)
		}
	}
	committed(b.o.At)
	later := Start.Add(time.Minute)
	must(t, s.Mirror.Settle(t.Context(), catalog.Outcome{At: later, Cursor: &catalog.Cursor{Set: id, Body: "second", Listed: Start}}, nil))
	must(t, s.Mirror.Settle(t.Context(), catalog.Outcome{At: later.Add(time.Minute)}, nil))
	s = s.Reopen()
	committed(later)
	want(t, "the evidence after a list was read", told(), " a")
	if body, ok, err := s.Mirror.Cursor(t.Context(), id); body != "second" || !ok || err != nil {
		t.Errorf("cursor: %q, %v, %v", body, ok, err)
	}
}

func states(t *testing.T, s Stores, _ *clock) {
	id := set(t, s.Facts, "")
	at := func(hours int) time.Time { return Start.Add(time.Duration(hours) * time.Hour) }
	run := func(hours int, created, updated, deleted int64) *catalog.Run {
		return &catalog.Run{Begun: at(hours), What: "sync", Created: created, Updated: updated, Deleted: deleted}
	}
	s.batch(id, at(1), run(1, 2, 0, 0)).put("a", "first", "", "").put("b", "bytes", "", "").commit(t)
	s.batch(id, at(2), run(2, 0, 1, 0)).put("a", "second", "a", "kept/a").commit(t)
	s.batch(id, at(3), run(3, 0, 0, 1)).remove("b", "kept/b").commit(t)
	list := func(states []catalog.Version) string {
		var b strings.Builder
		for _, v := range states {
			b.WriteString(" " + strings.TrimPrefix(v.URI, host) + ":" + v.Kept)
		}
		return b.String()
	}
	runs := collect(t, s.Mirror.Runs(t.Context()))
	if len(runs) != 3 || runs[0].Deleted != 1 || runs[2].Created != 2 || !runs[2].Begun.Equal(at(1)) {
		t.Fatalf("runs: %+v", runs)
	}
	want(t, "states of a", list(collect(t, s.Mirror.VersionsOf(t.Context(), host+"a"))), " a:kept/a")
	want(t, "resources that the second run changed", list(collect(t, s.Mirror.RunVersions(t.Context(), runs[1].ID))), " a:kept/a")
	want(t, "resources that the first run created and that have not changed since", list(collect(t, s.Mirror.RunCreated(t.Context(), runs[2].ID, id))), "")
	want(t, "resources that the first run created and another run changed", list(collect(t, s.Mirror.RunOvertaken(t.Context(), runs[2].ID, id))), " a:kept/a")
	want(t, "ended states, beginning with the last", list(collect(t, s.Mirror.Versions(t.Context(), at(2)))), " b:kept/b a:kept/a")
	for path, name := range map[string]string{"A": "a", "b": "b", "c": ""} {
		uri, ok, err := s.Mirror.URIAt(t.Context(), path)
		if must(t, err); ok != (name != "") || ok && uri != host+name {
			t.Errorf("URIAt(%s) = %q, %v", path, uri, ok)
		}
	}
	want(t, "deleted", list(collect(t, s.Mirror.DeletedSince(t.Context(), at(2)))), " b:kept/b")
	want(t, "deleted later", list(collect(t, s.Mirror.DeletedSince(t.Context(), at(4)))), "")
	present, err := s.Mirror.Present(t.Context(), host+"a")
	must(t, err)
	if len(present) != 1 || !present[0].Since.Equal(at(2)) || present[0].Began != runs[1].ID {
		t.Errorf("present: %+v", present)
	}
	for hours, wanted := range map[int]string{0: "", 1: " b:kept/b a:kept/a", 2: " a: b:kept/b", 3: " a:"} {
		got := list(collect(t, s.Mirror.AsOf(t.Context(), id, at(hours))))
		if hours == 1 { // the two states have ended since, in this order
			wanted = " a:kept/a b:kept/b"
		}
		want(t, "states that the set had some hours later", got, wanted)
	}
	known := func(from time.Time, wantDays string) {
		t.Helper()
		since, ok, err := s.Mirror.Known(t.Context())
		if !since.Equal(from) || !ok || err != nil {
			t.Errorf("Known = %s, %v, %v; want %s", since, ok, err, from)
		}
		days, err := s.Mirror.VersionDays(t.Context(), func(string) bool { return false })
		must(t, err)
		want(t, "days", strings.Join(days, " "), wantDays)
	}
	known(at(1), "2026-05-01")
	must(t, s.Mirror.ForgetVersions(t.Context(), "2026-05-01", "2026-05-02"))
	known(time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC), "")
	want(t, "states of a", list(collect(t, s.Mirror.VersionsOf(t.Context(), host+"a"))), "")
}

func approvals(t *testing.T, s Stores, c *clock) {
	id := set(t, s.Facts, "set")
	must(t, s.Mirror.Withhold(t.Context(), id, "hash", "deletes all"))
	if _, err := s.Mirror.Approve(t.Context(), "other"); !errors.Is(err, catalog.ErrUnknownPlan) {
		t.Errorf("another plan: %v", err)
	}
	holds := func(yes bool) {
		t.Helper()
		got, err := s.Mirror.Approved(t.Context(), "hash")
		must(t, err)
		want(t, "approved", got, yes)
	}
	holds(false)
	p, err := s.Mirror.Approve(t.Context(), "hash")
	must(t, err)
	if p.Set != "set" || p.Summary != "deletes all" || !p.Approved.Equal(Start.Add(catalog.ApprovalHolds)) {
		t.Errorf("plan: %+v", p)
	}
	must(t, s.Mirror.Withhold(t.Context(), id, "hash", "deletes all")) // a plan that is withheld again keeps its approval
	s = s.Reopen()
	holds(true)
	c.at = Start.Add(catalog.ApprovalHolds)
	holds(false)
	c.at = Start.Add(-time.Second) // the clock was set back
	holds(false)
}

func losses(t *testing.T, s Stores, _ *clock) {
	id := set(t, s.Facts, "")
	if _, ok, err := s.Mirror.Losses(t.Context(), id); ok || err != nil {
		t.Errorf("losses of a set that was never in sync: %v, %v", ok, err)
	}
	in := s.batch(id, Start, nil).put("a", "bytes", "", "").put("b", "bytes", "", "").put("c", "bytes", "", "")
	in.o.Cursor = &catalog.Cursor{Set: id, Body: "in step"}
	in.commit(t)
	lost := func(n int64) {
		t.Helper()
		l, ok, err := s.Mirror.Losses(t.Context(), id)
		if l.Members != 3 || l.Lost != n || !ok || err != nil {
			t.Errorf("losses: %+v, %v, %v; want %d of 3", l, ok, err, n)
		}
	}
	lost(0)
	s.batch(id, Start, nil).remove("a", "kept/a").remove("b", "kept/b").commit(t)
	lost(2)
	s.batch(id, Start, nil).put("a", "bytes", "", "").commit(t)
	lost(1)
	meant := s.batch(id, Start, nil).remove("c", "kept/c")
	meant.o.Meant = true
	meant.commit(t)
	lost(1)
	s.batch(id, Start, &catalog.Run{Begun: Start, What: "sync", Created: 1}).put("new", "bytes", "", "").commit(t)
	l, _, err := s.Mirror.Losses(t.Context(), id)
	must(t, err)
	each := collect(t, s.Mirror.EachLoss(t.Context(), l))
	if len(each) != 1 || each[0].SHA256 != digest("bytes") {
		t.Errorf("losses: %+v", each)
	}
	want(t, "newcomers", names(collect(t, s.Mirror.Newcomers(t.Context(), l)), resourcesync.Key.URI), "new")
}

func refolded(t *testing.T, s Stores, _ *clock) {
	id := set(t, s.Facts, "")
	s.Mirror.FoldBy(func(path string) string { return path })
	b := s.batch(id, Start, nil)
	for _, name := range []string{"d/x", "D/X", "D/y", "plain"} {
		b.put(name, "bytes of "+name, "", "")
	}
	must(t, s.Mirror.Intend(t.Context(), b.intents, &b.o, func(uri string, _ catalog.Names) (catalog.Place, error) {
		return catalog.Place{Path: strings.TrimPrefix(uri, host)}, nil
	}))
	must(t, s.Mirror.Settle(t.Context(), b.o, nil))
	refused := errors.New("refused")
	fold := func(end error) error {
		return s.Mirror.Refold(t.Context(), catalog.Refolding{
			Fold: strings.ToLower, Takes: func(string) bool { return true }, Settings: map[string]string{"folded": "yes"},
			Place: func(lost, holder catalog.Resource, _ catalog.Names) (catalog.Place, []catalog.Membership, error) {
				if !strings.EqualFold(lost.Path, holder.Path) || lost.Path == holder.Path {
					t.Errorf("%q lost its path to %q", lost.Path, holder.Path)
				}
				due := []catalog.Membership{{Set: id, URI: lost.URI, Changed: Start, Due: "lost"}}
				return catalog.Place{Path: lost.Path + "~1"}, due, end
			},
		})
	}
	if err := fold(refused); !errors.Is(err, refused) {
		t.Fatalf("Refold = %v, want the error of the function Place", err)
	}
	if _, ok, err := s.Facts.Setting(t.Context(), "folded"); ok || err != nil {
		t.Errorf("the setting after Refold failed: %v, %v", ok, err)
	}
	want(t, "due", namesOf(collect(t, s.Mirror.Due(t.Context(), id))), "")
	for range 2 { // a second call has to change nothing
		must(t, fold(nil))
		if due := collect(t, s.Mirror.Due(t.Context(), id)); len(due) != 1 || !strings.HasSuffix(due[0].Path, "~1") {
			t.Errorf("due: %+v", due)
		}
		seen := map[string]bool{}
		for _, r := range collect(t, s.Facts.Members(t.Context(), id)) {
			if key := strings.ToLower(r.Path); seen[key] {
				t.Errorf("%s has the path of another resource: %q", r.URI, r.Path)
			} else {
				seen[key] = true
			}
		}
	}
	for path, taken := range map[string]bool{"d/x": true, "d/y": true, "plain": true, "other": false} {
		got, err := s.Mirror.Names(t.Context()).File(path)
		must(t, err)
		want(t, path, got, taken)
		files, err := s.Mirror.Files(t.Context(), []string{path, "d"})
		must(t, err)
		want(t, path+" among others", files[path], taken)
		want(t, "a directory is a file", files["d"], false)
	}
}

func contents(t *testing.T, s Stores, _ *clock) {
	must(t, s.Mirror.Loosen(t.Context(), []resourcesync.Digest{digest("x"), digest("y")}))
	must(t, s.Mirror.NameContents(t.Context(), []catalog.ContentName{
		{Path: "a", SHA256: digest("x")}, {Path: "t/b", Day: "2026-05-01", SHA256: digest("x")},
	}))
	loose, err := s.Mirror.Loose(t.Context())
	must(t, err)
	if len(loose) != 2 || loose[0].Named == loose[1].Named {
		t.Errorf("loose: %+v", loose)
	}
	must(t, s.Mirror.Fasten(t.Context(), []resourcesync.Digest{digest("x"), digest("y")}))
	s = s.Reopen()
	if loose, err := s.Mirror.Loose(t.Context()); len(loose) > 0 || err != nil {
		t.Errorf("loose: %+v, %v", loose, err)
	}
	of, err := s.Mirror.Contents(t.Context(), []string{"a", "none"})
	must(t, err)
	if len(of) != 1 || of["a"] != digest("x") {
		t.Errorf("contents: %v", of)
	}
	days, err := s.Mirror.TrashDays(t.Context())
	must(t, err)
	want(t, "days of the trash", strings.Join(days, " "), "2026-05-01")
	want(t, "names in the trash of that day", names(collect(t, s.Mirror.ContentNames(t.Context(), "2026-05-01")), func(n catalog.ContentName) string { return n.Path }), "t/b")
	must(t, s.Mirror.NameContents(t.Context(), []catalog.ContentName{{Path: "a"}, {Path: "t/b"}}))
	has, err := s.Mirror.HasContent(t.Context(), digest("x"))
	must(t, err)
	want(t, "the bytes have a name", has, false)
}

// answer returns a function for LogIf that always returns wanted.
func answer(wanted bool) func() (bool, error) { return func() (bool, error) { return wanted, nil } }

// logOf marks the beginning of each commit with a | in the text.
func logOf(t *testing.T, s Stores, after catalog.LogPosition) string {
	t.Helper()
	end, err := s.Mirror.LogEnd(t.Context())
	must(t, err)
	var b strings.Builder
	var at time.Time
	for _, l := range collect(t, s.Mirror.Log(t.Context(), after.Seq, end.Seq)) {
		if !l.Datetime.Equal(at) {
			if l.Datetime.Before(at) {
				t.Errorf("the moment %v comes after %v", l.Datetime, at)
			}
			at = l.Datetime
			b.WriteString("|")
		}
		fmt.Fprintf(&b, " %s %s", strings.TrimPrefix(l.URI, host), l.Path)
		if l.Change.Change == resourcesync.Updated {
			fmt.Fprintf(&b, " of %d", l.Set)
			if l.Length.Known() {
				fmt.Fprintf(&b, " %d bytes", l.Length.Int64())
			}
			if l.Due != "" {
				b.WriteString(" due")
			}
		}
	}
	return b.String()
}

func logged(t *testing.T, s Stores, _ *clock) {
	one, two := set(t, s.Facts, "one"), set(t, s.Facts, "two")
	b := s.batch(one, Start, nil).put("a", "1", "", "").put("b", "22", "", "")
	b.o.Cursor = &catalog.Cursor{Set: one, Body: "complete"}
	b.commit(t)
	s.Mirror.LogIf(answer(true))
	from, err := s.Mirror.LogEnd(t.Context())
	must(t, err)
	s.batch(one, Start, nil).put("a", "333", "a", "kept/a").put("d/new", "4444", "", "").commit(t)
	s.batch(two, Start, nil).put("first", "of a baseline", "", "").mark("b", "").commit(t)
	s.batch(one, Start, nil).remove("b", "").commit(t)
	s.batch(two, Start, nil).remove("b", "kept/b").commit(t)
	s.batch(one, Start, nil).mark("a", "changed").reserve("later", "new").commit(t)
	must(t, s.Mirror.Settle(t.Context(), catalog.Outcome{Cursor: &catalog.Cursor{Set: one, Body: "moved"}}, nil))
	want(t, "log", logOf(t, s, from), "| a a of 1 3 bytes d/new d/new of 1 4 bytes| b b of 1 2 bytes b b of 2 2 bytes"+
		"| b b of 2 2 bytes| b b| a a of 1 3 bytes due later later of 1 due")
	has, err := s.Mirror.LogHas(t.Context(), from)
	if must(t, err); !has {
		t.Error("the log does not have all changes since its beginning")
	}
	l := collect(t, s.Mirror.Log(t.Context(), from.Seq, from.Seq+1))[0]
	if !l.Changed.Equal(Start) || l.Digests[0] != digest("333") || l.Type != "text/plain" {
		t.Errorf("got %+v", l)
	}
}

func followed(t *testing.T, s Stores, _ *clock) {
	id := set(t, s.Facts, "")
	b := s.batch(id, Start, nil).put("a", "0", "", "")
	b.o.Cursor = &catalog.Cursor{Set: id, Body: "complete"}
	b.commit(t)
	change := func() catalog.LogPosition {
		t.Helper()
		s.batch(id, Start, nil).mark("a", "").commit(t)
		end, err := s.Mirror.LogEnd(t.Context())
		must(t, err)
		return end
	}
	has := func(what string, p catalog.LogPosition, expected bool) {
		t.Helper()
		got, err := s.Mirror.LogHas(t.Context(), p)
		must(t, err)
		want(t, what, got, expected)
	}
	before := change()
	has("the log has all changes after the last commit, although nobody reads it", before, true)
	before = change()
	want(t, "log", logOf(t, s, before), "")
	s.Mirror.LogIf(answer(true))
	first := change()
	has("the log has all changes since its beginning", before, true)
	has("the log has all changes since a commit before its beginning", catalog.LogPosition{At: before.At.Add(-1)}, false)
	has("the log has all changes after the first", first, true)
	has("the log has all changes after a change of another catalog", catalog.LogPosition{Seq: first.Seq, At: before.At}, false)
	second := change()
	s = s.Reopen()
	s.Mirror.LogIf(answer(true))
	third := change()
	must(t, s.Mirror.TrimLog(t.Context(), second.Seq))
	has("the log has all changes since its beginning, which was deleted", before, false)
	has("the log has all changes after a change that was deleted", first, false)
	has("the log has all changes after its oldest one", second, true)
	want(t, "log", logOf(t, s, second), "| a a of 1 1 bytes")
	must(t, s.Mirror.TrimLog(t.Context(), 1000))
	has("the log has all changes after its last one, which was deleted", third, false)
	fourth := change()
	has("the log has all changes after the first one since everything was deleted", fourth, true)
	s.Mirror.LogIf(answer(false))
	fifth := change()
	has("the log has all changes after a position, although it lacks a later commit", fourth, false)
	has("the log has all changes after the last commit, which it lacks", fifth, true)
	s.Mirror.LogIf(answer(true))
	change()
	has("the log has all changes since a commit before the gap", fourth, false)
	has("the log has all changes since the gap", fifth, true)
	sixth := change()
	must(t, s.Mirror.CutLog(t.Context()))
	has("the log has all changes after its end", sixth, false)
	change()
	has("the log has all changes since a position before its end, after it began again", fifth, false)
	failed := errors.New("who knows")
	s.Mirror.LogIf(func() (bool, error) { return false, failed })
	if err := s.batch(id, Start, nil).mark("a", "").s.Mirror.Settle(t.Context(), catalog.Outcome{At: Start, Members: []catalog.Membership{{Set: id, URI: host + "a"}}}, nil); !errors.Is(err, failed) {
		t.Errorf("Settle = %v, want the error of the function for LogIf", err)
	}
}

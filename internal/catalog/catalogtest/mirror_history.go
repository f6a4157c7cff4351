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
			t.Errorf("Committed = %v, %v; want %v", at, err, expected)
		}
	}
	committed(b.o.At)
	later := Start.Add(time.Minute)
	must(t, s.Mirror.Settle(t.Context(), catalog.Outcome{At: later, Cursor: &catalog.Cursor{Set: id, Body: "second", Listed: Start}}, nil))
	must(t, s.Mirror.Settle(t.Context(), catalog.Outcome{At: later.Add(time.Minute)}, nil))
	s = s.Reopen()
	committed(later)
	want(t, "evidence after a list was read", told(), " a")
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
		if hours == 1 { // both states have ended since then, so they come in the order in which they ended
			wanted = " a:kept/a b:kept/b"
		}
		want(t, fmt.Sprintf("AsOf %d hours after the start", hours), got, wanted)
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
	if _, _, err := s.Mirror.Approve(t.Context(), "other"); !errors.Is(err, catalog.ErrUnknownPlan) {
		t.Errorf("Approve of an unknown plan: %v", err)
	}
	holds := func(yes bool) {
		t.Helper()
		got, err := s.Mirror.Approved(t.Context(), "hash")
		must(t, err)
		want(t, "approved", got, yes)
	}
	holds(false)
	summary, until, err := s.Mirror.Approve(t.Context(), "hash")
	must(t, err)
	if summary != "deletes all" || !until.Equal(Start.Add(catalog.ApprovalHolds)) {
		t.Errorf("approved %q until %s", summary, until)
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
		t.Errorf("Losses of a set that was never synchronized = %v, %v; want false, nil", ok, err)
	}
	in := s.batch(id, Start, nil).put("a", "bytes", "", "").put("b", "bytes", "", "").put("c", "bytes", "", "")
	in.o.Cursor = &catalog.Cursor{Set: id, Body: "in step"}
	in.commit(t)
	lost := func(n int64) {
		t.Helper()
		l, ok, err := s.Mirror.Losses(t.Context(), id)
		if l.Members != 3 || l.Lost != n || !ok || err != nil {
			t.Errorf("Losses = %+v, %v, %v; want %d of 3", l, ok, err, n)
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
	each := collect(t, l.Each)
	if len(each) != 1 || each[0].SHA256 != digest("bytes") {
		t.Errorf("losses: %+v", each)
	}
	want(t, "newcomers", names(collect(t, l.Joined), resourcesync.Key.URI), "new")
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
					t.Errorf("Place got the paths %q and %q, which should be equal except for case", lost.Path, holder.Path)
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
		t.Errorf("Setting after Refold has failed = %v, %v; want false, nil", ok, err)
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
				t.Errorf("%s and another resource both have the path %q", r.URI, r.Path)
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
		want(t, "whether a directory counts as a file", files["d"], false)
	}
}

package catalogtest

import (
	"errors"
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

// put adds the new bytes of a resource to the batch. The parameters path and kept are
// "" if the URI is new.
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

// remove adds to the batch the end of a resource's membership. Unless trash is "", the file
// of the resource is to be moved to the path trash.
func (b *batch) remove(name, trash string) *batch {
	if trash != "" {
		b.intents = append(b.intents, catalog.Intent{URI: host + name, Path: name, Kept: trash})
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

// place is a function for Intend. Its result is the URI without the host as path, or an
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
		"intents remain stored until Settle is called":                                     intents,
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
		t.Errorf("Find before Settle = %+v, %v; want a member with its old bytes", r, err)
	}
	must(t, b.s.Mirror.Settle(t.Context(), b.o, nil))
	s = b.s.Reopen()
	if found, err := s.Mirror.Intents(t.Context()); len(found) > 0 || err != nil {
		t.Errorf("Intents after Settle = %+v, %v; want none", found, err)
	}
	want(t, "members", namesOf(collect(t, s.Facts.Members(t.Context(), id))), "old d/new")
	if r, err := s.Mirror.Find(t.Context(), 0, host+"old"); err != nil || r.Digests[0] != digest("newer") || r.Member {
		t.Errorf("Find without a set = %+v, %v; want no member, with the new bytes", r, err)
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
		t.Errorf("Cursor after Settle has failed = %v, %v; want false, nil", ok, err)
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
	// function for Intend has allowed it
	b := s.batch(two, Start, nil).put("x", "others", "", "")
	err := s.Mirror.Intend(t.Context(), b.intents, &b.o, func(string, catalog.Names) (catalog.Place, error) {
		return catalog.Place{Path: "d/File"}, nil
	})
	if err == nil {
		err = s.Mirror.Settle(t.Context(), b.o, nil)
	}
	if err == nil {
		t.Error("Settle has given the same path to two resources")
	}
	must(t, s.Mirror.Settle(t.Context(), catalog.Outcome{}, nil))
	want(t, "members of set two", namesOf(collect(t, s.Facts.Members(t.Context(), two))), "")
	s.batch(two, Start, nil).mark("d/file", "").commit(t) // the same resource
	want(t, "members of set two", namesOf(collect(t, s.Facts.Members(t.Context(), two))), "d/file")
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
	s.batch(id, Start, nil).put("a", "file instead of the directory", "", "").commit(t)
}

func found(t *testing.T, s Stores, _ *clock) {
	one, two := set(t, s.Facts, "one"), set(t, s.Facts, "two")
	s.batch(one, Start, nil).put("a", "same", "", "").put("b", "same", "", "").reserve("none", "not found").commit(t)
	s.batch(two, Start, nil).mark("a", "").commit(t)
	at := func(wantURI string) {
		t.Helper()
		r, ok, err := s.Mirror.FindContent(t.Context(), digest("same"), 4)
		if err != nil || ok != (wantURI != "") || strings.TrimPrefix(r.URI, host) != wantURI {
			t.Errorf("FindContent = %q, %v, %v; want %q", r.URI, ok, err, wantURI)
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
		t.Errorf("FindContent with another length = %v, %v; want false, nil", ok, err)
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
		t.Errorf("Find in set two = %+v, %v; want a member with bytes", r, err)
	}
	for id, n := range map[catalog.SetID]int64{one: 1, two: 1} {
		got, _, err := s.Facts.Count(t.Context(), id)
		must(t, err)
		want(t, "members", got, n)
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
	want(t, "days of TrashDays", strings.Join(days, " "), "2026-05-01")
	want(t, "files in the trash of that day", names(collect(t, s.Mirror.ContentNames(t.Context(), "2026-05-01")), func(n catalog.ContentName) string { return n.Path }), "t/b")
	must(t, s.Mirror.NameContents(t.Context(), []catalog.ContentName{{Path: "a"}, {Path: "t/b"}}))
	has, err := s.Mirror.HasContent(t.Context(), digest("x"))
	must(t, err)
	want(t, "whether the bytes still have a name", has, false)
}

func answer(wanted bool) func() (bool, error) { return func() (bool, error) { return wanted, nil } }

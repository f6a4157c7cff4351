package catalog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"instep/resourcesync"
)

// answers are what a catalog says of sets and resources, by all ways to ask.
func answers(t *testing.T, c *Catalog, names ...string) map[string]any {
	t.Helper()
	all := map[string]any{}
	tell := func(question string, err error, answer ...any) {
		if err != nil {
			t.Fatalf("%s: %v", question, err)
		}
		all[question] = answer
	}
	keys := make([]resourcesync.Key, len(names))
	for i, name := range names {
		in := intent(name, "content of "+name, t)
		keys[i] = in.Key
		states, err := c.Present(t.Context(), in.Key)
		tell("states of "+name, err, states)
		found, ok, err := c.FindContent(t.Context(), in.SHA256, in.Length.Int64())
		tell("content of "+name, err, found.URI, ok)
		key, ok, err := c.KeyAt(t.Context(), name, resourcesync.KeyOf(name))
		tell("path "+name, err, key, ok)
		taken, err := c.Names(t.Context()).File(resourcesync.KeyOf(name))
		tell("name "+name, err, taken)
	}
	held, err := c.Holders(t.Context(), keys)
	tell("holders", err, held)
	for _, s := range []SetID{1, 2} {
		found, err := c.Lookup(t.Context(), s, keys)
		tell(fmt.Sprint("resources as seen from ", s), err, found)
		f, err := c.Finder(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range keys {
			one, err := f.Find(t.Context(), s, key)
			tell(fmt.Sprint(names[i], " as seen from ", s), err, one)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		n, bytes, err := c.Count(t.Context(), s)
		tell(fmt.Sprint("count of ", s), err, n, bytes)
		tell(fmt.Sprint("members of ", s), nil, collect(t, c.MembersByKey(t.Context(), s)))
		tell(fmt.Sprint("keys of ", s), nil, collect(t, c.MemberKeys(t.Context(), s)))
		tell(fmt.Sprint("due of ", s), nil, collect(t, c.Due(t.Context(), s)))
		tell(fmt.Sprint("made in ", s), nil, collect(t, c.RunCreated(t.Context(), 1, s)))
		for _, at := range []int64{5, 15, 25} {
			tell(fmt.Sprint(s, " as of ", at), nil, collect(t, c.AsOf(t.Context(), s, time.Unix(at, 0))))
		}
	}
	tell("runs", nil, collect(t, c.Runs(t.Context())))
	return all
}

// wantAnswers compares all that two catalogs say. Who holds what comes in any order.
func wantAnswers(t *testing.T, who string, got, want map[string]any) {
	t.Helper()
	order := cmpopts.SortSlices(func(a, b Membership) bool { return fmt.Sprint(a.Key, a.Set) < fmt.Sprint(b.Key, b.Set) })
	if d := cmp.Diff(got, want, order, cmp.AllowUnexported(resourcesync.Digest{}, resourcesync.Length{}), cmp.Comparer(func(a, b resourcesync.Datetime) bool { return a == b })); d != "" {
		t.Errorf("%s (-got +want):\n%s", who, d)
	}
}

// bring settles newcomers of a run, in both sets every other one.
func bring(t *testing.T, c *Catalog, run *Run, at int64, names ...string) {
	t.Helper()
	if err := c.Settle(t.Context(), come(t, c, run, at, names...), nil); err != nil {
		t.Fatal(err)
	}
	run.Created = 0
}

// come records the intents of newcomers; the outcome is still to be settled.
func come(t *testing.T, c *Catalog, run *Run, at int64, names ...string) Outcome {
	t.Helper()
	return comeAs(t, c, run, at, nil, names...)
}

// comeAs is come of members that are as say makes them; nil leaves them.
func comeAs(t *testing.T, c *Catalog, run *Run, at int64, say func(name string, m *Membership), names ...string) Outcome {
	t.Helper()
	o := Outcome{Run: run, At: time.Unix(at, 0)}
	var intents []Intent
	for i, name := range names {
		in := intent(name, "content of "+name, t)
		intents = append(intents, in)
		o.Stored = append(o.Stored, Resource{
			Key: in.Key, URI: in.URI, Length: in.Length, Digests: sum(t, "content of "+name), Verified: i%2 == 0, Type: "text/plain", Stat: "17 sha-256",
		})
		lastmod, err := resourcesync.ParseDatetime("2026-05-01T10:00:00.123456789Z")
		if err != nil {
			t.Fatal(err)
		}
		for s := SetID(1); s <= SetID(1+i%2); s++ {
			m := Membership{Set: s, Key: in.Key, Changed: time.Unix(at, 1999), LastMod: lastmod}
			if i%3 == 1 {
				m.Remainder = fmt.Sprintf(`{"foreign":"<%s> in %d"}`, name, s)
			}
			if say != nil {
				say(name, &m)
			}
			o.Members = append(o.Members, m)
			run.Created++
		}
	}
	if err := c.Intend(t.Context(), intents, &o, flat); err != nil {
		t.Fatal(err)
	}
	return o
}

// The tables take over what waits before its remainders fill the memory.
func TestLongRemaindersDoNotWait(t *testing.T) {
	c := open(t)
	s := set(t, c, "s")
	run := &Run{Begun: time.Unix(9, 0).UTC(), What: "sync"}
	long := func(_ string, m *Membership) { m.Remainder = strings.Repeat("x", maxText/8) }
	most := 0
	for i := range 40 {
		name := fmt.Sprint("n", i)
		if err := c.Settle(t.Context(), comeAs(t, c, run, 10, long, name), nil); err != nil {
			t.Fatal(err)
		}
		run.Created = 0
		c.behind.Wait()
		c.ledger.mu.Lock()
		most = max(most, c.ledger.text)
		c.ledger.mu.Unlock()
	}
	if most == 0 || most > maxText {
		t.Errorf("bytes that wait: got up to %d, want at most %d", most, maxText)
	}
	followed(t, c)
	if c.ledger.text != 0 {
		t.Errorf("bytes that wait when nothing does: %d", c.ledger.text)
	}
	for _, m := range collect(t, c.MembersByKey(t.Context(), s)) {
		if len(m.Remainder) != maxText/8 {
			t.Errorf("%s: a remainder of %d bytes, want %d", m.URI, len(m.Remainder), maxText/8)
		}
	}
}

// Newcomers that the tables do not have yet are seen by whoever asks, by all ways: the
// process itself, one that only reads, and the next one after a crash.
func TestWhatTheTablesDoNotHaveYetIsSeen(t *testing.T) {
	c := open(t)
	set(t, c, "s")
	set(t, c, "other")
	run := &Run{Begun: time.Unix(9, 0).UTC(), What: "sync"}
	names := []string{"a", "b", "c", "d", "e", "f", "absent"}
	bring(t, c, run, 10, names[:2]...)
	followed(t, c)
	bring(t, c, run, 20, names[2:4]...)
	bring(t, c, run, 20, names[4:6]...)
	if n := len(c.ledger.rows); n != 4 {
		t.Fatalf("%d resources wait, want 4", n)
	}
	killed := filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(killed, os.DirFS(filepath.Dir(c.path))); err != nil {
		t.Fatal(err)
	}
	beside, err := OpenReadOnly(t.Context(), c.path, "", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if _, whole, err := beside.Intents(t.Context()); !whole || err != nil {
		t.Fatalf("the last commit: got %v, %v; want that it is whole", whole, err)
	}
	if err := beside.Complete(t.Context(), func(resourcesync.Key) bool { return true }); err != nil {
		t.Fatal(err)
	}
	aside := answers(t, beside, names...)
	if err := beside.Close(); err != nil {
		t.Error(err)
	}

	want := answers(t, c, names...)
	if n := len(c.ledger.rows); n != 0 {
		t.Errorf("%d resources wait after all was asked, want none", n)
	}
	wantAnswers(t, "the process itself", answers(t, c, names...), want)
	counted(t, c)
	wantAnswers(t, "who only reads", aside, want)

	next := reopen(t, filepath.Join(killed, filepath.Base(c.path)), false)
	if err := next.Complete(t.Context(), func(resourcesync.Key) bool { return true }); err != nil {
		t.Fatal(err)
	}
	wantAnswers(t, "the next one", answers(t, next, names...), want)
	counted(t, next)
}

// What single resources are asked for is found where they wait; a path that waits is not
// given away.
func TestWhatWaitsIsFoundAndKeepsItsPath(t *testing.T) {
	c := open(t)
	set(t, c, "s")
	set(t, c, "other")
	bring(t, c, &Run{Begun: time.Unix(9, 0), What: "sync"}, 10, "a", "b")
	found, err := c.Lookup(t.Context(), 2, []resourcesync.Key{intent("a", "", t).Key, intent("b", "", t).Key})
	if err != nil || found[0].Member || !found[1].Member || found[1].Path != "b" || !found[0].Stored {
		t.Errorf("got %+v and %v", found, err)
	}
	if n := len(c.ledger.rows); n != 2 {
		t.Errorf("%d resources wait, want 2: nobody asked for more", n)
	}
	o := Outcome{At: time.Unix(20, 0)}
	if err := c.Intend(t.Context(), []Intent{intent("other/a", "else", t)}, &o, flat); !errors.Is(err, ErrState) {
		t.Errorf("a path that waits: got %v, want ErrState", err)
	}
	again := intent("a", "again", t)
	again.Guess = resourcesync.KeyOf("a")
	elsewhere := func(string, Names) (Place, error) {
		return Place{Path: "elsewhere", Fold: resourcesync.KeyOf("elsewhere")}, nil
	}
	for _, state := range []string{"waits", "is in the tables"} {
		if err := c.Intend(t.Context(), []Intent{again}, &o, elsewhere); !errors.Is(err, ErrState) {
			t.Errorf("a resource that %s, as if it were new: got %v, want ErrState", state, err)
		}
		followed(t, c)
	}
}

// Whoever looks for bytes, once for each resource of a plan, has no table follow for it.
func TestContentThatWaitsIsFoundWhereItWaits(t *testing.T) {
	c := open(t)
	set(t, c, "one")
	set(t, c, "two")
	run := &Run{Begun: time.Unix(1, 0), What: "sync"}
	bring(t, c, run, 1, "a", "b")
	for _, name := range []string{"a", "b"} {
		in := intent(name, "content of "+name, t)
		found, ok, err := c.FindContent(t.Context(), in.SHA256, in.Length.Int64())
		if err != nil || !ok || found.URI != in.URI {
			t.Errorf("the content of %s: found %q (%v), want it", name, found.URI, err)
		}
		if _, ok, err := c.FindContent(t.Context(), in.SHA256, in.Length.Int64()+1); ok || err != nil {
			t.Errorf("with another length: %v, %v; want nothing", ok, err)
		}
	}
	if c.ledger.empty() {
		t.Error("nothing waits any more")
	}
}

// Of several that have the same bytes one is found as long as one waits.
func TestOneOfThoseWithTheSameBytesIsFound(t *testing.T) {
	var l ledger
	var all []Outcome
	for _, name := range []string{"a", "b", "c"} {
		in := intent(name, "the same", t)
		o := Outcome{Fresh: []Intent{in}, Stored: []Resource{{Key: in.Key, URI: in.URI, Length: in.Length, Digests: sum(t, "the same")}}}
		l.add(o)
		all = append(all, o)
	}
	in := intent("a", "the same", t)
	for i := range all {
		if _, ok := l.content(in.SHA256, in.Length.Int64()); !ok {
			t.Errorf("nothing is found when %d are in the tables", i)
		}
		l.done(all[i : i+1])
	}
	if r, ok := l.content(in.SHA256, in.Length.Int64()); ok {
		t.Errorf("found %s, though nothing waits", r.URI)
	}
}

// When much waits the tables follow without anybody waiting for them. If they cannot, no
// more is settled than waits already, and whoever settles next is told.
func TestTheTablesFollowBesideWhatComesNext(t *testing.T) {
	c := open(t)
	set(t, c, "s")
	set(t, c, "other")
	run := &Run{Begun: time.Unix(9, 0), What: "sync"}
	many := func(prefix string) (names []string) {
		for i := range minWaiting {
			names = append(names, fmt.Sprint(prefix, i))
		}
		return names
	}
	waits := func(want int) {
		t.Helper()
		c.behind.Wait()
		if n := len(c.ledger.rows); n != want {
			t.Errorf("%d resources wait, want %d", n, want)
		}
	}
	bring(t, c, run, 10, many("a")...)
	waits(0)

	exec := func(query string) {
		t.Helper()
		if _, err := c.write.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TRIGGER full BEFORE INSERT ON member BEGIN SELECT RAISE(ABORT, 'no room'); END")
	bring(t, c, run, 20, many("b")...)
	waits(minWaiting)
	last := come(t, c, run, 30, "c")
	if err := c.Settle(t.Context(), last, nil); err == nil {
		t.Error("no error beside tables that cannot follow")
	}
	waits(minWaiting)

	exec("DROP TRIGGER full")
	if err := c.Settle(t.Context(), last, nil); err != nil {
		t.Error(err)
	}
	waits(1)
	if n, _, err := c.Count(t.Context(), 1); err != nil || n != 2*minWaiting+1 {
		t.Errorf("%d members (%v), want %d", n, err, 2*minWaiting+1)
	}
}

func TestAnArrivalThatCannotBeReadIsDamage(t *testing.T) {
	c := open(t)
	for _, body := range []string{"{", `{"whole":true,"new":[{"uri":"https://example.org/a","path":"a","fold":"AA==","length":1}]}`} {
		if _, err := c.write.Exec("INSERT INTO arrival (body, settled) VALUES ($1, TRUE)", body); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), Options{Path: c.path}); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got %v, want ErrDamaged", body, err)
		}
		if _, err := c.write.Exec("DELETE FROM arrival"); err != nil {
			t.Fatal(err)
		}
	}
}

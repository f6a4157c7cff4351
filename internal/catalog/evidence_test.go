package catalog

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/resourcesync"
)

// toldOf is a moment as these tests name it, with a fraction that the tables drop.
func toldOf(n int64) time.Time { return time.Unix(n, 123456789).UTC() }

func evidenceOf(set SetID, name string, t *testing.T, moment, came int64) Evidence {
	e := Evidence{Set: set, Key: intent(name, "", t).Key, Told: true, Moment: kept(toldOf(moment))}
	if came > 0 {
		e.Came = kept(toldOf(came))
	}
	return e
}

func goneOf(set SetID, name string, t *testing.T, moment int64) Evidence {
	e := evidenceOf(set, name, t, moment, 0)
	e.Gone = true
	return e
}

func wantEvidence(t *testing.T, who string, c *Catalog, set SetID, want ...Evidence) {
	t.Helper()
	var keys []resourcesync.Key
	for _, name := range []string{"a", "b", "c", "d", "e", "never"} {
		keys = append(keys, intent(name, "", t).Key)
	}
	got, err := c.Evidence(t.Context(), set, keys)
	if err != nil {
		t.Fatal(err)
	}
	all := map[resourcesync.Key]Evidence{}
	for _, e := range want {
		all[e.Key] = e
	}
	if d := cmp.Diff(all, maps.Collect(maps.All(got))); d != "" {
		t.Errorf("%s, of set %d (-want +got):\n%s", who, set, d)
	}
}

// What changes have said is known while a resource waits for the tables, in the tables, to
// who only reads, and to the next one after a crash.
func TestEvidenceWaitsWithItsResource(t *testing.T) {
	c := open(t)
	set(t, c, "s")
	set(t, c, "other")
	run := &Run{Begun: time.Unix(9, 0).UTC(), What: "sync"}
	o := comeAs(t, c, run, 10, func(name string, m *Membership) { // b is in both sets
		switch name {
		case "a":
			m.Changed, m.Told, m.Came = toldOf(3), true, toldOf(4)
		case "b":
			m.Changed, m.Told = toldOf(5), true
		}
	}, "a", "b", "c")
	if err := c.Settle(t.Context(), o, nil); err != nil {
		t.Fatal(err)
	}
	if n := len(c.ledger.rows); n != 3 {
		t.Fatalf("%d resources wait, want 3", n)
	}
	check := func(who string, c *Catalog) {
		t.Helper()
		wantEvidence(t, who, c, 1, evidenceOf(1, "a", t, 3, 4), evidenceOf(1, "b", t, 5, 0))
		wantEvidence(t, who, c, 2, evidenceOf(2, "b", t, 5, 0))
		for _, key := range []resourcesync.Key{intent("a", "", t).Key, intent("b", "", t).Key} {
			found, err := c.Lookup(t.Context(), 1, []resourcesync.Key{key})
			told, err2 := c.Evidence(t.Context(), 1, []resourcesync.Key{key})
			if err != nil || err2 != nil || !found[0].Changed.Equal(told[key].Moment) {
				t.Errorf("%s: the member is as of %v, the change of %v; %v, %v", who, found, told[key].Moment, err, err2)
			}
		}
	}
	check("what waits", c)

	killed := filepath.Join(t.TempDir(), "killed")
	if err := os.CopyFS(killed, os.DirFS(filepath.Dir(c.path))); err != nil {
		t.Fatal(err)
	}
	all := func(resourcesync.Key) bool { return true }
	beside, err := OpenReadOnly(t.Context(), c.path, "", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := beside.Complete(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	check("who only reads", beside)
	if err := beside.Close(); err != nil {
		t.Error(err)
	}
	followed(t, c)
	check("the tables", c)
	next := reopen(t, filepath.Join(killed, filepath.Base(c.path)), false)
	if err := next.Complete(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	check("the next one after a crash", next)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	check("the next one", reopen(t, c.path, false))
}

// Of each URI the last that a change has said counts; a deletion is kept of what is no
// resource as well.
func TestEvidenceIsTheLastThatAChangeSaid(t *testing.T) {
	c := open(t)
	s := set(t, c, "s")
	set(t, c, "other")
	store(t, c, s, "a", "b")
	settle := func(o Outcome) {
		t.Helper()
		if err := c.Settle(t.Context(), o, nil); err != nil {
			t.Fatal(err)
		}
	}
	a, b := intent("a", "", t).Key, intent("b", "", t).Key
	wantEvidence(t, "members by a list", c, s)
	settle(Outcome{Members: []Membership{{Set: s, Key: a, Changed: toldOf(5), Told: true, Came: toldOf(6)}}})
	wantEvidence(t, "a change", c, s, evidenceOf(s, "a", t, 5, 6))
	settle(Outcome{Members: []Membership{{Set: s, Key: a, Changed: toldOf(7), Told: true}}})
	wantEvidence(t, "a later one", c, s, evidenceOf(s, "a", t, 7, 0))
	settle(Outcome{Ended: []Membership{{Set: s, Key: a}}, Gone: []Evidence{goneOf(s, "a", t, 8), goneOf(s, "never", t, 3)}})
	wantEvidence(t, "deletions", c, s, goneOf(s, "a", t, 8), goneOf(s, "never", t, 3))
	settle(Outcome{Gone: []Evidence{goneOf(s, "never", t, 9)}, Ended: []Membership{{Set: s, Key: b}}})
	wantEvidence(t, "a later deletion, and one by a list", c, s, goneOf(s, "a", t, 8), goneOf(s, "never", t, 9))
	wantEvidence(t, "another set", c, 2)

	// It comes again, and waits.
	settle(comeAs(t, c, &Run{Begun: time.Unix(9, 0).UTC(), What: "sync"}, 10, func(_ string, m *Membership) {
		m.Changed, m.Told, m.Came = toldOf(10), true, toldOf(11)
	}, "a"))
	wantEvidence(t, "what was made again and waits", c, s, evidenceOf(s, "a", t, 10, 11), goneOf(s, "never", t, 9))
	followed(t, c)
	wantEvidence(t, "what was made again", c, s, evidenceOf(s, "a", t, 10, 11), goneOf(s, "never", t, 9))
}

// A list that was read ends what changes have said before its moment, of its set alone.
func TestAListEndsEvidence(t *testing.T) {
	c := open(t)
	s, other := set(t, c, "s"), set(t, c, "other")
	for _, in := range []SetID{s, other} {
		if err := c.Settle(t.Context(), Outcome{Gone: []Evidence{goneOf(in, "a", t, 4), goneOf(in, "b", t, 5), goneOf(in, "c", t, 6)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	read := func(listed time.Time) {
		t.Helper()
		if err := c.Settle(t.Context(), Outcome{Cursor: &Cursor{Set: s, Body: "{}", Listed: listed}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	read(time.Time{})
	wantEvidence(t, "no list", c, s, goneOf(s, "a", t, 4), goneOf(s, "b", t, 5), goneOf(s, "c", t, 6))
	read(toldOf(5))
	wantEvidence(t, "a list", c, s, goneOf(s, "b", t, 5), goneOf(s, "c", t, 6))
	read(toldOf(7))
	wantEvidence(t, "a later one", c, s)
	wantEvidence(t, "another set", c, other, goneOf(other, "a", t, 4), goneOf(other, "b", t, 5), goneOf(other, "c", t, 6))
}

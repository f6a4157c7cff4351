package catalog

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// toldOf is a moment as these tests name it, with a fraction that the tables drop.
func toldOf(n int64) time.Time { return time.Unix(n, 123456789).UTC() }

// micros is a time as the tables keep it.
func micros(t time.Time) time.Time { return readTime(t.UnixMicro()) }

func evidenceOf(set SetID, name string, t *testing.T, moment, came int64) Evidence {
	e := Evidence{Set: set, URI: intent(name, "", t).URI, Told: true, Moment: micros(toldOf(moment))}
	if came > 0 {
		e.Came = micros(toldOf(came))
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
	var uris []string
	for _, name := range []string{"a", "b", "c", "d", "e", "never"} {
		uris = append(uris, intent(name, "", t).URI)
	}
	got, err := c.Mirror.Evidence(t.Context(), set, uris)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Evidence{}
	for _, e := range want {
		all[e.URI] = e
	}
	if d := cmp.Diff(all, maps.Collect(maps.All(got))); d != "" {
		t.Errorf("%s, of set %d (-want +got):\n%s", who, set, d)
	}
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
		if err := c.Mirror.Settle(t.Context(), o, nil); err != nil {
			t.Fatal(err)
		}
	}
	a, b := intent("a", "", t).URI, intent("b", "", t).URI
	wantEvidence(t, "members by a list", c, s)
	settle(Outcome{Members: []Membership{{Set: s, URI: a, Changed: toldOf(5), Told: true, Came: toldOf(6)}}})
	wantEvidence(t, "a change", c, s, evidenceOf(s, "a", t, 5, 6))
	settle(Outcome{Members: []Membership{{Set: s, URI: a, Changed: toldOf(7), Told: true}}})
	wantEvidence(t, "a later one", c, s, evidenceOf(s, "a", t, 7, 0))
	settle(Outcome{Ended: []Membership{{Set: s, URI: a}}, Gone: []Evidence{goneOf(s, "a", t, 8), goneOf(s, "never", t, 3)}})
	wantEvidence(t, "deletions", c, s, goneOf(s, "a", t, 8), goneOf(s, "never", t, 3))
	settle(Outcome{Gone: []Evidence{goneOf(s, "never", t, 9)}, Ended: []Membership{{Set: s, URI: b}}})
	wantEvidence(t, "a later deletion, and one by a list", c, s, goneOf(s, "a", t, 8), goneOf(s, "never", t, 9))
	wantEvidence(t, "another set", c, 2)

	// It comes again.
	in := intent("a", "content of a", t)
	o := Outcome{Members: []Membership{{Set: s, URI: a, Changed: toldOf(10), Told: true, Came: toldOf(11)}}}
	if err := c.Mirror.Intend(t.Context(), []Intent{in}, &o, flat); err != nil {
		t.Fatal(err)
	}
	settle(o)
	wantEvidence(t, "what was made again", c, s, evidenceOf(s, "a", t, 10, 11), goneOf(s, "never", t, 9))
}

// A list that was read ends what changes have said before its moment, of its set alone.
func TestAListEndsEvidence(t *testing.T) {
	c := open(t)
	s, other := set(t, c, "s"), set(t, c, "other")
	for _, in := range []SetID{s, other} {
		if err := c.Mirror.Settle(t.Context(), Outcome{Gone: []Evidence{goneOf(in, "a", t, 4), goneOf(in, "b", t, 5), goneOf(in, "c", t, 6)}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	read := func(listed time.Time) {
		t.Helper()
		if err := c.Mirror.Settle(t.Context(), Outcome{Cursor: &Cursor{Set: s, Body: "{}", Listed: listed}}, nil); err != nil {
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

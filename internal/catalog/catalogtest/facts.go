package catalogtest

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// Start is the initial time of a suite's clock.
var Start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const host = "https://example.org/"

const maxSeq = 1 << 60

func digest(bytes string) resourcesync.Digest {
	sum := sha256.Sum256([]byte(bytes))
	d, err := resourcesync.NewDigest(resourcesync.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return d
}

// resource returns a resource whose file name is the last part of its URI.
func resource(name, bytes string) catalog.Resource {
	return catalog.Resource{
		URI: host + name, Path: name, Length: resourcesync.Bytes(int64(len(bytes))),
		Digests: resourcesync.Digests{digest(bytes)}, Type: "text/plain",
	}
}

func change(kind resourcesync.Change, name, bytes string) catalog.Change {
	return catalog.Change{Change: kind, Resource: resource(name, bytes)}
}

func created(names ...string) (all []catalog.Change) {
	for _, name := range names {
		all = append(all, change(resourcesync.Created, name, "bytes of "+name))
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func collect[T any](t *testing.T, seq iter.Seq2[T, error]) (values []T) {
	t.Helper()
	for v, err := range seq {
		must(t, err)
		values = append(values, v)
	}
	return values
}

func names[T any](values []T, uri func(T) string) string {
	var b strings.Builder
	for _, v := range values {
		b.WriteString(" " + strings.TrimPrefix(uri(v), host))
	}
	return strings.TrimPrefix(b.String(), " ")
}

func namesOf(rows []catalog.Resource) string {
	return names(rows, func(r catalog.Resource) string { return r.URI })
}

func set(t *testing.T, f Facts, name string) catalog.SetID {
	t.Helper()
	id, err := f.Set(t.Context(), name)
	must(t, err)
	return id
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func begin(t *testing.T, make New) (Stores, *clock) {
	c := &clock{at: Start}
	return make(t, c.now), c
}

// RunFacts runs the suite of Facts.
func RunFacts(t *testing.T, make New) {
	for name, test := range map[string]func(*testing.T, Stores, *clock){
		"the settings of one call are stored all or none":                      settings,
		"a set is created once":                                                sets,
		"members are listed in recording order and in key order":               members,
		"a change that contradicts the state makes its whole call fail":        misfits,
		"the changes of a call have a later Datetime than all earlier changes": moments,
		"all sets of a resource share the state of its bytes":                  shared,
		"Relabel and Restat write nothing to the change log":                   noChange,
		"the log has everything that was not removed":                          forgotten,
		"a set that was never published can be filled without a log":           enrolled,
	} {
		t.Run(name, func(t *testing.T) {
			s, c := begin(t, make)
			test(t, s, c)
		})
	}
}

func settings(t *testing.T, s Stores, _ *clock) {
	must(t, s.Facts.SetSettings(t.Context(), map[string]string{"a": "1", "b": ""}))
	must(t, s.Facts.SetSettings(t.Context(), map[string]string{"a": "2"}))
	s = s.Reopen()
	for name, value := range map[string]string{"a": "2", "b": ""} {
		got, ok, err := s.Facts.Setting(t.Context(), name)
		if got != value || !ok || err != nil {
			t.Errorf("Setting(%s) = %q, %v, %v; want %q", name, got, ok, err, value)
		}
	}
	if _, ok, err := s.Facts.Setting(t.Context(), "c"); ok || err != nil {
		t.Errorf("Setting of an unknown name = %v, %v; want false, nil", ok, err)
	}
}

func sets(t *testing.T, s Stores, _ *clock) {
	one, two := set(t, s.Facts, "one"), set(t, s.Facts, "")
	want(t, "again", set(t, s.Facts, "one"), one)
	found, err := s.Reopen().Facts.Sets(t.Context())
	must(t, err)
	if !slices.Equal(found, []catalog.NamedSet{{ID: one, Name: "one"}, {ID: two, Name: ""}}) {
		t.Errorf("sets: %v", found)
	}
}

func members(t *testing.T, s Stores, _ *clock) {
	id := set(t, s.Facts, "")
	order := []string{"b/z", "b/c/a", "b!", "\U0001F980/x", "a", "b/a", "%41", "b/\u00e9"}
	must(t, s.Facts.Record(t.Context(), id, created(order...)))
	want(t, "by recording", namesOf(collect(t, s.Facts.Members(t.Context(), id))), strings.Join(order, " "))
	const byKey = "%41 a b! b/a b/z b/\u00e9 b/c/a \U0001F980/x"
	s = s.Reopen()
	want(t, "by key", namesOf(collect(t, s.Facts.MembersByKey(t.Context(), id))), byKey)
	keys := collect(t, s.Facts.MemberKeys(t.Context(), id))
	want(t, "keys", names(keys, resourcesync.Key.URI), byKey)
	if !slices.IsSorted(keys) {
		t.Errorf("keys do not ascend: %q", keys)
	}
	rows := collect(t, s.Facts.Members(t.Context(), id))
	some, err := s.Facts.MembersFrom(t.Context(), id, rows[2].ID, 3)
	must(t, err)
	want(t, "some by recording", namesOf(some), strings.Join(order[2:5], " "))
	last, err := s.Facts.LastID(t.Context())
	must(t, err)
	want(t, "the last ID", last, rows[len(rows)-1].ID)
	found, err := s.Facts.Lookup(t.Context(), id, []string{host + "none", host + "a", host + "b/c/a", host + "a"})
	must(t, err)
	want(t, "looked up", namesOf(found[1:]), "a b/c/a a")
	if found[0].URI != "" || !found[1].Member || found[1].Path != "a" || !slices.Equal(found[1].Digests, resourcesync.Digests{digest("bytes of a")}) {
		t.Errorf("looked up: %+v", found[:2])
	}
	n, bytes, err := s.Facts.Count(t.Context(), id)
	must(t, err)
	total := int64(0)
	for _, r := range rows {
		total += r.Length.Int64()
	}
	want(t, "members", n, int64(len(order)))
	want(t, "bytes", bytes, total)
	other := set(t, s.Facts, "other")
	must(t, s.Facts.Record(t.Context(), other, created("b/a", "b/b", "z")))
	var seen []string
	for of, err := range s.Facts.MembersOf(t.Context(), []catalog.SetID{other, id}) {
		must(t, err)
		both := ""
		if of[0].Member && of[1].Member {
			both = "+"
		}
		seen = append(seen, both+strings.TrimPrefix(cmp.Or(of[0].URI, of[1].URI), host))
	}
	want(t, "of two sets", strings.Join(seen, " "), "%41 a b! z +b/a b/b b/z b/\u00e9 b/c/a \U0001F980/x")
	want(t, "of no set", len(collect(t, s.Facts.MembersOf(t.Context(), nil))), 0)
}

func misfits(t *testing.T, s Stores, _ *clock) {
	id := set(t, s.Facts, "")
	must(t, s.Facts.Record(t.Context(), id, created("here")))
	for _, bad := range []catalog.Change{
		change(resourcesync.Created, "here", "again"), change(resourcesync.Updated, "absent", "x"), change(resourcesync.Deleted, "absent", ""),
	} {
		err := s.Facts.Record(t.Context(), id, append(created("new"), bad))
		if !errors.Is(err, catalog.ErrState) {
			t.Errorf("Record of the change %s of %s = %v, want ErrState", bad.Change, bad.URI, err)
		}
	}
	want(t, "members", namesOf(collect(t, s.Facts.Members(t.Context(), id))), "here")
	n, err := s.Facts.CountChanges(t.Context(), id, 0, maxSeq)
	must(t, err)
	want(t, "changes", n, 1)
}

func moments(t *testing.T, s Stores, c *clock) {
	id := set(t, s.Facts, "")
	var last catalog.Change
	for i, name := range []string{"a", "b", "c", "d"} {
		if i == 2 {
			c.at = Start.Add(-time.Hour) // the clock is set back
		}
		if i == 3 {
			must(t, s.Facts.Reserve(t.Context(), Start.Add(time.Minute)))
			s = s.Reopen()
		}
		before, err := s.Facts.Moment(t.Context())
		must(t, err)
		batch := created(name+"1", name+"2")
		must(t, s.Facts.Record(t.Context(), id, batch))
		if batch[0].Datetime != batch[1].Datetime || !batch[0].Datetime.After(last.Datetime) || batch[0].Datetime.Before(before) {
			t.Errorf("two changes have the Datetimes %s and %s; want both to be equal and later than %s", batch[0].Datetime, batch[1].Datetime, last.Datetime)
		}
		if batch[0].Seq <= last.Seq || batch[1].Seq <= batch[0].Seq {
			t.Errorf("two changes have the numbers %d and %d; want ascending numbers greater than %d", batch[0].Seq, batch[1].Seq, last.Seq)
		}
		last = batch[1]
	}
	if last.Datetime.Before(Start.Add(time.Minute)) {
		t.Errorf("the change has the Datetime %s, which is before the time passed to Reserve", last.Datetime)
	}
	seq, at, err := s.Facts.LastSeq(t.Context(), id)
	must(t, err)
	if seq != last.Seq || !at.Equal(last.Datetime) {
		t.Errorf("the last change: %d at %s, want %d at %s", seq, at, last.Seq, last.Datetime)
	}
	want(t, "changes in the middle of the log", names(collect(t, s.Facts.Changes(t.Context(), id, last.Seq-4, last.Seq-1)), func(ch catalog.Change) string { return ch.URI }), "c1 c2 d1")
}

func shared(t *testing.T, s Stores, _ *clock) {
	one, two := set(t, s.Facts, "one"), set(t, s.Facts, "two")
	must(t, s.Facts.Record(t.Context(), one, created("a", "b")))
	must(t, s.Facts.Record(t.Context(), two, created("a")))
	must(t, s.Facts.Record(t.Context(), one, []catalog.Change{change(resourcesync.Updated, "a", "new and longer bytes")}))
	found, err := s.Facts.Lookup(t.Context(), two, []string{host + "a", host + "b"})
	must(t, err)
	if found[0].Due == "" || found[0].Digests[0] != digest("new and longer bytes") || found[1].Member || found[1].URI == "" {
		t.Errorf("set one has new bytes of resource a; want them to be due in set two, and resource b not to be a member of it: got %+v", found)
	}
	for id, length := range map[catalog.SetID]int64{one: 20 + 10, two: 20} {
		_, bytes, err := s.Facts.Count(t.Context(), id)
		must(t, err)
		want(t, "bytes", bytes, length)
	}
	must(t, s.Facts.Record(t.Context(), one, []catalog.Change{change(resourcesync.Deleted, "a", ""), change(resourcesync.Deleted, "b", "")}))
	if found, err = s.Facts.Lookup(t.Context(), two, []string{host + "a", host + "b"}); err != nil || !found[0].Member || found[1].URI != "" {
		t.Errorf("set one has deleted both resources; want only a, as a member of set two: got %+v, %v", found, err)
	}
}

func noChange(t *testing.T, s Stores, _ *clock) {
	id := set(t, s.Facts, "")
	must(t, s.Facts.Record(t.Context(), id, created("a")))
	r := resource("a", "bytes of a")
	r.Stat, r.Type, r.ChangeFreq, r.Remainder = "at rest", "text/html", "daily", `{"foreign":"another"}`
	must(t, s.Facts.Restat(t.Context(), []catalog.Resource{r, resource("unknown", "")}))
	before, err := s.Facts.Relabelled(t.Context(), id)
	must(t, err)
	must(t, s.Facts.Relabel(t.Context(), id, []catalog.Resource{r, resource("unknown", "")}))
	after, err := s.Facts.Relabelled(t.Context(), id)
	must(t, err)
	if found := collect(t, s.Facts.Members(t.Context(), id)); len(found) != 1 || found[0].Stat != r.Stat || found[0].Type != r.Type || found[0].ChangeFreq != r.ChangeFreq || found[0].Remainder != r.Remainder || before == after {
		t.Errorf("members: %+v; Relabelled returned %d before Relabel and %d after it", found, before, after)
	}
	n, err := s.Facts.CountChanges(t.Context(), id, 0, maxSeq)
	must(t, err)
	want(t, "changes", n, 1)
}

func forgotten(t *testing.T, s Stores, c *clock) {
	id, other := set(t, s.Facts, ""), set(t, s.Facts, "other")
	var log []catalog.Change
	for _, name := range []string{"a", "b", "c"} {
		batch := created(name)
		must(t, s.Facts.Record(t.Context(), id, batch))
		must(t, s.Facts.Record(t.Context(), other, created("of "+name)))
		log = append(log, batch...)
		c.at = c.at.Add(time.Second)
	}
	for _, step := range []struct {
		through int64
		left    string
		at      time.Time
	}{{log[0].Seq - 1, "a b c", time.Time{}}, {log[1].Seq, "c", log[1].Datetime}, {maxSeq, "c", log[1].Datetime}} {
		_, err := s.Facts.ForgetChanges(t.Context(), id, step.through, maxSeq)
		must(t, err)
		want(t, "left", names(collect(t, s.Facts.Changes(t.Context(), id, 0, maxSeq)), func(ch catalog.Change) string { return ch.URI }), step.left)
		at, err := s.Facts.Forgotten(t.Context(), id)
		must(t, err)
		want(t, "forgotten until", at, step.at)
	}
	n, err := s.Facts.CountChanges(t.Context(), other, 0, maxSeq)
	must(t, err)
	want(t, "changes of the set other", n, 3)
	must(t, s.Facts.Record(t.Context(), id, created("d"))) // all sets share the numbers of the log
	seq, _, err := s.Facts.LastSeq(t.Context(), id)
	if must(t, err); seq <= log[2].Seq {
		t.Errorf("the next change has the number %d; want a number greater than %d", seq, log[2].Seq)
	}
}

func enrolled(t *testing.T, s Stores, _ *clock) {
	id := set(t, s.Facts, "")
	must(t, s.Facts.Enroll(t.Context(), id, created("a", "b")))
	n, err := s.Facts.CountChanges(t.Context(), id, 0, maxSeq)
	must(t, err)
	want(t, "changes", n, 0)
	want(t, "members", namesOf(collect(t, s.Facts.Members(t.Context(), id))), "a b")
	publish(t, s, id, catalog.Finished{})
	if err := s.Facts.Enroll(t.Context(), id, created("c")); !errors.Is(err, catalog.ErrState) {
		t.Errorf("Enroll for a published set = %v, want ErrState", err)
	}
}

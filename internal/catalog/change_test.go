package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"instep/resourcesync"
)

var epoch = time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)

func sum(t testing.TB, content string, algorithms ...resourcesync.Algorithm) resourcesync.Digests {
	t.Helper()
	h := resourcesync.NewHasher(append(algorithms, resourcesync.SHA256)...)
	if _, err := h.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	return h.Digests()
}

// change makes a change of the file at path with the given content.
func change(t testing.TB, kind resourcesync.Change, path, content string) Change {
	t.Helper()
	uri := "https://example.org/" + path
	ch := Change{Change: kind, Resource: Resource{URI: uri}}
	if kind == resourcesync.Deleted {
		return ch
	}
	ch.Path, ch.Digests, ch.Length = path, sum(t, content), resourcesync.Bytes(int64(len(content)))
	ch.Encoding, ch.ChangeFreq, ch.Remainder = "gzip", resourcesync.Weekly, `{"foreign":"of `+content+`"}`
	ch.Type, ch.Stat, ch.LastMod = "text/plain", "stat of "+content, resourcesync.DatetimeOf(epoch.Add(-time.Hour))
	return ch
}

func set(t testing.TB, c *Catalog, name string) SetID {
	t.Helper()
	id, err := c.Facts.Set(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func record(t testing.TB, c *Catalog, set SetID, changes ...Change) []Change {
	t.Helper()
	if err := c.Facts.Record(t.Context(), set, changes); err != nil {
		t.Fatal(err)
	}
	return changes
}

func collect[T any](t testing.TB, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func paths(resources []Resource) string {
	var all []string
	for _, r := range resources {
		all = append(all, r.Path)
	}
	return strings.Join(all, " ")
}

func diff(got, want any) string {
	if reflect.DeepEqual(got, want) { // many times faster
		return ""
	}
	return cmp.Diff(got, want, cmpopts.IgnoreFields(Resource{}, "ID"),
		cmp.Comparer(func(a, b resourcesync.Length) bool { return a == b }),
		cmp.Comparer(func(a, b resourcesync.Digest) bool { return a == b }),
		cmp.Comparer(func(a, b resourcesync.Datetime) bool { return a == b }))
}

func TestRecordedChangesAreReadBack(t *testing.T) {
	c := open(t)
	c.now = func() time.Time { return epoch.Add(1234567 * time.Nanosecond) }
	s := set(t, c, "")
	created := record(t, c, s, change(t, resourcesync.Created, "a", "1"), change(t, resourcesync.Created, "b", "2"))
	updated := record(t, c, s, change(t, resourcesync.Updated, "a", "3"), change(t, resourcesync.Deleted, "b", ""))

	at := epoch.Add(1235 * time.Microsecond)
	want := append(slices.Clone(created), updated...)
	for i := range want {
		if want[i].Datetime != at.Add(time.Duration(i/2-1)*time.Microsecond) || i > 0 && want[i].Seq <= want[i-1].Seq {
			t.Errorf("change %d was given %d, %s; want a higher number and %s", i, want[i].Seq, want[i].Datetime, at)
		}
		want[i].Path, want[i].Stat = "", "" // not kept in the log
	}
	if d := diff(collect(t, c.Facts.Changes(t.Context(), s, 0, want[3].Seq)), want); d != "" {
		t.Errorf("Changes (-got +want):\n%s", d)
	}
	if got := collect(t, c.Facts.Changes(t.Context(), s, want[0].Seq, want[2].Seq)); len(got) != 2 || got[0].Seq != want[1].Seq {
		t.Errorf("Changes after the first through the third = %v", got)
	}
	if n, err := c.Facts.CountChanges(t.Context(), s, want[0].Seq, want[2].Seq); n != 2 || err != nil {
		t.Errorf("CountChanges = %d, %v; want 2", n, err)
	}
	if seq, last, err := c.Facts.LastSeq(t.Context(), s); seq != want[3].Seq || last != at || err != nil {
		t.Errorf("LastSeq = %d, %s, %v; want %d, %s", seq, last, err, want[3].Seq, at)
	}

	member := updated[0].Resource
	member.Stored, member.Member, member.Changed = true, true, at
	if d := diff(collect(t, c.Facts.Members(t.Context(), s)), []Resource{member}); d != "" {
		t.Errorf("Members (-got +want):\n%s", d)
	}
	got, err := c.Facts.Lookup(t.Context(), s, []string{"x", member.URI, created[1].URI, member.URI})
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(got, []Resource{{}, member, {}, member}); d != "" {
		t.Errorf("Lookup (-got +want):\n%s", d)
	}
	if n, bytes, err := c.Facts.Count(t.Context(), s); n != 1 || bytes != 1 || err != nil {
		t.Errorf("Count = %d, %d, %v; want 1, 1", n, bytes, err)
	}
}

func TestEmptySet(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	if seq, at, err := c.Facts.LastSeq(t.Context(), s); seq != 0 || !at.IsZero() || err != nil {
		t.Errorf("LastSeq = %d, %s, %v; want 0", seq, at, err)
	}
	if n, bytes, err := c.Facts.Count(t.Context(), s); n != 0 || bytes != 0 || err != nil {
		t.Errorf("Count = %d, %d, %v; want 0", n, bytes, err)
	}
	if got, err := c.Facts.Lookup(t.Context(), s, nil); len(got) != 0 || err != nil {
		t.Errorf("Lookup of nothing = %v, %v", got, err)
	}
	if again := set(t, c, ""); again != s {
		t.Errorf("the set is %d, then %d", s, again)
	}
	other := set(t, c, "maps")
	all, err := c.Facts.Sets(t.Context())
	if d := diff(all, []NamedSet{{s, ""}, {other, "maps"}}); d != "" || err != nil {
		t.Errorf("Sets: %v, (-got +want):\n%s", err, d)
	}
}

func TestRecordRefusesWholeBatch(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	record(t, c, s, change(t, resourcesync.Created, "a", "1"))
	unknownKind := change(t, "moved", "b", "1")
	noPath := change(t, resourcesync.Created, "b", "1")
	noPath.Path = ""
	for _, test := range []struct {
		name string
		bad  Change
		is   error
		says string
	}{
		{"created twice", change(t, resourcesync.Created, "a", "2"), ErrState, "already"},
		{"update of no member", change(t, resourcesync.Updated, "b", "2"), ErrState, "not a member"},
		{"deletion of no member", change(t, resourcesync.Deleted, "b", ""), ErrState, "not a member"},
		{"unknown kind", unknownKind, nil, `found "moved"`},
		{"no path", noPath, nil, "expected a URI and a path"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := collect(t, c.Facts.Members(t.Context(), s))
			batch := []Change{change(t, resourcesync.Created, "c", "1"), test.bad, change(t, resourcesync.Created, "d", "1")}
			err := c.Facts.Record(t.Context(), s, batch)
			if err == nil || test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("Record = %v; want an error that says %q", err, test.says)
			}
			if d := diff(collect(t, c.Facts.Members(t.Context(), s)), before); d != "" {
				t.Errorf("the failed batch left (-got +want):\n%s", d)
			}
			if n, err := c.Facts.CountChanges(t.Context(), s, 0, 1<<60); n != 1 || err != nil {
				t.Errorf("the log has %d changes, %v; want 1", n, err)
			}
			if batch[0].Seq != 0 {
				t.Error("a change that was not recorded was given a number")
			}
		})
	}
}

func TestRecordTakesAtMostWhatOneDatetimeMayHave(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	var changes []Change
	for i := range MaxChanges + 1 {
		changes = append(changes, change(t, resourcesync.Created, fmt.Sprint(i), "1"))
	}
	if err := c.Facts.Record(t.Context(), s, changes); err == nil || !strings.Contains(err.Error(), "at most 500") {
		t.Errorf("Record of %d changes = %v; want an error that says how many it takes", len(changes), err)
	}
	record(t, c, s, changes[:MaxChanges]...)
}

// A set that was never published has members and no changes. What comes later is
// told, and later.
func TestEnrolledMembersAreNoChanges(t *testing.T) {
	c := open(t)
	c.now = func() time.Time { return epoch }
	s := set(t, c, "")
	first := []Change{change(t, resourcesync.Created, "a", "1"), change(t, resourcesync.Created, "b", "2")}
	second := []Change{change(t, resourcesync.Updated, "a", "3"), change(t, resourcesync.Deleted, "b", ""), change(t, resourcesync.Created, "c", "4")}
	for i, batch := range [][]Change{first, second} {
		if err := c.Facts.Enroll(t.Context(), s, batch); err != nil {
			t.Fatal(err)
		}
		if want := epoch.Add(time.Duration(i) * time.Microsecond); batch[0].Datetime != want || batch[0].Seq != 0 {
			t.Errorf("call %d gave %d, %s; want no number and %s", i, batch[0].Seq, batch[0].Datetime, want)
		}
	}
	members := collect(t, c.Facts.Members(t.Context(), s))
	if got := paths(members); got != "a c" || members[0].Digests.String() != second[0].Digests.String() {
		t.Errorf("members %q of %v; want a c", got, members)
	}
	if got := collect(t, c.Facts.Changes(t.Context(), s, 0, 1<<60)); len(got) != 0 {
		t.Errorf("Changes = %v, want none", got)
	}
	ch := record(t, c, s, change(t, resourcesync.Updated, "c", "5"))[0]
	if want := epoch.Add(2 * time.Microsecond); ch.Datetime != want || ch.Seq == 0 {
		t.Errorf("the first change was given %d, %s; want a number and %s", ch.Seq, ch.Datetime, want)
	}
	if err := c.Facts.Enroll(t.Context(), s, []Change{change(t, resourcesync.Created, "c", "1")}); !errors.Is(err, ErrState) {
		t.Errorf("Enroll of a member = %v, want ErrState", err)
	}
}

func TestPublishedSetEnrollsNobody(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	id, err := c.Publisher.BeginPublication(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Facts.Enroll(t.Context(), s, []Change{change(t, resourcesync.Created, "a", "1")}); err != nil {
		t.Errorf("Enroll while the first publication is made = %v", err)
	}
	if err := c.Publisher.CommitPublication(t.Context(), s, id, epoch, "{}"); err != nil {
		t.Fatal(err)
	}
	if err := c.Facts.Enroll(t.Context(), s, []Change{change(t, resourcesync.Created, "b", "1")}); !errors.Is(err, ErrState) {
		t.Errorf("Enroll after it = %v, want ErrState", err)
	}
	if got := paths(collect(t, c.Facts.Members(t.Context(), s))); got != "a" {
		t.Errorf("members %q, want a", got)
	}
}

func TestRecordStopsWithItsContext(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Facts.Record(ctx, s, []Change{change(t, resourcesync.Created, "a", "1")}); !errors.Is(err, context.Canceled) {
		t.Errorf("Record = %v, want context.Canceled", err)
	}
	record(t, c, s, change(t, resourcesync.Created, "a", "1")) // the connection is free again
	for _, err := range c.Facts.Members(ctx, s) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Members = %v, want context.Canceled", err)
		}
	}
}

func TestOneResourceInTwoSets(t *testing.T) {
	c := open(t)
	a, b := set(t, c, "a"), set(t, c, "b")
	record(t, c, a, change(t, resourcesync.Created, "x", "1"))
	record(t, c, b, change(t, resourcesync.Created, "x", "22"))
	record(t, c, a, change(t, resourcesync.Deleted, "x", ""))
	if got := collect(t, c.Facts.Members(t.Context(), a)); len(got) != 0 {
		t.Errorf("Members(a) = %v, want none", got)
	}
	if n, bytes, err := c.Facts.Count(t.Context(), b); n != 1 || bytes != 2 || err != nil {
		t.Errorf("Count(b) = %d, %d, %v; want 1, 2", n, bytes, err)
	}
	got, err := c.Facts.Lookup(t.Context(), a, []string{"https://example.org/x"})
	if err != nil || !got[0].Stored || got[0].Member {
		t.Errorf("Lookup in a = %+v, %v; want a resource that is no member", got, err)
	}
	record(t, c, b, change(t, resourcesync.Deleted, "x", ""))
	moved := change(t, resourcesync.Created, "y", "1")
	moved.Path = "x" // free now
	record(t, c, b, moved)
}

func TestRestatIsNoChange(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	ch := record(t, c, s, change(t, resourcesync.Created, "a", "1"))[0]
	ch.Stat, ch.Digests = "touched", sum(t, "1", resourcesync.MD5)
	unknown := change(t, resourcesync.Created, "b", "1")
	if err := c.Facts.Restat(t.Context(), []Resource{ch.Resource, unknown.Resource}); err != nil {
		t.Fatal(err)
	}
	got := collect(t, c.Facts.Members(t.Context(), s))
	if len(got) != 1 || got[0].Stat != "touched" || got[0].Digests.String() != ch.Digests.String() {
		t.Errorf("Members = %+v, want a with the new stat and digests", got)
	}
	if n, err := c.Facts.CountChanges(t.Context(), s, 0, 1<<60); n != 1 || err != nil {
		t.Errorf("CountChanges = %d, %v; want 1", n, err)
	}
}

func TestListingsPage(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	const n = 2*pageSize + 1
	var changes []Change
	for i := range n {
		changes = append(changes, change(t, resourcesync.Created, fmt.Sprint(n-i), "1"))
	}
	for batch := range slices.Chunk(changes, MaxChanges) {
		record(t, c, s, batch...)
	}
	var want []string
	for _, ch := range changes {
		want = append(want, ch.Path)
	}
	if got := paths(collect(t, c.Facts.Members(t.Context(), s))); got != strings.Join(want, " ") {
		t.Error("Members is not in the order of recording")
	}
	byKey := collect(t, c.Facts.MembersByKey(t.Context(), s))
	keys := collect(t, c.Facts.MemberKeys(t.Context(), s))
	if len(byKey) != n || len(keys) != n {
		t.Fatalf("MembersByKey yields %d, MemberKeys %d; want %d", len(byKey), len(keys), n)
	}
	for i := range keys {
		if resourcesync.KeyOf(byKey[i].URI) != keys[i] || i > 0 && keys[i-1] >= keys[i] {
			t.Fatalf("key %d: MembersByKey %q, MemberKeys %q: not ascending or not the same", i, byKey[i].URI, keys[i])
		}
	}
	all, err := c.Facts.Lookup(t.Context(), s, urisOf(byKey))
	if d := diff(all, byKey); d != "" || err != nil {
		t.Errorf("Lookup of all: %v (-got +want):\n%s", err, d)
	}
	if got := collect(t, c.Facts.Changes(t.Context(), s, 0, 1<<60)); len(got) != n {
		t.Errorf("Changes yields %d, want %d", len(got), n)
	}
}

// A consumer may stop anywhere, also while the next page is on its way, and go on
// after it stopped.
func TestListingsStopAnywhere(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	var changes []Change
	for i := range 3*pageSize + 7 {
		changes = append(changes, change(t, resourcesync.Created, fmt.Sprint(i), "1"))
	}
	if err := c.Facts.Enroll(t.Context(), s, changes); err != nil {
		t.Fatal(err)
	}
	all := collect(t, c.Facts.Members(t.Context(), s))
	if len(all) != len(changes) {
		t.Fatalf("%d members, want %d", len(all), len(changes))
	}
	for _, n := range []int{1, prefetch, prefetch + 1, prefetch + 2, pageSize, pageSize + 1, 2*pageSize + prefetch + 1, len(all)} {
		i := 0
		for m, err := range c.Facts.Members(t.Context(), s) {
			if err != nil || m.URI != all[i].URI {
				t.Fatalf("member %d: got %q and %v, want %q", i, m.URI, err, all[i].URI)
			}
			if i++; i == n {
				break
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err := range c.Facts.Members(ctx, s) {
		if n++; n == pageSize {
			cancel()
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Members after cancel: %v, want context.Canceled", err)
		}
	}
	if n > 2*pageSize+1 {
		t.Errorf("%d members after cancel, want a page or two", n)
	}
}

// Members come by directory of their URIs, then by name, wherever a page ends.
func TestMembersByKeyCrossDirectories(t *testing.T) {
	c := open(t)
	a, b := set(t, c, "a"), set(t, c, "b")
	var want []resourcesync.Key
	var changes []Change
	for i := range 2*pageSize + 7 {
		// "x/" sorts before "x-1/", and a file of x before the directory x/deep
		ch := change(t, resourcesync.Created, fmt.Sprintf("%s/%d", []string{"x", "x-1", "x/deep", "y"}[i*i%5%4], i), "1")
		changes, want = append(changes, ch), append(want, resourcesync.KeyOf(ch.URI))
	}
	changes = append(changes, Change{Change: resourcesync.Created, Resource: Resource{URI: "urn:isbn:1", Path: "urn", Length: resourcesync.Bytes(1)}})
	want = append(want, resourcesync.KeyOf("urn:isbn:1"))
	for batch := range slices.Chunk(changes, MaxChanges) {
		record(t, c, a, batch...)
	}
	record(t, c, b, change(t, resourcesync.Created, "x/other", "1"))
	slices.Sort(want)
	if d := cmp.Diff(collect(t, c.Facts.MemberKeys(t.Context(), a)), want); d != "" {
		t.Errorf("MemberKeys (-got +want):\n%s", d)
	}
	if got := collect(t, c.Facts.MemberKeys(t.Context(), b)); len(got) != 1 {
		t.Errorf("members of the other set: %q", got)
	}
}

// A consumer may write, look up and list again while it reads a listing: more
// often than there are connections.
func TestListingsKeepNoConnection(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	record(t, c, s, change(t, resourcesync.Created, "a", "1"))
	var nest func(depth int)
	nest = func(depth int) {
		for r, err := range c.Facts.Members(t.Context(), s) {
			if err != nil {
				t.Fatal(err)
			}
			if depth == 0 {
				record(t, c, s, change(t, resourcesync.Updated, r.Path, "2"))
				return
			}
			nest(depth - 1)
		}
	}
	nest(2 * readers)
}

func TestListingsNeverSort(t *testing.T) {
	c := open(t)
	s := set(t, c, "")
	for name, q := range map[string]struct {
		query string
		args  []any
	}{
		"Members":          {membersQuery, []any{0, 1, s}},
		"MembersByKey":     {byKeyQuery(resourceColumns, 1, withPaths, sameBase), []any{s, "a", "b", 1}},
		"MembersOf":        {byKeyQuery(resourceColumns, 3, withPaths, sameBase), []any{s, s, s, "a", "b", 1}},
		"MembersOf, later": {byKeyQuery(resourceColumns, 3, withPaths, laterBase), []any{s, s, s, "a", 1}},
		"MemberKeys":       {byKeyQuery("b.uri", 1, "", laterBase), []any{s, "a", 1}},
		"Due":              {dueQuery, []any{0, 1, s}},
		"Changes":          {changesQuery, []any{0, 1, s, 9}},
		"ExpiredDocuments": {documentsQuery(expired), []any{"", 1, 0, 0}},
	} {
		rows, err := c.read.Query("EXPLAIN QUERY PLAN "+q.query, q.args...)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(detail, "TEMP B-TREE") || strings.HasPrefix(detail, "SCAN") {
				t.Errorf("%s: %s", name, detail)
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeletions: the last of each URI that the log of the set has, found by its index.
func TestDeletions(t *testing.T) {
	c := open(t)
	s, other := set(t, c, ""), set(t, c, "other")
	for _, ch := range []Change{
		change(t, resourcesync.Created, "a", "1"), change(t, resourcesync.Deleted, "a", ""),
		change(t, resourcesync.Created, "a", "2"), change(t, resourcesync.Deleted, "a", ""), change(t, resourcesync.Created, "b", "3"),
	} {
		record(t, c, s, ch)
	}
	record(t, c, other, change(t, resourcesync.Created, "b", "3"))
	record(t, c, other, change(t, resourcesync.Deleted, "b", ""))
	uris := []string{change(t, resourcesync.Deleted, "b", "").URI, "https://example.org/none", change(t, resourcesync.Deleted, "a", "").URI}
	got, err := c.Facts.Deletions(t.Context(), s, uris)
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	all := collect(t, c.Facts.Changes(t.Context(), s, 0, math.MaxInt64))
	last := all[3]
	if got[0].Seq != 0 || got[1].Seq != 0 || got[2].Seq != last.Seq || !got[2].Datetime.Equal(last.Datetime) || got[2].URI != uris[2] {
		t.Errorf("got %+v, want the last of %+v", got, last)
	}
	var plan string
	rows, err := c.Facts.read.QueryContext(t.Context(), "EXPLAIN QUERY PLAN SELECT MAX(seq) FROM change WHERE uri = 'x' AND set_id = 1 AND change = 'deleted'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		if err := rows.Scan(&id, &parent, &unused, &plan); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(plan, "change_deleted") || rows.Err() != nil {
		t.Errorf("plan %q, %v", plan, rows.Err())
	}
}

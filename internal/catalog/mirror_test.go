package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"instep/resourcesync"
)

// flat places every URI at its last segment.
func flat(uri string, _ Names) (Place, error) {
	path := uri[strings.LastIndexByte(uri, '/')+1:]
	return Place{Path: path}, nil
}

func intent(name, content string, t *testing.T) Intent {
	uri := "https://example.org/" + name
	return Intent{
		URI: uri, Length: resourcesync.Bytes(int64(len(content))),
		SHA256: sum(t, content).Get(resourcesync.SHA256),
	}
}

// store makes resources stored members of a set.
func store(t *testing.T, c *Catalog, s SetID, names ...string) {
	t.Helper()
	var intents []Intent
	var o Outcome
	for _, name := range names {
		in := intent(name, "content of "+name, t)
		intents = append(intents, in)
		o.Stored = append(o.Stored, Resource{
			URI: in.URI, Length: in.Length, Digests: resourcesync.Digests{in.SHA256}, Verified: true, Type: "text/plain",
		})
		o.Members = append(o.Members, Membership{Set: s, URI: in.URI, Changed: time.Unix(1, 0)})
	}
	if err := c.Mirror.Intend(t.Context(), intents, &o, flat); err != nil {
		t.Fatal(err)
	}
	if err := c.Mirror.Settle(t.Context(), o, nil); err != nil {
		t.Fatal(err)
	}
}

// Whatever a mirror settles, the counts of all sets that hold a resource follow.
func TestCountsFollowWhatIsSettled(t *testing.T) {
	c := open(t)
	a, b := set(t, c, "a"), set(t, c, "b")
	store(t, c, a, "x", "y")
	counted(t, c)
	x, y := intent("x", "longer than before", t), intent("y", "", t)
	for i, o := range []Outcome{
		{Members: []Membership{{Set: b, URI: x.URI, Changed: time.Unix(1, 0)}, {Set: a, URI: x.URI, Changed: time.Unix(2, 0)}}},
		{Stored: []Resource{{URI: x.URI, Length: x.Length, Digests: resourcesync.Digests{x.SHA256}}}},
		{Ended: []Membership{{Set: a, URI: x.URI}, {Set: a, URI: y.URI}, {Set: b, URI: y.URI}}},
	} {
		if err := c.Mirror.Settle(t.Context(), o, nil); err != nil {
			t.Fatal(err)
		}
		counted(t, c)
		if i == 0 {
			if n, bytes, err := c.Facts.Count(t.Context(), b); n != 1 || bytes != int64(len("content of x")) || err != nil {
				t.Errorf("Count(b) = %d, %d, %v; want 1 and the bytes of x", n, bytes, err)
			}
		}
	}
	if n, bytes, err := c.Facts.Count(t.Context(), a); n != 0 || bytes != 0 || err != nil {
		t.Errorf("Count(a) = %d, %d, %v; want none", n, bytes, err)
	}
}

func TestIntentsAreThereUntilTheyAreSettled(t *testing.T) {
	c := open(t)
	s := set(t, c, "s")
	store(t, c, s, "a", "x")
	intents := []Intent{intent("b", "new", t), intent("a", "newer", t), {URI: "https://example.org/x", Path: "x", Kept: "trash/x", Taken: "part/x"}}
	intents[1].Path, intents[1].Kept = "a", "trash/a"
	if err := c.Mirror.Intend(t.Context(), intents, &Outcome{}, flat); err != nil {
		t.Fatal(err)
	}
	if intents[0].Path != "b" {
		t.Errorf("the new URI was placed at %q, want b", intents[0].Path)
	}
	got, err := reopen(t, c.path, false).Mirror.Intents(t.Context())
	if err != nil || len(got) != 3 {
		t.Fatalf("got %d intents and %v, want 3", len(got), err)
	}
	for _, in := range got {
		for _, want := range intents {
			want.Guess = ""
			if in.URI == want.URI && in != want {
				t.Errorf("got %+v, want %+v", in, want)
			}
		}
	}
	found, err := c.Facts.Lookup(t.Context(), s, []string{intents[0].URI, intents[1].URI})
	if err != nil || found[0].URI != "" || !found[1].Stored {
		t.Errorf("got %+v and %v, want no b yet and a as it was", found, err)
	}
	if err := c.Mirror.Settle(t.Context(), Outcome{Dropped: []string{intents[0].URI, intents[1].URI}}, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Mirror.Intents(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("got %v and %v after settling, want none", got, err)
	}
	found, err = c.Facts.Lookup(t.Context(), s, []string{intents[0].URI, intents[1].URI})
	if err != nil || found[0].URI != "" || found[1].URI == "" {
		t.Errorf("got %+v and %v, want only what no set holds dropped", found, err)
	}
}

func TestIntendIsAllOrNothing(t *testing.T) {
	c := open(t)
	intents := []Intent{intent("a", "a", t), intent("other/a", "a", t)} // flat gives both one path
	if err := c.Mirror.Intend(t.Context(), intents, &Outcome{}, flat); err == nil {
		t.Fatal("two URIs at one path: got no error")
	}
	full := errors.New("no place")
	err := c.Mirror.Intend(t.Context(), []Intent{intent("a", "a", t), intent("b", "b", t)}, &Outcome{}, func(uri string, n Names) (Place, error) {
		if strings.HasSuffix(uri, "b") {
			return Place{}, full
		}
		return flat(uri, n)
	})
	if !errors.Is(err, full) {
		t.Errorf("got %v, want the error of place", err)
	}
	if got, err := c.Mirror.Intents(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("intents: got %v and %v, want none", got, err)
	}
	if ok, err := c.Mirror.Names(t.Context()).File("a"); ok || err != nil {
		t.Errorf("path a: got %v and %v, want free", ok, err)
	}
}

func TestSettleIsAllOrNothing(t *testing.T) {
	c := open(t)
	s := set(t, c, "s")
	store(t, c, s, "a")
	in := intent("a", "content of a", t)
	err := c.Mirror.Settle(t.Context(), Outcome{
		Ended:   []Membership{{Set: s, URI: in.URI}},
		Stored:  []Resource{{URI: "unknown"}},
		Members: []Membership{{Set: 99, URI: in.URI, Changed: time.Unix(1, 0)}},
		Cursor:  &Cursor{Set: s, Body: "{}"},
	}, nil)
	if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), `"unknown"`) {
		t.Errorf("got %v, want ErrState naming the URI", err)
	}
	if n, _, err := c.Facts.Count(t.Context(), s); n != 1 || err != nil {
		t.Errorf("members: got %d and %v, want 1", n, err)
	}
	if _, ok, err := c.Mirror.Cursor(t.Context(), s); ok || err != nil {
		t.Errorf("cursor: got %v and %v, want none", ok, err)
	}
}

func TestNamesKnowFilesAndFirstSpellingsOfDirectories(t *testing.T) {
	c := open(t)
	const fold = "docs"
	place := func(uri string, n Names) (Place, error) {
		p := Place{Path: "Docs/" + uri}
		first, ok, err := n.Directory(fold)
		if !ok {
			p.Directories = []string{"Docs"}
		} else if first != "Docs" {
			t.Errorf("got %q, want Docs", first)
		}
		return p, err
	}
	intents := []Intent{intent("a", "a", t), intent("b", "b", t)}
	var o Outcome
	if err := c.Mirror.Intend(t.Context(), intents, &o, place); err != nil {
		t.Fatal(err)
	}
	if err := c.Mirror.Settle(t.Context(), o, nil); err != nil {
		t.Fatal(err)
	}
	first, ok, err := c.Mirror.Names(t.Context()).Directory(fold)
	if first != "Docs" || !ok || err != nil {
		t.Errorf("got %q, %v, %v, want Docs", first, ok, err)
	}
	if ok, err := c.Mirror.Names(t.Context()).File(Fold("Docs/https://example.org/a")); !ok || err != nil {
		t.Errorf("file: got %v and %v, want true", ok, err)
	}
}

func TestHoldersOfManyResources(t *testing.T) {
	c := open(t)
	s, other := set(t, c, "s"), set(t, c, "other")
	var names []string
	var uris []string
	for i := range lookupSize + 10 {
		names = append(names, fmt.Sprint(i))
		uris = append(uris, intent(names[i], "", t).URI)
	}
	store(t, c, s, names...)
	m := Membership{Set: other, URI: uris[3], Changed: time.UnixMicro(5).UTC(), Due: "gone", Wanted: "{}"}
	if err := c.Mirror.Settle(t.Context(), Outcome{Members: []Membership{m}}, nil); err != nil {
		t.Fatal(err)
	}
	held, err := c.Mirror.Holders(t.Context(), uris)
	if err != nil || len(held) != len(uris)+1 {
		t.Fatalf("got %d and %v, want %d", len(held), err, len(uris)+1)
	}
	for _, h := range held {
		if h.Set == other && h != m {
			t.Errorf("got %+v, want %+v", h, m)
		}
	}
	due := collect(t, c.Mirror.Due(t.Context(), other))
	if len(due) != 1 || due[0].URI != uris[3] || due[0].Due != "gone" || due[0].Wanted != "{}" {
		t.Errorf("due: got %+v, want %s", due, names[3])
	}
	if due := collect(t, c.Mirror.Due(t.Context(), s)); len(due) != 0 {
		t.Errorf("due in the other set: %+v", due)
	}
}

func TestFindFindsWhatLookupFinds(t *testing.T) {
	c := open(t)
	s := set(t, c, "s")
	store(t, c, s, "a", "b")
	for _, in := range []struct {
		set  SetID
		name string
	}{{s, "a"}, {s, "b"}, {s, "none"}, {0, "a"}} {
		uri := intent(in.name, "", t).URI
		got, err := c.Mirror.Find(t.Context(), in.set, uri)
		if err != nil {
			t.Fatal(err)
		}
		want, err := c.Facts.Lookup(t.Context(), in.set, []string{uri})
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(got, want[0]); d != "" {
			t.Errorf("%s seen from %d:\n%s", in.name, in.set, d)
		}
	}
}

// Neither takes time in proportion to the set.
func TestWhatIsFewIsFoundByItsIndex(t *testing.T) {
	c := open(t)
	if err := c.indexContents(t.Context()); err != nil {
		t.Fatal(err)
	}
	c = reopen(t, c.path, false) // EXPLAIN doesn't see what another connection has changed
	for query, index := range map[string]string{dueQuery: "member_due", contentQuery: "resource_content"} {
		plan, err := queryAll(c.reading(t.Context(), "explain"), nil, func(line *string) []any {
			return []any{new(int), new(int), new(int), line}
		}, "EXPLAIN QUERY PLAN "+query, []byte{}, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan[0], " USING INDEX "+index+" ") || strings.Contains(strings.Join(plan, "\n"), "TEMP B-TREE") {
			t.Errorf("%s\nis done by %q", query, plan)
		}
	}
}

func TestReadOnlyCatalogsRefuseChanges(t *testing.T) {
	c := open(t)
	s := set(t, c, "s")
	store(t, c, s, "a")
	for _, state := range []string{"open elsewhere", "closed"} {
		r, err := OpenReadOnly(t.Context(), c.path, "", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		if n, _, err := r.Facts.Count(t.Context(), s); n != 1 || err != nil {
			t.Errorf("%s: members: got %d and %v, want 1", state, n, err)
		}
		if err := r.Facts.SetSettings(t.Context(), map[string]string{"a": "b"}); err == nil {
			t.Errorf("%s: a change: got no error", state)
		}
		if err := errors.Join(r.Close(), c.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadOnlyCatalogsAreOfThisVersion(t *testing.T) {
	for _, c := range []struct {
		change string
		want   error
	}{
		{"INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)", ErrNewerSchema},
		{"DELETE FROM goose_db_version WHERE version_id > 1", ErrOlderSchema},
		{"PRAGMA application_id = 1", ErrDamaged},
	} {
		cat := open(t)
		if _, err := cat.write.ExecContext(t.Context(), c.change); err != nil {
			t.Fatal(err)
		}
		if err := cat.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenReadOnly(t.Context(), cat.path, "", time.Now); !errors.Is(err, c.want) || !strings.Contains(err.Error(), "catalog.db") {
			t.Errorf("%s: got %v, want %v and the file", c.change, err, c.want)
		}
	}
	if _, err := OpenReadOnly(t.Context(), filepath.Join(t.TempDir(), "none"), "", time.Now); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: got %v, want fs.ErrNotExist", err)
	}
}

// The log of a killed run cannot be read without its index, which would have to be written.
func TestReadOnlyCatalogsSayWhenTheyWouldHaveToWrite(t *testing.T) {
	c := open(t)
	set(t, c, "s")
	dir := t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(c.path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "catalog.db"+suffix), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := OpenReadOnly(t.Context(), filepath.Join(dir, "catalog.db"), "", time.Now)
	if err == nil || !strings.Contains(err.Error(), "-wal") {
		t.Errorf("got %v, want an error naming the log", err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 2 {
		t.Errorf("the directory holds %v, %v; want what was there", names, err)
	}
}

// A run that was killed at the first thing it wrote leaves a log that has a header only.
func TestReadOnlyCatalogsReadWhatALogWithoutTransactionsLeaves(t *testing.T) {
	c := open(t)
	set(t, c, "s")
	files := map[string][]byte{}
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if suffix == "" {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		data, err := os.ReadFile(c.path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		files[suffix] = data
	}
	files["-wal"] = files["-wal"][:walHeader]
	path := filepath.Join(t.TempDir(), "catalog.db")
	for suffix, data := range files {
		if err := os.WriteFile(path+suffix, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := OpenReadOnly(t.Context(), path, "", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	sets, err := r.Facts.Sets(t.Context())
	if err != nil || len(sets) != 1 {
		t.Errorf("got the sets %v (%v), want one", sets, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Who reads slowly has no connection to look through when a run ends, and goes on.
func TestARunThatEndsTakesNothingFromThoseThatRead(t *testing.T) {
	c := open(t)
	set(t, c, "s")
	r, err := OpenReadOnly(t.Context(), c.path, "", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.read.SetMaxIdleConns(0) // as if none had been kept
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if sets, err := r.Facts.Sets(t.Context()); err != nil || len(sets) != 1 {
		t.Errorf("got the sets %v (%v), want one", sets, err)
	}
}

// What is settled beside the writing of files does not count before they are durable.
func TestNothingCountsBeforeTheFilesAreReady(t *testing.T) {
	errFiles := errors.New("the disk is gone")
	for _, failed := range []error{errFiles, nil} {
		c := open(t)
		s := set(t, c, "s")
		in := intent("a", "content of a", t)
		o := Outcome{Cursor: &Cursor{Set: s, Body: "{}"}, Members: []Membership{{Set: s, URI: in.URI, Changed: time.Unix(1, 0)}}}
		if err := c.Mirror.Intend(t.Context(), []Intent{in}, &o, flat); err != nil {
			t.Fatal(err)
		}
		counted := func() int64 {
			n, _, err := c.Facts.Count(t.Context(), s)
			if err != nil {
				t.Error(err)
			}
			return n
		}
		err := c.Mirror.Settle(t.Context(), o, func() error {
			if n := counted(); n != 0 {
				t.Errorf("%d members before the files are ready", n)
			}
			return failed
		})
		if err != failed { // as it is
			t.Errorf("got %v, want %v", err, failed)
		}
		want := int64(1)
		if failed != nil {
			want = 0
		}
		if n := counted(); n != want {
			t.Errorf("%d members, want %d", n, want)
		}
	}
}

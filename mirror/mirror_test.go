package mirror

import (
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/destination"
	"instep/destination/mirrortest"
	"instep/harvest"
	"instep/internal/catalog"
	"instep/resourcesync"
)

const (
	home = "https://museum.example.org"
	site = home + "/resourcesync/description.xml"
	set  = home + "/resourcesync/capabilitylist.xml"
	set2 = home + "/resourcesync/sets/prints/capabilitylist.xml"
)

// noon is the present of the tests.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func options(dir string) Options {
	return Options{Dir: dir, Create: true, Now: func() time.Time { return noon }}
}

// openMirror opens a mirror that the test closes itself, or leaves to the end.
func openMirror(t testing.TB, o Options) *Mirror {
	t.Helper()
	m, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	if err := m.Bind(context.Background(), site, home); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMirrorIsADestinationMirror(t *testing.T) {
	mirrortest.Run(t, func(t *testing.T) destination.Mirror {
		return openMirror(t, options(filepath.Join(t.TempDir(), "mirror")))
	})
}

func wantedOfBody(uri, body string, changed time.Time) harvest.Resource {
	sum := sha256.Sum256([]byte(body))
	d, err := resourcesync.NewDigest(resourcesync.SHA256, sum[:])
	if err != nil {
		panic(err) // a sha-256 has the length of a sha-256
	}
	return harvest.Resource{
		URI: uri, Length: resourcesync.Bytes(int64(len(body))), Digests: resourcesync.Digests{d}, Changed: changed,
	}
}

func put(b destination.Batch, set, name, body string, changed time.Time) error {
	_, err := b.Put(context.Background(), set, wantedOfBody(home+"/"+name, body, changed), strings.NewReader(body), true)
	return err
}

// commit fills a batch and commits it.
func commit(t testing.TB, m *Mirror, fill func(b destination.Batch) error) {
	t.Helper()
	if err := tryCommit(m, nil, fill); err != nil {
		t.Fatal(err)
	}
}

func tryCommit(m *Mirror, move *destination.CursorMove, fill func(b destination.Batch) error) error {
	b, err := m.Begin(context.Background())
	if err != nil {
		return err
	}
	defer b.Discard()
	if err := fill(b); err != nil {
		return err
	}
	return b.Commit(context.Background(), move)
}

func putAll(b destination.Batch, bodies map[string]string) error {
	for name, body := range bodies {
		if err := put(b, set, name, body, noon); err != nil {
			return err
		}
	}
	return nil
}

// filesIn returns what is in a directory: contents by path, "→" targets of links.
func filesIn(t testing.TB, dir string, skip func(path string) bool) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || skip(path) {
			return err
		}
		if !e.Type().IsRegular() {
			target, _ := os.Readlink(filepath.Join(dir, path)) // "" of a device
			found[path] = "→" + target
			return nil
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		found[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func isOurs(path string) bool { return strings.HasPrefix(path, ours+"/") }

func wantFiles(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, filesIn(t, dir, isOurs)); diff != "" {
		t.Fatalf("files of the mirror (-want +got):\n%s", diff)
	}
}

func lookup(t testing.TB, m *Mirror, set, name string) destination.Held {
	t.Helper()
	held, err := m.Lookup(context.Background(), set, []string{home + "/" + name})
	if err != nil {
		t.Fatal(err)
	}
	return held[0]
}

func TestAMirrorSurvivesClosing(t *testing.T) {
	dir := t.TempDir()
	m := openMirror(t, options(dir))
	commit(t, m, func(b destination.Batch) error { return putAll(b, map[string]string{"a": "one", "d/b": "two"}) })
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := Open(t.Context(), options(dir)) // not bound again: it remembers
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	commit(t, m, func(b destination.Batch) error { return put(b, set, "c", "three", noon) })
	wantFiles(t, dir, map[string]string{"a": "one", "d/b": "two", "c": "three"})
	if h := lookup(t, m, set, "d/b"); !h.Stored || h.Path != "d/b" {
		t.Errorf("held: %+v", h)
	}
}

func TestAMirrorBelongsToOneSource(t *testing.T) {
	dir := t.TempDir()
	m := openMirror(t, options(dir))
	ctx := t.Context()
	if err := m.Bind(ctx, site, "HTTPS://museum.example.org:443"); err != nil {
		t.Errorf("the same origin in another spelling: %v", err)
	}
	refused := func(source, origin, what string) {
		t.Helper()
		var wrong *WrongSourceError
		if err := m.Bind(ctx, source, origin); !errors.As(err, &wrong) || wrong.What != what {
			t.Errorf("bind to %s, %s: got %v, want another %s", source, origin, err, what)
		}
	}
	refused("http://museum.example.org/.well-known/resourcesync", "http://museum.example.org", "origin")
	for _, uri := range []string{"https://museum.example.org/.well-known/resourcesync", site} {
		if err := m.Bind(ctx, uri, home, set); err != nil {
			t.Errorf("the same origin by another URI, before it had a set that could be used: %v", err)
		}
	}
	commit(t, m, func(b destination.Batch) error { return put(b, set, "d/a", "bytes", noon) })
	if err := m.Bind(ctx, "https://museum.example.org/found-otherwise.xml", home, "https://museum.example.org/other", set); err != nil {
		t.Errorf("the same Source by another URI: %v", err)
	}
	if err := m.Bind(ctx, "https://museum.example.org/found-otherwise.xml", home, "https://museum.example.org/other"); err == nil {
		t.Error("another Source of that origin, with sets of its own: got no error")
	}
	refused("https://other.example.org/", home, "Source")
	refused(site, "http://museum.example.org", "origin")
	if err := m.Bind(ctx, site, "no origin"); err == nil {
		t.Error("bind to no origin: got no error")
	}
}

func TestAMirrorTakesNoBytesBeforeItIsBound(t *testing.T) {
	m, err := Open(t.Context(), options(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	err = tryCommit(m, nil, func(b destination.Batch) error { return put(b, set, "a", "one", noon) })
	if !errors.Is(err, ErrUnbound) {
		t.Errorf("got %v, want ErrUnbound", err)
	}
}

func TestBytesThatDifferAreNotKeptWhateverTheReaderSays(t *testing.T) {
	m := openMirror(t, options(t.TempDir()))
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "good", noon) })
	md5, err := resourcesync.ParseDigest("md5:d41d8cd98f00b204e9800998ecf8427e")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []harvest.Resource{
		wantedOfBody(home+"/a", "evil", noon),
		{URI: home + "/a", Length: resourcesync.Bytes(5), Changed: noon},
		{URI: home + "/a", Digests: resourcesync.Digests{md5}, Changed: noon},
	} {
		commit(t, m, func(b destination.Batch) error {
			if _, err := b.Put(t.Context(), set, w, strings.NewReader("torn"), true); err == nil {
				t.Errorf("%v %v: got no error", w.Length, w.Digests)
			}
			return nil
		})
	}
	wantFiles(t, m.o.Dir, map[string]string{"a": "good"})
}

func TestAllDigestsOfTheSourceAreKeptAndSHA256(t *testing.T) {
	m := openMirror(t, options(t.TempDir()))
	md5, err := resourcesync.ParseDigest("md5:d41d8cd98f00b204e9800998ecf8427e")
	if err != nil {
		t.Fatal(err)
	}
	w := harvest.Resource{URI: home + "/empty", Digests: resourcesync.Digests{md5}, Changed: noon}
	commit(t, m, func(b destination.Batch) error {
		_, err := b.Put(t.Context(), set, w, strings.NewReader(""), false)
		return err
	})
	h := lookup(t, m, set, "empty")
	if h.Digests.Get("md5") != md5 || h.Digests.Get(resourcesync.SHA256).IsZero() || !h.Verified {
		t.Errorf("held: %+v", h)
	}
}

func TestNothingGoesBack(t *testing.T) {
	m := openMirror(t, options(t.TempDir()))
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "new", noon) })
	before := noon.Add(-time.Microsecond)
	commit(t, m, func(b destination.Batch) error {
		if err := put(b, set, "a", "old", before); !errors.Is(err, destination.ErrStale) {
			t.Errorf("put: got %v, want ErrStale", err)
		}
		if err := b.Mark(t.Context(), set, wantedOfBody(home+"/a", "new", before)); !errors.Is(err, destination.ErrStale) {
			t.Errorf("mark: got %v, want ErrStale", err)
		}
		return b.Due(t.Context(), set, wantedOfBody(home+"/a", "old", before), "damaged")
	})
	h := lookup(t, m, set, "a")
	if got := h.Wanted.Digests[0]; got != h.Digests[0] || !h.Changed.Equal(noon) || !h.Wanted.Changed.Equal(noon) {
		t.Errorf("an older list made the mirror want %+v, held %+v", h.Wanted, h)
	}
	wantFiles(t, m.o.Dir, map[string]string{"a": "new"})
}

func TestAMomentThatIsStillToComeIsNoBar(t *testing.T) {
	m := openMirror(t, options(t.TempDir()))
	years := noon.AddDate(20, 0, 0)
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "dated by a clock that was wrong", years) })
	commit(t, m, func(b destination.Batch) error { return put(b, set2, "a", "of another set", noon) })
	wantFiles(t, m.o.Dir, map[string]string{"a": "of another set"})
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "right", noon) })
	wantFiles(t, m.o.Dir, map[string]string{"a": "right"})
	if h := lookup(t, m, set, "a"); !h.Changed.Equal(noon) {
		t.Errorf("it is as of %s", h.Changed)
	}
}

func TestOfTwoSetsTheLaterStateWins(t *testing.T) {
	m := openMirror(t, options(t.TempDir()))
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "new", noon) })
	commit(t, m, func(b destination.Batch) error { return put(b, set2, "a", "old", noon.Add(-time.Hour)) })
	wantFiles(t, m.o.Dir, map[string]string{"a": "new"})
	if h := lookup(t, m, set2, "a"); !h.Member || h.Digests[0] != wantedOfBody("", "new", noon).Digests[0] {
		t.Errorf("seen from the set that is behind: %+v", h)
	}
	commit(t, m, func(b destination.Batch) error {
		if err := put(b, set, "b", "new", noon); err != nil {
			return err
		}
		return put(b, set2, "b", "old", noon.Add(-time.Hour))
	})
	commit(t, m, func(b destination.Batch) error { return put(b, set2, "a", "newest", noon.Add(time.Hour)) })
	wantFiles(t, m.o.Dir, map[string]string{"a": "newest", "b": "new"})
}

func TestMarkRefusesBytesThatAreNotRight(t *testing.T) {
	m := openMirror(t, options(t.TempDir()))
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "one", noon) })
	commit(t, m, func(b destination.Batch) error {
		if err := b.Mark(t.Context(), set, wantedOfBody(home+"/a", "two", noon)); err == nil {
			t.Error("got no error")
		}
		return nil
	})
}

func TestDamagedContentIsNotOfferedForCopies(t *testing.T) {
	m := openMirror(t, options(t.TempDir()))
	w := wantedOfBody(home+"/a", "one", noon)
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "one", noon) })
	if err := os.WriteFile(filepath.Join(m.o.Dir, "a"), []byte("0ne"), 0o600); err != nil {
		t.Fatal(err)
	}
	commit(t, m, func(b destination.Batch) error {
		if _, err := b.Copy(t.Context(), set, wantedOfBody(home+"/b", "one", noon), w.URI); err == nil {
			t.Error("copy of damaged bytes: got no error")
		}
		return b.Due(t.Context(), set, w, "damaged")
	})
	if _, ok, err := m.FindContent(t.Context(), w.Digests[0], 3); ok || err != nil {
		t.Errorf("content that is due: got %v and %v, want nothing", ok, err)
	}
	wantFiles(t, m.o.Dir, map[string]string{"a": "0ne"})
}

func TestAnOccupiedPathIsTakenWhenItIsFree(t *testing.T) {
	dir := t.TempDir()
	m := openMirror(t, options(dir))
	write(t, dir, "a", "theirs")
	for range 2 {
		commit(t, m, func(b destination.Batch) error {
			if err := put(b, set, "a", "ours", noon); !errors.Is(err, destination.ErrOccupied) || !strings.Contains(err.Error(), `"a"`) {
				t.Errorf("got %v, want ErrOccupied and the path", err)
			}
			return b.Due(t.Context(), set, wantedOfBody(home+"/a", "ours", noon), "occupied")
		})
		wantFiles(t, dir, map[string]string{"a": "theirs"})
	}
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	commit(t, m, func(b destination.Batch) error { return put(b, set, "a", "ours", noon) })
	wantFiles(t, dir, map[string]string{"a": "ours"})
}

// A file that comes between Put and Commit fails the batch, and survives it.
func TestAFileThatComesInBetweenIsNotReplaced(t *testing.T) {
	for _, known := range []bool{false, true} {
		dir := t.TempDir()
		m := openMirror(t, options(dir))
		if known {
			commit(t, m, func(b destination.Batch) error {
				return b.Due(t.Context(), set, wantedOfBody(home+"/a", "ours", noon), "not found")
			})
		}
		err := tryCommit(m, nil, func(b destination.Batch) error {
			err := put(b, set, "a", "ours", noon)
			write(t, dir, "a", "theirs")
			return err
		})
		files := map[string]string{"a": "theirs"}
		if known && !errors.Is(err, destination.ErrOccupied) {
			t.Errorf("got %v, want ErrOccupied", err)
		}
		if !known { // the URI has no path yet: it gets another one
			if err != nil {
				t.Error(err)
			}
			files["a"+segment{most: maxName, text: home + "/a"}.name(1)] = "ours"
		}
		wantFiles(t, dir, files)
	}
}

// TestCat_DEL_03: only the exact hash of a plan that was withheld lets it pass, and
// only for a day.
func TestCat_DEL_03(t *testing.T) {
	now := noon
	o := options(t.TempDir())
	o.Now = func() time.Time { return now }
	m := openMirror(t, o)
	ctx := t.Context()
	const hash = "0123456789abcdef0123456789abcdef"
	if err := m.Withhold(ctx, set, hash, "9 of 10 would go"); err != nil {
		t.Fatal(err)
	}
	for _, forged := range []string{"", hash[:31], hash + "0", strings.ToUpper(hash), " " + hash, "1" + hash[1:], "%", "' OR 1=1 --"} {
		if _, _, err := m.Approve(ctx, forged); !errors.Is(err, catalog.ErrUnknownPlan) {
			t.Errorf("approve %q: got %v, want ErrUnknownPlan", forged, err)
		}
	}
	approved := func(hash string) bool {
		ok, err := m.Approved(ctx, hash)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if approved(hash) {
		t.Error("approved before anybody did")
	}
	what, until, err := m.Approve(ctx, hash)
	if err != nil || what != "9 of 10 would go" || !until.Equal(noon.Add(24*time.Hour)) {
		t.Errorf("approve: got %q until %v and %v", what, until, err)
	}
	if err := m.Withhold(ctx, set, hash, "9 of 10 would go"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {24*time.Hour - 1000, true}, {24 * time.Hour, false}, {-time.Hour, false}} {
		now = noon.Add(c.after)
		if got := approved(hash); got != c.want {
			t.Errorf("approved %v later: got %v, want %v", c.after, got, c.want)
		}
	}
	if now = noon; approved("1"+hash[1:]) || approved("") {
		t.Error("another plan passes")
	}
	now = noon.Add(31 * 24 * time.Hour)
	if err := m.Withhold(ctx, set, "another", "x"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Approve(ctx, hash); !errors.Is(err, catalog.ErrUnknownPlan) {
		t.Errorf("approve a plan of a month ago: got %v, want ErrUnknownPlan", err)
	}
}

// TestCat_DEL_06: what is deleted or replaced stays in the trash, byte for byte,
// until it is purged.
func TestCat_DEL_06(t *testing.T) {
	now := noon
	o := options(t.TempDir())
	o.Now = func() time.Time { return now }
	m := openMirror(t, o)
	commit(t, m, func(b destination.Batch) error {
		return putAll(b, map[string]string{"d/a": "one", "d/b": "two", "c": "three"})
	})
	commit(t, m, func(b destination.Batch) error {
		if err := put(b, set, "c", "four", noon); err != nil {
			return err
		}
		return b.Delete(t.Context(), set, home+"/d/a", time.Time{})
	})
	now = noon.AddDate(0, 0, 1)
	commit(t, m, func(b destination.Batch) error { return put(b, set, "c", "five", noon) })
	commit(t, m, func(b destination.Batch) error { return put(b, set, "c", "six", noon) })
	wantTrash := func(want map[string]string) {
		t.Helper()
		got := filesIn(t, m.o.Dir, func(path string) bool { return !strings.HasPrefix(path, trashKey+"/") })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("trash (-want +got):\n%s", diff)
		}
	}
	second := map[string]string{
		".instep/trash/2026-05-02/120000-1/c": "four",
		".instep/trash/2026-05-02/120000-2/c": "five",
	}
	first := map[string]string{
		".instep/trash/2026-05-01/120000-1/c":   "three",
		".instep/trash/2026-05-01/120000-1/d/a": "one",
	}
	for k, v := range second {
		first[k] = v
	}
	wantTrash(first)
	for _, c := range []struct {
		now  time.Time
		want map[string]string
	}{{noon, first}, {noon.AddDate(0, 0, 1), second}, {noon.AddDate(0, 0, 2), map[string]string{}}} {
		purge(t, m, c.now, 0)
		wantTrash(c.want)
	}
	wantFiles(t, m.o.Dir, map[string]string{"d/b": "two", "c": "six"})
}

func TestPurgingTakesNothingThatIsNotOfADay(t *testing.T) {
	m := openMirror(t, options(t.TempDir()))
	m.o.Now = func() time.Time { return noon }
	for _, path := range []string{"2020-01-01/120000-1/a", "2020-01-01x/a", "notes/a", "0000"} {
		path = filepath.Join(m.o.Dir, trashKey, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	purge(t, m, noon, 0)
	got := filesIn(t, m.o.Dir, func(path string) bool { return !strings.HasPrefix(path, trashKey+"/") })
	want := map[string]string{trashKey + "/2020-01-01x/a": "x", trashKey + "/notes/a": "x", trashKey + "/0000": "x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("trash (-want +got):\n%s", diff)
	}
}

func TestACancelledPutKeepsNothing(t *testing.T) {
	m := openMirror(t, options(t.TempDir()))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	b, err := m.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Discard()
	r := readerFunc(func(p []byte) (int, error) {
		cancel(why)
		return len(p), nil
	})
	w := harvest.Resource{URI: home + "/endless", Changed: noon}
	if _, err := b.Put(ctx, set, w, r, false); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if err := b.Commit(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, m.o.Dir, map[string]string{})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A resource has the name that a directory had, once nothing is in that any more.
func TestAResourceHasTheNameThatADirectoryHad(t *testing.T) {
	dir := t.TempDir()
	m := openMirror(t, options(dir))
	remove := func(name string) {
		t.Helper()
		commit(t, m, func(b destination.Batch) error { return b.Delete(t.Context(), set, home+"/"+name, time.Time{}) })
	}
	for i, name := range []string{"a/b/c", "a/b", "a"} {
		commit(t, m, func(b destination.Batch) error { return put(b, set, name, "bytes", noon.AddDate(0, 0, i)) })
		wantFiles(t, dir, map[string]string{name: "bytes"})
		remove(name)
	}
}

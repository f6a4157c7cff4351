package versions_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"instep/blob"
	"instep/internal/versions"
	"instep/resourcesync"
)

const uri = "one.txt"

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func openStore(t *testing.T) (*versions.Store, *blob.Mem) {
	t.Helper()
	bucket := blob.NewMem()
	s, err := versions.Open(t.Context(), t.TempDir(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, bucket
}

func sumOf(t *testing.T, text string) resourcesync.Digest {
	t.Helper()
	sum := sha256.Sum256([]byte(text))
	d, err := resourcesync.NewDigest(resourcesync.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// state is the resource at a path with a text since a moment; "" is a deletion.
func state(t *testing.T, name, text string, since time.Time) versions.State {
	t.Helper()
	if text == "" {
		return versions.State{Version: versions.Version{Path: name, Since: since, Deleted: true}}
	}
	return versions.State{
		Version: versions.Version{Path: name, Since: since, SHA256: sumOf(t, text), Length: int64(len(text)), Type: "text/plain"},
		Open:    func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil },
	}
}

func keep(t *testing.T, s *versions.Store, states ...versions.State) {
	t.Helper()
	if lost, err := s.Keep(t.Context(), states); err != nil || len(lost) > 0 {
		t.Fatalf("lost %+v, %v", lost, err)
	}
}

func listed(t *testing.T, s *versions.Store, name string) (all []versions.Version) {
	t.Helper()
	for v, err := range s.List(t.Context(), name) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func TestEachStateIsKeptAndItsBytesOnce(t *testing.T) {
	s, bucket := openStore(t)
	keep(t, s,
		state(t, uri, "a", start), state(t, uri, "b", start.Add(time.Hour)),
		state(t, uri, "", start.Add(2*time.Hour)), state(t, uri, "a", start.Add(3*time.Hour)))
	keep(t, s, state(t, uri, "b", start.Add(time.Hour)))         // again, as after a crash
	keep(t, s, state(t, uri, "a", start.Add(4*time.Hour)))       // goes on as it is
	keep(t, s, state(t, uri+"2", "a", start.Add(5*time.Minute))) // the same bytes elsewhere

	got := listed(t, s, uri)
	if len(got) != 4 || !got[2].Deleted || got[3].SHA256 != sumOf(t, "a") || !got[3].Since.Equal(start.Add(3*time.Hour)) {
		t.Errorf("kept are %+v", got)
	}
	objects := 0
	for _, err := range bucket.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		objects++
	}
	if objects != 2 {
		t.Errorf("the bucket has %d objects, want 2", objects)
	}
	body, err := s.Open(t.Context(), sumOf(t, "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if text, err := io.ReadAll(body); string(text) != "b" || err != nil {
		t.Errorf("read %q, %v", text, err)
	}
}

func TestAtIsTheStateOfAModelAtRandomInstants(t *testing.T) {
	s, _ := openStore(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	var model []versions.Version
	at := start
	for range 200 {
		at = at.Add(time.Duration(1+rnd.IntN(3600_000_000)) * time.Microsecond)
		text := fmt.Sprint(rnd.IntN(4))
		if text == "0" {
			text = ""
		}
		st := state(t, uri, text, at)
		keep(t, s, st)
		if n := len(model); n == 0 && !st.Deleted || n > 0 && model[n-1].SHA256 != st.SHA256 {
			model = append(model, st.Version)
		}
	}
	for range 1000 {
		instant := start.Add(time.Duration(rnd.Int64N(int64(at.Sub(start) + time.Hour))))
		i, found := slices.BinarySearchFunc(model, instant, func(v versions.Version, t time.Time) int { return v.Since.Compare(t) })
		if !found {
			i--
		}
		got, err := s.At(t.Context(), uri, instant)
		if i < 0 {
			if !errors.Is(err, versions.ErrNoVersion) {
				t.Errorf("before the first state: %+v, %v", got, err)
			}
			continue
		}
		if err != nil || got != model[i] {
			t.Fatalf("at %s: %+v, %v, want %+v", instant, got, err, model[i])
		}
	}
}

func TestKeepLeavesOutWhatHasOtherBytesOrNone(t *testing.T) {
	s, _ := openStore(t)
	other, gone := state(t, uri, "abc", start), state(t, uri+"3", "def", start)
	other.Open = func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("xyz")), nil }
	gone.Open = func(context.Context) (io.ReadCloser, error) { return nil, fs.ErrNotExist }
	lost, err := s.Keep(t.Context(), []versions.State{other, state(t, uri+"2", "ok", start), gone})
	if err != nil || len(lost) != 2 {
		t.Errorf("lost %+v, %v", lost, err)
	}
	if got := append(listed(t, s, uri), listed(t, s, uri+"3")...); len(got) != 0 {
		t.Errorf("kept are %+v", got)
	}
	if got := listed(t, s, uri+"2"); len(got) != 1 {
		t.Errorf("beside them are kept %+v", got)
	}
	if _, err := s.Open(t.Context(), other.SHA256); !errors.Is(err, versions.ErrNoVersion) {
		t.Errorf("opening what was refused: %v", err)
	}
}

func TestOpenNoticesBytesThatChanged(t *testing.T) {
	s, bucket := openStore(t)
	keep(t, s, state(t, uri, "abc", start))
	batch, err := bucket.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o, err := batch.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(o, "xyz")
	if err := cmp.Or(err, o.Close()); err != nil {
		t.Fatal(err)
	}
	batch.Put(o, blob.Put{Key: versions.Key(sumOf(t, "abc"))})
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	body, err := s.Open(t.Context(), sumOf(t, "abc"))
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	_, err = io.Copy(new(bytes.Buffer), body)
	if _, ok := errors.AsType[*resourcesync.MismatchError](err); !ok {
		t.Errorf("error is %v", err)
	}
}

func TestExpireForgetsWhatEndedAndKeepsSharedBytes(t *testing.T) {
	s, bucket := openStore(t)
	placed := blob.NewMem()
	states := []versions.State{
		state(t, uri, "a", start), state(t, uri, "b", start.Add(time.Hour)), state(t, uri, "c", start.Add(2*time.Hour)),
		state(t, uri+"2", "a", start),
	}
	keep(t, s, states...)
	all := make([]versions.Version, len(states))
	for i := range states {
		all[i] = states[i].Version
	}
	if err := s.Place(t.Context(), placed, all); err != nil {
		t.Fatal(err)
	}
	has := func(b blob.Bucket, key string) bool {
		_, err := b.Stat(t.Context(), key)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil
	}
	if err := s.Expire(t.Context(), placed, start.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, s, uri); len(got) != 2 || got[0].SHA256 != sumOf(t, "b") {
		t.Errorf("kept are %+v", got)
	}
	if has(placed, all[0].Place()) || !has(placed, all[1].Place()) || !has(placed, all[3].Place()) {
		t.Error("the files are not those of the states that are kept")
	}
	if !has(bucket, versions.Key(sumOf(t, "a"))) {
		t.Error("bytes that another resource has are gone")
	}
	if err := s.Expire(t.Context(), placed, start.Add(3*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if has(bucket, versions.Key(sumOf(t, "b"))) || len(listed(t, s, uri)) != 1 {
		t.Error("a state that ended is still kept")
	}
}

func TestAReaderSeesWhatIsKeptBesideIt(t *testing.T) {
	state1, bucket := t.TempDir(), blob.NewMem()
	if _, err := versions.OpenReadOnly(t.Context(), state1, bucket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a store: %v", err)
	}
	w, err := versions.Open(t.Context(), state1, bucket)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r, err := versions.OpenReadOnly(t.Context(), state1, bucket)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	keep(t, w, state(t, uri, "a", start))
	if got := listed(t, r, uri); len(got) != 1 {
		t.Errorf("the reader sees %+v", got)
	}
	if _, err := r.Keep(t.Context(), []versions.State{state(t, uri, "b", start.Add(time.Hour))}); err == nil {
		t.Error("a store opened for reading was written")
	}
	if err := w.SetThrough(t.Context(), "", 7); err != nil {
		t.Fatal(err)
	}
	if n, ok, err := r.Through(t.Context(), ""); n != 7 || !ok || err != nil {
		t.Errorf("through %d, %t, %v", n, ok, err)
	}
}

// TestPlaceSharesTheBytes: the files of all versions are hard links to the bytes of the store,
// or copies where the buckets share no file system.
func TestPlaceSharesTheBytes(t *testing.T) {
	for _, test := range []struct {
		name   string
		shared bool
	}{{"hard links", true}, {"copies", false}} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			from, err := blob.OpenDir(t.TempDir(), blob.DirOptions{FileMode: 0o644})
			if err != nil {
				t.Fatal(err)
			}
			defer from.Close()
			var bytes blob.Bucket = from
			if !test.shared {
				bytes = blob.NewMem()
			}
			s, err := versions.Open(t.Context(), t.TempDir(), bytes)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			to, err := blob.OpenDir(dir, blob.DirOptions{FileMode: 0o644})
			if err != nil {
				t.Fatal(err)
			}
			defer to.Close()
			first, second := state(t, "a/one.txt", "x", start), state(t, "two.txt", "x", start.Add(time.Second))
			keep(t, s, first, second)
			all := []versions.Version{first.Version, second.Version, state(t, "never.txt", "y", start).Version}
			for range 2 { // the second time changes nothing
				if err := s.Place(t.Context(), to, all); err != nil {
					t.Fatal(err)
				}
			}
			one, err := os.Stat(filepath.Join(dir, "resourcesync/versions/20260101000000.000000/a/one.txt"))
			if err != nil {
				t.Fatal(err)
			}
			two, err := os.Stat(filepath.Join(dir, "resourcesync/versions/20260101000001.000000/two.txt"))
			if err != nil {
				t.Fatal(err)
			}
			if got := os.SameFile(one, two); got != test.shared {
				t.Errorf("the files share their bytes: %t, want %t", got, test.shared)
			}
			if _, err := to.Stat(t.Context(), all[2].Place()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a file of a state that is not kept: %v", err)
			}
		})
	}
}

// TestAStateWithoutAPlaceIsNotKept: a URI can be above another one, which files cannot.
func TestAStateWithoutAPlaceIsNotKept(t *testing.T) {
	s, _ := openStore(t)
	to, err := blob.OpenDir(t.TempDir(), blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	above, below, other := state(t, "a", "1", start), state(t, "a/b", "2", start), state(t, "c", "3", start)
	keep(t, s, above, below, other)
	if err := s.Place(t.Context(), to, []versions.Version{above.Version, below.Version, other.Version}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"a": 1, "a/b": 0, "c": 1} {
		if got := listed(t, s, path); len(got) != want {
			t.Errorf("of %q are kept %+v, want %d", path, got, want)
		}
	}
	if _, err := to.Stat(t.Context(), other.Place()); err != nil {
		t.Error(err)
	}
}

func TestPlacesAreParsedBack(t *testing.T) {
	v := versions.Version{Path: "a b/ü.txt", Since: start.Add(1234567 * time.Microsecond)}
	if since, name, ok := versions.ParsePlace(v.Place()); !ok || name != v.Path || !since.Equal(v.Since) {
		t.Errorf("%q is %s, %q, %t", v.Place(), since, name, ok)
	}
	for _, place := range []string{"", "x", "resourcesync/versions/", "resourcesync/versions/20260101000000.000000/", "resourcesync/versions/20261301000000.000000/a", "resourcesync/versions/1/a", "resourcesync/versions/20260101000000.000/a"} {
		if _, _, ok := versions.ParsePlace(place); ok {
			t.Errorf("%q is the place of a version", place)
		}
	}
}

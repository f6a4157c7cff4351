package mirror

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/resourcesync"
)

// The moments that a Source can tell of a resource.
var (
	served = time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	listed = time.Date(2019, 2, 3, 4, 5, 6, 0, time.UTC)
)

func modTimeOf(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime().UTC()
}

func TestAFileHasTheTimeOfTheSource(t *testing.T) {
	for _, c := range []struct {
		name           string
		served, listed time.Time
		want           time.Time
	}{
		{"Last-Modified", served, listed, served},
		{"lastmod", time.Time{}, listed, listed},
		{"the future", noon.AddDate(1, 0, 0), listed, noon},
		{"before 1970", time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}, time.Time{}},
		{"none", time.Time{}, time.Time{}, time.Time{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			m := openMirror(t, options(dir))
			before := time.Now().Add(-time.Minute)
			commit(t, m, func(b destination.Batch) error {
				w := wantedOfBody(home+"/a", "body", noon)
				w.Modified = c.served
				if !c.listed.IsZero() {
					w.LastMod = resourcesync.DatetimeOf(c.listed)
				}
				_, err := b.Put(t.Context(), set, w, strings.NewReader("body"), true)
				return err
			})
			switch got := modTimeOf(t, filepath.Join(dir, "a")); {
			case c.want.IsZero() && got.Before(before):
				t.Errorf("got %v, want when it was written", got)
			case !c.want.IsZero() && !got.Equal(c.want):
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// Whatever way the bytes come, and however they return, the file has the Source's time, and
// is known to be untouched until somebody writes to it.
func TestTimesOfWhatIsCopiedAdoptedAndRestored(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "adopted", "adopted")
	o := adopting(dir)
	o.Now = time.Now
	m := openMirror(t, o)
	ctx, lastmod := t.Context(), resourcesync.DatetimeOf(listed)
	commit(t, m, func(b destination.Batch) error {
		w := wantedOfBody(home+"/put", "body", noon)
		w.Modified = served
		if _, err := b.Put(ctx, set, w, strings.NewReader("body"), true); err != nil {
			return err
		}
		w = wantedOfBody(home+"/adopted", "adopted", noon)
		w.LastMod = lastmod
		if _, err := b.Adopt(ctx, set, w, "adopted"); err != nil {
			return err
		}
		p := begin(t, m, "part", "part")
		w = wantedOfBody(home+"/part", "part", noon)
		w.Modified = served
		_, err := b.PutPart(ctx, set, w, p, true)
		return err
	})
	commit(t, m, func(b destination.Batch) error {
		w := wantedOfBody(home+"/copied", "body", noon)
		w.LastMod = lastmod
		_, err := b.Copy(ctx, set, w, home+"/put")
		return err
	})
	for name, want := range map[string]time.Time{"put": served, "adopted": listed, "part": served, "copied": listed} {
		wantTime(t, m, name, want)
	}
	commit(t, m, func(b destination.Batch) error {
		w := wantedOfBody(home+"/put", "newer", noon.AddDate(0, 0, 1))
		_, err := b.Put(ctx, set, w, strings.NewReader("newer"), true)
		return err
	})
	var old Version // the last one that is told of
	for v, err := range m.History(ctx, home+"/put") {
		if err != nil {
			t.Fatal(err)
		}
		old = v
	}
	steps := func(yield func(Reversal, error) bool) { yield(Reversal{Version: old}, nil) }
	if err := m.Revert(ctx, steps, RevertOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := bodyOf(t, m, home+"/put"); got != "body" {
		t.Fatalf("restored: got %q", got)
	}
	wantTime(t, m, "put", served)
	f, err := os.OpenFile(filepath.Join(dir, "put"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(f, "BODY")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	h := lookup(t, m, set, "put")
	if same, looked := m.Untouched(ctx, &h); same || err != nil || looked != nil {
		t.Errorf("a file that was written to: untouched %v, %v, %v", same, err, looked)
	}
	// So does one that another run has given an earlier time.
	for at, want := range map[time.Time]bool{served: true, listed: false, served.Add(time.Second): false, served.Add(-time.Second): true} {
		if err := os.Chtimes(filepath.Join(dir, "put"), at, at); err != nil {
			t.Fatal(err)
		}
		if same, err := m.Untouched(ctx, &h); same != want || err != nil {
			t.Errorf("a file of %v: untouched %v, %v", at, same, err)
		}
	}
}

func wantTime(t *testing.T, m *Mirror, name string, want time.Time) {
	t.Helper()
	h := lookup(t, m, set, name)
	if got := modTimeOf(t, filepath.Join(m.o.Dir, h.Path)); !got.Equal(want) {
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
	if same, err := m.Untouched(t.Context(), &h); !same || err != nil {
		t.Errorf("%s: untouched %v, %v", name, same, err)
	}
}

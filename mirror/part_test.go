package mirror

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/destination"
	"instep/transfer"
)

// begin writes the beginning of something and makes a checkpoint.
func begin(t *testing.T, m *Mirror, name, body string) transfer.Part {
	t.Helper()
	p, err := m.Part(t.Context(), name)
	if err == nil {
		_, err = p.Write([]byte(body))
	}
	if err == nil {
		err = p.Checkpoint(t.Context(), "note of "+name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func partFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, partsKey)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return filesIn(t, filepath.Join(dir, partsKey), func(path string) bool { return strings.HasSuffix(path, noteSuffix) })
}

// A part outlives the run that wrote it for a week. What no later run could go on
// from does not.
func TestPartsAreKeptForAWeek(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	m := openMirror(t, o)
	kept := begin(t, m, "kept", "the beginning")
	if _, err := kept.Write([]byte("not covered")); err != nil {
		t.Fatal(err)
	}
	bare, err := m.Part(t.Context(), "never covered by a checkpoint")
	if err == nil {
		_, err = bare.Write([]byte("bytes"))
	}
	if err := errors.Join(err, bare.Close()); err != nil {
		t.Fatal(err)
	}
	cut := begin(t, m, "cut behind our back", "all of it")
	if err := errors.Join(kept.Close(), cut.Close(), m.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, partKey("cut behind our back")), 3); err != nil {
		t.Fatal(err)
	}
	write(t, dir, partsKey+"/somebody's", "file")
	write(t, dir, partKey("no bytes")+noteSuffix, `{"name":"no bytes","at":0}`)

	o.Now = func() time.Time { return noon.Add(partAge) }
	m = openMirror(t, o)
	if diff := cmp.Diff(map[string]string{filepath.Base(partKey("kept")): "the beginningnot covered"}, partFiles(t, dir)); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	if n, bytes, err := m.PartsKept(t.Context()); n != 1 || bytes != 24 || err != nil {
		t.Errorf("kept: got %d, %d bytes, %v", n, bytes, err)
	}
	p, err := m.Part(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	if note, at := p.Note(); note != "note of kept" || at != 13 {
		t.Errorf("note: got %q at %d", note, at)
	}
	if err := errors.Join(p.Close(), m.Close()); err != nil {
		t.Fatal(err)
	}
	o.Now = func() time.Time { return noon.Add(partAge + time.Second) }
	m = openMirror(t, o)
	if left := partFiles(t, dir); len(left) > 0 {
		t.Errorf("after more than a week: %q", left)
	}
	if n, _, err := m.PartsKept(t.Context()); n != 0 || err != nil {
		t.Errorf("kept: got %d, %v", n, err)
	}
}

// A note that is not that of the bytes beside it says nothing.
func TestANoteOfOtherBytesIsDropped(t *testing.T) {
	for name, note := range map[string]string{
		"garbage":       "garbage",
		"of more bytes": `{"name":"big","at":14,"note":"n","made":"2026-05-01T12:00:00Z"}`,
		"of less than":  `{"name":"big","at":-1,"note":"n","made":"2026-05-01T12:00:00Z"}`,
		"of another":    `{"name":"other","at":3,"note":"n","made":"2026-05-01T12:00:00Z"}`,
		"too long":      `{"name":"big","at":3,"note":"` + strings.Repeat("n", maxNote) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m := openMirror(t, options(dir))
			if err := begin(t, m, "big", "the beginning").Close(); err != nil {
				t.Fatal(err)
			}
			write(t, dir, partKey("big")+noteSuffix, note)
			p, err := m.Part(t.Context(), "big")
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if note, at := p.Note(); note != "" || at != 0 || p.Size() != 13 {
				t.Errorf("got the note %q at %d of %d bytes, want none", note, at, p.Size())
			}
			if _, err := os.Stat(filepath.Join(dir, partKey("big")+noteSuffix)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the note is still there: %v", err)
			}
		})
	}
}

// TestCat_STO_03_part: nothing is written or read through what was planted among the parts.
func TestCat_STO_03_part(t *testing.T) {
	for _, c := range []struct{ name, at string }{
		{"the bytes", partKey("big")}, {"the note", partKey("big") + noteSuffix}, {"the directory", partsKey},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, outside := t.TempDir(), t.TempDir()
			write(t, outside, "precious", "outside")
			m := openMirror(t, options(dir))
			commit(t, m, func(b destination.Batch) error { return put(b, set, "held", "held", noon) })
			at := filepath.Join(dir, c.at)
			if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
				t.Fatal(err)
			}
			for _, target := range []string{filepath.Join(outside, "precious"), outside, filepath.Join(dir, "held"), "../held"} {
				if err := os.Symlink(target, at); err != nil {
					t.Fatal(err)
				}
				p, err := m.Part(t.Context(), "big")
				if err == nil {
					_, wrote := p.Write([]byte("evil"))
					err = errors.Join(wrote, p.Checkpoint(t.Context(), "evil"))
					_ = p.Discard()
				}
				if err == nil {
					t.Errorf("a link to %q: got no error", target)
				}
				if err := os.Remove(at); err != nil {
					t.Fatalf("the link to %q is gone: %v", target, err)
				}
			}
			wantFiles(t, dir, map[string]string{"held": "held"})
			if diff := cmp.Diff(map[string]string{"precious": "outside"}, filesIn(t, outside, func(string) bool { return false })); diff != "" {
				t.Errorf("outside the mirror (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPartsNeedAMirrorThatIsWrittenTo(t *testing.T) {
	dir := t.TempDir()
	if err := openMirror(t, options(dir)).Close(); err != nil {
		t.Fatal(err)
	}
	m, err := OpenReadOnly(t.Context(), options(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Part(t.Context(), "big"); !errors.Is(err, ErrReadOnly) {
		t.Errorf("got %v, want ErrReadOnly", err)
	}
}

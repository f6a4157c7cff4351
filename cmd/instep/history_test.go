//go:build unix

package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"instep/mirror"
)

// library is a Source of n books, mirrored.
func library(t *testing.T, n int) (l *liar, mirror string) {
	l, mirror = newLiar(t), filepath.Join(t.TempDir(), "mirror")
	for i := range n {
		l.offer(fmt.Sprintf("/shelf%d/%d.%s", i%3, i, []string{"txt", "pdf"}[i%2]), fmt.Sprint("book ", i))
	}
	mustDo(t, "sync", l.URL+"/capabilitylist.xml", mirror)
	return l, mirror
}

// ransom replaces the first n books.
func (l *liar) ransom(at string, n int) {
	l.later(at, func() {
		for i, e := range l.listed[:n] {
			path := strings.TrimPrefix(e[strings.Index(e, "<loc>")+5:strings.Index(e, "</loc>")], l.URL)
			l.bodies[path] = "pay, or never read " + path
			l.listed[i] = entry(l.URL+path, l.bodies[path])
		}
	})
}

// TestCat_DEL_07: whatever choice of resources is made, what it leaves out is not deleted.
func TestCat_DEL_07(t *testing.T) {
	l, mirror := library(t, 12)
	was := listTree(mirror)
	n := 0
	for _, include := range []string{"", "--include=**/*.txt", "--include=none"} {
		for _, exclude := range []string{"", "--exclude=shelf1/*", "--exclude=**"} {
			for _, more := range []string{"", "--type=image/png", "--strict", "--allow-origin=https://other.example.org", "--keep-deleted"} {
				flags := slices.DeleteFunc([]string{include, exclude, more}, func(s string) bool { return s == "" })
				o := mustDo(t, append([]string{"sync", l.URL + "/capabilitylist.xml", mirror}, flags...)...)
				if o.Deleted == nil || *o.Deleted != 0 || o.Withheld != nil {
					t.Errorf("%q: the summary is %+v", flags, o.summary)
				}
				n++
			}
		}
	}
	if diff := cmp.Diff(was, listTree(mirror)); diff != "" {
		t.Errorf("files after %d choices (-before +after):\n%s", n, diff)
	}
}

// TestCat_DEL_08: a Source that replaces more than half of a set raises an alarm, which
// says how to take that back, and every old byte returns.
func TestCat_DEL_08(t *testing.T) {
	for _, c := range []struct {
		books, replaced int
		alarm           bool
	}{{40, 40, true}, {40, 21, true}, {40, 20, false}, {6, 4, true}, {5, 5, false}} {
		t.Run(fmt.Sprint(c.replaced, " of ", c.books), func(t *testing.T) {
			l, mirror := library(t, c.books)
			old := filepath.Join(t.TempDir(), "old")
			copyTree(t, mirror, old)
			l.ransom("2026-03-02T12:00:00Z", c.replaced)
			o := mustDo(t, "sync", l.URL+"/capabilitylist.xml", mirror)
			hint := ""
			for _, r := range o.records {
				if _, command, ok := strings.Cut(r.Hint, "instep undo "); ok {
					hint = command
				}
			}
			if alarm := hint != ""; alarm != c.alarm {
				t.Fatalf("alarm: got %v, want %v", alarm, c.alarm)
			}
			if diff := compareTrees(old, mirror); len(diff) != c.replaced {
				t.Errorf("%d files were replaced, want %d", len(diff), c.replaced)
			}
			if !c.alarm {
				return
			}
			mustDo(t, append([]string{"undo"}, strings.Fields(hint)...)...)
			if diff := compareTrees(old, mirror); len(diff) > 0 {
				t.Errorf("not as before: %q", diff)
			}
		})
	}
}

func TestExportedTextIsNoFormulaAndNotLost(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching("[=+@\t\r\n'-].*")).Draw(r, "text")
		got := exportCell(text)
		if got != "" && strings.ContainsRune("=+-@\t\r\n", rune(got[0])) {
			t.Errorf("%q is written as %q", text, got)
		}
		if strings.TrimPrefix(got, "'") != text {
			t.Errorf("%q is written as %q: a first apostrophe gone, that is another text", text, got)
		}
	})
}

// An export has a row for each resource, as it is in the mirror.
func TestExportHasWhatIsHeld(t *testing.T) {
	l, mirror := library(t, 7)
	cmd := command(t, "export", mirror)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(rows) != 8 || !slices.Equal(rows[0], exportColumns) {
		t.Fatalf("got %d rows and %v", len(rows), err)
	}
	paths := map[string]bool{}
	for _, row := range rows[1:] {
		paths[row[2]] = true
		if row[0] != l.URL+"/capabilitylist.xml" || row[1] != l.URL+"/"+row[2] || row[3] != "6" || row[8] != "true" {
			t.Errorf("row %q", row)
		}
	}
	if diff := cmp.Diff(listTree(mirror), paths); diff != "" {
		t.Errorf("paths (-files +export):\n%s", diff)
	}
}

// A run whose earlier states were purged can't be taken back as a whole, and that is told.
func TestUndoingAForgottenRunIsPartial(t *testing.T) {
	l, dir := library(t, 12)
	l.ransom("2026-03-02T12:00:00Z", 8)
	mustDo(t, "sync", l.URL+"/capabilitylist.xml", dir)
	m, err := mirror.Open(t.Context(), mirror.Options{Dir: dir, Now: func() time.Time { return time.Now().AddDate(0, 0, 2) }})
	if err != nil {
		t.Fatal(err)
	}
	begin := func() error { return m.BeginRun(t.Context(), "sync", 0) }
	if err := errors.Join(begin(), begin(), m.PurgeTrash(t.Context(), 0), m.Close()); err != nil {
		t.Fatal(err)
	}
	for _, dry := range [][]string{{"-n"}, nil} {
		o := instep(t, append([]string{"undo", dir, "2"}, dry...)...)
		if told := slices.ContainsFunc(o.records, func(r record) bool { return strings.Contains(r.Message, "no longer kept") }); o.code != exitPartial || !told {
			t.Errorf("%q: exit code %d, want %d; told: %v", dry, o.code, exitPartial, told)
		}
	}
}

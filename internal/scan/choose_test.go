package scan

import (
	"strings"
	"testing"
)

// TestAssumedUnchangedStays: what AssumeUnchanged matches is not looked at, and nothing of
// it is deleted; elsewhere changes and deletions are recorded as ever.
func TestAssumedUnchangedStays(t *testing.T) {
	f := setUp(t, "a", "secret/b", "secret/d/c", "x", "y")
	f.scan()
	f.remove("secret/b")
	f.remove("x")
	f.write("secret/new", "new")
	f.write("secret/d/c", "other bytes")
	f.write("a", "changed")
	f.AssumeUnchanged = []string{"secret/"}
	r := f.scan()
	expect(t, r, 0, 1, 1, 3)
	if got, want := strings.Join(f.paths(), " "), "a secret/b secret/d/c y"; got != want {
		t.Errorf("members: got %q, want %q", got, want)
	}
	if r.Excluded[Assumed] != 1 {
		t.Errorf("got %d places that were not looked at, want 1", r.Excluded[Assumed])
	}
	f.AssumeUnchanged = nil
	expect(t, f.scan(), 1, 1, 1, 2)
}

// TestLitterStaysOut: what systems and editors leave behind is no resource unless all
// files are asked for.
func TestLitterStaysOut(t *testing.T) {
	f := setUp(t, "a.txt", "a.txt~", "#b.txt#", "Thumbs.db", "d/desktop.ini", "d/~$letter.docx", "d/letter.docx", "lost+found/x")
	r := f.scan()
	if got, want := strings.Join(f.paths(), " "), "a.txt d/letter.docx"; got != want || r.Excluded[Litter] != 6 {
		t.Errorf("got %q and %d left out, want %q and 6", got, r.Excluded[Litter], want)
	}
	f.AllFiles = true
	if expect(t, f.scan(), 6, 0, 0, 2); len(f.paths()) != 8 {
		t.Errorf("all files: got %q", f.paths())
	}
}

// TestPatternsThatMatchNothingAreNamed, but only of a scan of everything.
func TestPatternsThatMatchNothingAreNamed(t *testing.T) {
	f := setUp(t, "a.txt", "d/b.png")
	f.Include, f.Exclude = []string{"*.png", "*.txt", "*.jpg"}, []string{"docs/"}
	f.Rules = []Rule{{Match: "*.png", Type: "image/png"}, {Match: "*.gif", Type: "image/gif"}}
	p := f.plan()
	same(t, "unmatched", p.Unmatched, []Unmatched{{"include", "*.jpg"}, {"exclude", "docs/"}, {"rules", "*.gif"}})
	f.Paths = []string{"a.txt"}
	if p := f.plan(); len(p.Unmatched) > 0 {
		t.Errorf("a look at one file: got %v, want none", p.Unmatched)
	}
}

// TestTwinsAreNamed: two names that people cannot tell apart.
func TestTwinsAreNamed(t *testing.T) {
	const composed, decomposed = "M\u00fcller.pdf", "Mu\u0308ller.pdf"
	f := setUp(t, composed, decomposed, "d/"+composed, "e/"+decomposed, "plain")
	if n := len(f.scanPaths(t)); n != 5 {
		t.Skipf("SKIPPED: this file system keeps one of the names only (%d files of 5)", n)
	}
	p := f.plan()
	if len(p.Twins) != 1 || p.Twins[0] != [2]string{decomposed, composed} && p.Twins[0] != [2]string{composed, decomposed} {
		t.Errorf("got %q, want the two in the root", p.Twins)
	}
}

// scanPaths scans and returns what there is.
func (f *fixture) scanPaths(t *testing.T) []string {
	t.Helper()
	f.scan()
	return f.paths()
}

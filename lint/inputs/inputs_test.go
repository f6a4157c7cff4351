package inputs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"instep/discover"
	"instep/fetch"
	"instep/lint"
	"instep/lint/inputs"
)

const (
	list = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
  <rs:ln rel="up" href="http://example.org/capabilitylist.xml"/>
  <rs:md capability="resourcelist" at="2026-01-02T03:04:05Z"/>
  <url><loc>http://example.org/a</loc><rs:md hash="md5:1584abdf8ebdc9802ac0c6a7402c03b6" length="8876" type="text/html"/></url>
</urlset>`
	plain = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>http://example.org/a</loc></url></urlset>`
)

// journal is a Reporter that writes down its calls.
type journal struct {
	lines []string
	stop  error // returned by Failed
}

func (j *journal) add(format string, args ...any) {
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) Begin(in *inputs.Input) { j.add("begin %s", filepath.Base(in.URI)) }

func (j *journal) Document(d lint.Document) error {
	j.add("document %s %s", filepath.Base(d.URI), d.Kind)
	return nil
}

func (j *journal) Failed(_ context.Context, uri string, err error) error {
	j.add("failed %s", filepath.Base(uri))
	return j.stop
}

func (j *journal) Unchecked(uri string, _ error)               { j.add("unchecked %s", uri) }
func (j *journal) Note(uri, text string)                       { j.add("note %s", text) }
func (j *journal) Found(site string, tried []discover.Attempt) { j.add("found %d", len(tried)) }

func newLinter(t *testing.T) (*inputs.Linter, *journal) {
	j := &journal{}
	l := &inputs.Linter{Report: j, Now: time.Now}
	l.Checker.Report = func(f lint.Finding) { j.add("finding %s", f.Rule) }
	l.Connect = func(_ context.Context, uri string) (*fetch.Client, error) {
		u, err := fetch.Parse(uri)
		if err != nil {
			return nil, err
		}
		return fetch.New(fetch.Options{AllowPrivate: []string{u.Host}})
	}
	t.Cleanup(l.Close)
	return l, j
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestADirectoryIsCheckedWithoutStatesAndOtherFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "resourcelist.xml"), list)
	write(t, filepath.Join(dir, "photo.jpg"), "not a document")
	write(t, filepath.Join(dir, "state", "resourcelist.xml"), list)
	write(t, filepath.Join(dir, ".hidden", "resourcelist.xml"), list)
	l, j := newLinter(t)
	l.IsState = func(path string) bool { return filepath.Base(path) == "state" }
	if err := l.Check(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"begin resourcelist.xml", "document resourcelist.xml resourcelist"}, j.lines); diff != "" {
		t.Error(diff)
	}
	if l.Checked != 1 || l.Failed != 0 {
		t.Errorf("checked %d, failed %d", l.Checked, l.Failed)
	}
	if err := l.Check(t.Context(), filepath.Join(dir, "state")); err != nil {
		t.Fatal(err)
	}
	if l.Failed != 1 {
		t.Errorf("a state directory given as argument: failed %d", l.Failed)
	}
}

func TestADirectoryWithoutDocumentsFails(t *testing.T) {
	l, j := newLinter(t)
	dir := t.TempDir()
	if err := l.Check(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if l.Failed != 1 || !slices.Contains(j.lines, "failed "+filepath.Base(dir)) {
		t.Errorf("failed %d: %q", l.Failed, j.lines)
	}
}

func TestStandardInputIsReadOnce(t *testing.T) {
	l, j := newLinter(t)
	opened := 0
	l.Open = func(_ context.Context, name string) (io.ReadCloser, error) {
		opened++
		return io.NopCloser(strings.NewReader(list)), nil
	}
	if err := l.Check(t.Context(), "-"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"begin stdin", "document stdin resourcelist"}, j.lines); diff != "" || opened != 1 {
		t.Errorf("opened %d times: %s", opened, diff)
	}
}

func TestAnErrorOfTheReporterEndsTheRun(t *testing.T) {
	l, j := newLinter(t)
	j.stop = errors.New("stop")
	if err := l.Check(t.Context(), filepath.Join(t.TempDir(), "missing.xml")); !errors.Is(err, j.stop) {
		t.Errorf("Check = %v, want %v", err, j.stop)
	}
	if l.Failed != 0 {
		t.Errorf("failed %d: a run that has ended counts nothing", l.Failed)
	}
}

func TestASiteWithoutASourceIsSourceless(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	l, j := newLinter(t)
	l.Sample = 1
	if err := l.Check(t.Context(), srv.URL+"/"); err != nil {
		t.Fatal(err)
	}
	if !l.Sourceless || l.Blocked || !l.Requested() {
		t.Errorf("sourceless %v, blocked %v, requested %v: %q", l.Sourceless, l.Blocked, l.Requested(), j.lines)
	}
}

func TestASiteThatRefusesProgramsIsBlocked(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(srv.Close)
	l, j := newLinter(t)
	l.Sample = 1
	if err := l.Check(t.Context(), srv.URL+"/"); err != nil {
		t.Fatal(err)
	}
	if !l.Blocked || l.Sourceless || l.Failed != 1 {
		t.Errorf("blocked %v, sourceless %v, failed %d: %q", l.Blocked, l.Sourceless, l.Failed, j.lines)
	}
}

func TestAPlainSitemapIsHeldAgainstItsOwnRules(t *testing.T) {
	l, j := newLinter(t)
	if err := l.Check(t.Context(), write(t, filepath.Join(t.TempDir(), "sitemap.xml"), plain)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"begin sitemap.xml", "document sitemap.xml sitemap"}, j.lines); diff != "" {
		t.Error(diff)
	}
}

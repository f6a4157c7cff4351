//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// changes offers a Change List that begins at a moment.
func (l *liar) changes(from string, entries ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bodies["/changelist.xml"] = fmt.Sprintf(liarDocument, `<rs:ln rel="up" href="`+l.URL+`/capabilitylist.xml"/><rs:md capability="changelist" from="`+from+`"/>`+strings.Join(entries, ""))
	l.bodies["/capabilitylist.xml"] = fmt.Sprintf(liarDocument, `<rs:md capability="capabilitylist"/>`+
		entryOf(l.URL+"/resourcelist.xml", "resourcelist")+entryOf(l.URL+"/changelist.xml", "changelist"))
}

// changeOf is an entry of a Change List.
func changeOf(loc, kind, when, body string) string {
	proof := ""
	if kind != "deleted" {
		proof = fmt.Sprintf(` hash="sha-256:%s" length="%d"`, sha256Of(body), len(body))
	}
	return fmt.Sprintf(`<url><loc>%s</loc><rs:md change="%s" datetime="%s"%s/></url>`, loc, kind, when, proof)
}

// Changes between the Resource List and the first Change List are unknown: each run says
// so, also a dry one, until that is accepted or a newer list is there.
func TestGapIsSaidUntilSomethingEndsIt(t *testing.T) {
	l, dir := newLiar(t), filepath.Join(t.TempDir(), "mirror")
	source := l.URL + "/capabilitylist.xml"
	l.offer("/one.txt", "one")
	l.changes("2026-03-02T00:00:00Z")
	const says = "as of 2026-03-01T12:00:00Z; changes since are unknown: "
	for _, args := range [][]string{nil, nil, {"-n"}, {"--accept-gap=false"}} {
		o := instep(t, append([]string{"sync", source, dir}, args...)...)
		mustExit(t, o, 4, says)
		told := slices.ContainsFunc(o.records, func(r record) bool {
			return r.Type == "warning" && strings.HasPrefix(r.Gap, says) && strings.Contains(r.Hint, "--accept-gap")
		})
		if !told || o.Gaps == nil || *o.Gaps != 1 {
			t.Errorf("sync %v: %+v %+v; want one set with a gap", args, o.summary, o.records)
		}
	}
	mustHold(t, filepath.Join(dir, "one.txt"), "one")
	if r := attempt(t, "report", dir); !strings.Contains(r.stdout, says) {
		t.Errorf("report: %s", r.stdout)
	}
	if o := mustDo(t, "sync", "--accept-gap", source, dir); o.Gaps != nil {
		t.Errorf("accepted, and still %d gaps", *o.Gaps)
	}
	mustExit(t, instep(t, "sync", source, dir), 4, says)
	mustDo(t, "sync", "--accept-gap", "--remember", source, dir)
	mustDo(t, "sync", source, dir)
	if r := attempt(t, "report", dir); !strings.Contains(r.stdout, "--accept-gap=true  (kept with the mirror)") {
		t.Errorf("report: %s", r.stdout)
	}
	mustExit(t, instep(t, "sync", "--accept-gap=false", "--remember", source, dir), 4, says)
	l.later("2026-03-03T12:00:00Z", func() {})
	mustDo(t, "sync", source, dir)
}

// A second list of one moment that names less deletes nothing, whatever --max-delete says,
// until that is approved.
func TestSecondListOfOneMomentDeletesAfterApproval(t *testing.T) {
	l, dir := newLiar(t), filepath.Join(t.TempDir(), "mirror")
	source := l.URL + "/capabilitylist.xml"
	for i := range 10 {
		l.offer(fmt.Sprintf("/%d.txt", i), fmt.Sprint("number ", i))
	}
	mustDo(t, "sync", source, dir)
	l.later(l.at, func() { l.listed = l.listed[1:] })
	plan := ""
	for _, args := range [][]string{nil, {"-n"}, {"--max-delete", "100%"}} {
		o := instep(t, append([]string{"sync", source, dir}, args...)...)
		mustExit(t, o, 6, "1 deletion withheld: an earlier list of the same moment named the resource")
		if i := slices.IndexFunc(o.records, func(r record) bool {
			return r.Doubted != nil && strings.Contains(r.Hint, "--max-delete does not release these deletions")
		}); i < 0 {
			t.Errorf("sync %v: %+v; want a record of what is doubted", args, o.records)
		} else {
			plan = o.records[i].Plan
		}
	}
	mustHold(t, filepath.Join(dir, "0.txt"), "number 0")
	mustDo(t, "approve", dir, plan)
	if o := mustDo(t, "sync", source, dir); *o.Deleted != 1 {
		t.Errorf("deleted %d, want what was approved", *o.Deleted)
	}
}

// A Change List whose times say that a resource exists, and whose order that it does not:
// the URI decides, if its bytes are those that somebody has told of.
func TestDisputedResourceIsSaid(t *testing.T) {
	l, dir := newLiar(t), filepath.Join(t.TempDir(), "mirror")
	source := l.URL + "/capabilitylist.xml"
	l.offer("/one.txt", "one")
	l.offer("/two.txt", "two")
	l.changes("2026-03-01T12:00:00Z")
	mustDo(t, "sync", source, dir)
	one := l.URL + "/one.txt"
	l.changes("2026-03-01T12:00:00Z", changeOf(one, "updated", "2026-03-01T14:00:00Z", "one of 14:00"), changeOf(one, "deleted", "2026-03-01T13:00:00Z", ""))
	l.later(l.at, func() { l.bodies["/one.txt"] = "something else" })
	for _, args := range [][]string{nil, {"-n"}} {
		o := instep(t, append([]string{"sync", source, dir}, args...)...)
		mustExit(t, o, 4, one+": the documents do not show which is later, its deletion or its last version")
		mustExit(t, o, 4, "1 resource left alone: described by documents that contradict each other")
	}
	mustHold(t, filepath.Join(dir, "one.txt"), "one")
	l.later(l.at, func() { l.bodies["/one.txt"] = "one of 14:00" })
	mustDo(t, "sync", source, dir)
	mustHold(t, filepath.Join(dir, "one.txt"), "one of 14:00")
}

// What was left out by a filter, and is only in a list that is older than the mirror, stays away
// and is said until a newer list comes, or the older one is accepted.
func TestLeftOutAndOnlyInAnOlderListIsSaid(t *testing.T) {
	l, dir := newLiar(t), filepath.Join(t.TempDir(), "mirror")
	source := l.URL + "/capabilitylist.xml"
	l.offer("/one.txt", "one")
	l.offer("/two.jpg", "two")
	l.changes("2026-03-01T12:00:00Z")
	mustDo(t, "sync", "--include", "*.jpg", source, dir)
	two := l.URL + "/two.jpg"
	l.changes("2026-03-01T12:00:00Z", changeOf(two, "updated", "2026-03-01T14:00:00Z", "two of 14:00"))
	l.later(l.at, func() { l.bodies["/two.jpg"] = "two of 14:00" })
	mustDo(t, "sync", source, dir)
	l.changes("2026-03-01T15:00:00Z", changeOf(two, "updated", "2026-03-01T16:00:00Z", "two of 14:00"))
	for _, args := range [][]string{nil, {"--accept-gap"}, {"-n"}} {
		o := instep(t, append([]string{"sync", "--include", "", source, dir}, args...)...)
		mustExit(t, o, 4, "1 resource left alone: only in a list that is older than the mirror")
	}
	mustDo(t, "sync", "--include", "", "--accept-rollback", "--accept-gap", source, dir)
	mustHold(t, filepath.Join(dir, "one.txt"), "one")
	mustExit(t, instep(t, "sync", "--include", "", source, dir), 4, "as of 2026-03-01T12:00:00Z; changes since are unknown")
	l.later("2026-03-01T17:00:00Z", func() { l.listed[1] = entry(two, "two of 14:00") })
	mustDo(t, "sync", "--include", "", source, dir)
}

// A list that is of the same second as a resource without a digest: the bytes count as those
// of its lastmod if they came later than that by the clock of their server, and are fetched
// again as long as nobody knows.
func TestBytesAreThoseOfTheirLastModIfTheyCameLater(t *testing.T) {
	for _, test := range []struct {
		name string
		date map[string]string // by path; "" is for all others
		want int64             // brought by the second run
	}{
		{"at once", map[string]string{"": "Sun, 01 Mar 2026 12:00:01 GMT"}, 1},
		{"later", map[string]string{"": "Sun, 01 Mar 2026 12:00:02 GMT"}, 0},
		{"an answer that a cache has kept", map[string]string{"": "Sun, 01 Mar 2026 13:00:00 GMT", "/one.txt": "Sun, 01 Mar 2026 12:00:01 GMT"}, 1},
		{"an answer without a Date after documents with one", map[string]string{"": "Sun, 01 Mar 2026 13:00:00 GMT", "/one.txt": "none"}, 0},
		{"no Date at all", map[string]string{"": "none"}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, dir := &liar{at: "2026-03-01T12:00:00Z", bodies: map[string]string{"/one.txt": "one"}}, filepath.Join(t.TempDir(), "mirror")
			l.Server = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
				date, own := test.date[r.URL.Path]
				if !own {
					date = test.date[""]
				}
				if out.Header()["Date"] = nil; date != "none" {
					out.Header().Set("Date", date)
				}
				l.ServeHTTP(out, r)
			}))
			t.Cleanup(l.Close)
			l.listed = []string{`<url><loc>` + l.URL + `/one.txt</loc><lastmod>` + l.at + `</lastmod></url>`}
			mustDo(t, "sync", l.URL+"/capabilitylist.xml", dir)
			if o := mustDo(t, "sync", l.URL+"/capabilitylist.xml", dir); *o.Updated != test.want {
				t.Errorf("the second run brought %d, want %d", *o.Updated, test.want)
			}
		})
	}
}

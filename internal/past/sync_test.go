package past_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"instep/destination"
	"instep/harvest"
	"instep/internal/sim"
	"instep/mirror"
	"instep/resourcesync"
)

// museum serves a Source and every version that its resources ever had: entries of its lists
// have a link to the version that they are about (1.1 §14.6).
type museum struct {
	next     http.Handler
	versions map[string]sim.Resource // by the sha-256 of their bytes, in hex
}

const mementos = "/.memento/"

func (m *museum) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if sum, ok := strings.CutPrefix(r.URL.Path, mementos); ok {
		v, ok := m.versions[sum]
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, v.Open())
		return
	}
	if !strings.Contains(r.URL.Path, "/lists/") && !strings.Contains(r.URL.Path, "/changes/") && !strings.Contains(r.URL.Path, "/changelists/") {
		m.next.ServeHTTP(w, r)
		return
	}
	for _, name := range []string{"If-None-Match", "If-Modified-Since", "Range"} {
		r.Header.Del(name)
	}
	rec := httptest.NewRecorder()
	m.next.ServeHTTP(rec, r)
	body := rec.Body.Bytes()
	if rec.Code == http.StatusOK {
		linked, err := m.link(body, "http://"+r.Host+mementos)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		body = linked
	}
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("Date", rec.Header().Get("Date"))
	w.WriteHeader(rec.Code)
	_, _ = w.Write(body) // the client is this test
}

// link adds the links to the entries of a list.
func (m *museum) link(body []byte, base string) ([]byte, error) {
	d := resourcesync.NewDecoder(bytes.NewReader(body))
	h, err := d.Header()
	if err != nil || h.Root == resourcesync.SitemapIndex {
		return body, err
	}
	var out bytes.Buffer
	e, err := resourcesync.NewEncoder(&out, h)
	if err != nil {
		return nil, err
	}
	for entry, err := range d.Entries() {
		if err == nil {
			if sum := entry.Digests.Get(resourcesync.SHA256); !sum.IsZero() {
				_, hex, _ := strings.Cut(sum.String(), ":")
				entry.Links = append(entry.Links, resourcesync.Link{Rel: resourcesync.RelMemento, Href: base + hex})
			}
			err = e.Encode(entry)
		}
		if err != nil {
			return nil, err
		}
	}
	err = e.Close()
	return out.Bytes(), err
}

// exhibit collects all versions of the history.
func (l *life) exhibit() *museum {
	l.t.Helper()
	m := &museum{next: l.s, versions: map[string]sim.Resource{}}
	keep := func(r sim.Resource) { m.versions[fmt.Sprintf("%x", r.SHA256)] = r }
	truth, err := l.model.TruthAt(l.begin)
	if err != nil {
		l.t.Fatal(err)
	}
	for r, err := range truth.All() {
		if err != nil {
			l.t.Fatal(err)
		}
		keep(r)
	}
	for c, err := range l.model.Changes(0, 1, l.model.Last(0)) {
		if err != nil {
			l.t.Fatal(err)
		}
		keep(c.Resource)
	}
	return m
}

// copyOf is a mirror of the past.
type copyOf struct {
	dir string
	m   *mirror.Mirror
	d   *destination.Destination
}

func (l *life) mirror(at time.Time) *copyOf {
	l.t.Helper()
	c := &copyOf{dir: l.t.TempDir()}
	var err error
	if c.m, err = mirror.Open(l.t.Context(), mirror.Options{Dir: c.dir, Create: true, Now: time.Now}); err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = c.m.Close() })
	c.d = &destination.Destination{Source: l.server.URL, Mirror: c.m, Client: l.client(), At: at}
	return c
}

func (l *life) sync(c *copyOf) *destination.SetReport {
	l.t.Helper()
	rep, err := c.d.Sync(l.t.Context())
	if err != nil {
		l.t.Fatalf("as of %v: %v", c.d.At, err)
	}
	return rep.Sets[0]
}

// held is what a mirror holds, as digests of the bytes by URI; due are members without the
// bytes of then.
func (l *life) held(c *copyOf, set string) (held map[string]string, due int64) {
	l.t.Helper()
	held = map[string]string{}
	for h, err := range c.m.Members(l.t.Context(), set) {
		if err != nil {
			l.t.Fatal(err)
		}
		if h.Due != "" {
			due++
		}
		if !h.Stored {
			continue
		}
		r, err := c.m.Open(l.t.Context(), &h)
		if err != nil {
			l.t.Fatal(err)
		}
		sum := resourcesync.NewHasher(resourcesync.SHA256)
		_, err = io.Copy(sum, r)
		if err := errors.Join(err, r.Close()); err != nil {
			l.t.Fatal(err)
		}
		held[h.URI] = sum.Digests().String()
	}
	return held, due
}

// A mirror as of any instant holds the set as it was: by dumps, or by lists if the Source keeps
// the versions that its lists link to.
func TestMirrorOfAnyInstantIsTheSetAsItWas(t *testing.T) {
	for name, c := range map[string]struct {
		prefer destination.Prefer
		dumps  bool
		kept   bool
		via    destination.Via
	}{
		"dumps": {"", true, false, destination.ViaDump},
		"lists": {destination.PreferList, false, true, destination.ViaMemento},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t, changes(), func(o *sim.Options) { o.Dumps = c.dumps })
			if c.kept {
				l.server.Config.Handler = l.exhibit()
			}
			ways := map[destination.Via]int64{}
			for range rounds() {
				at := l.instant()
				m := l.mirror(at)
				m.d.Prefer = c.prefer
				rep := l.sync(m)
				if rep.Failed > 0 || rep.Partial != nil || rep.Gap != "" {
					t.Errorf("as of %v: %d failed, the first: %v; partial: %v, gap: %s", at, rep.Failed, rep.Failures[:min(1, len(rep.Failures))], rep.Partial, rep.Gap)
				}
				if got, _ := l.held(m, rep.Set); !maps.Equal(got, l.truth(at)) {
					t.Errorf("as of %v: %d resources are held, other ones than the %d of then", at, len(got), len(l.truth(at)))
				}
				for via, n := range rep.Via {
					ways[via] += n
				}
			}
			if t.Logf("resources by way: %v", ways); ways[c.via] == 0 {
				t.Errorf("none came by %s", c.via)
			}
		})
	}
}

// A Change Dump has all changes up to its end, although its last package may end before that
// (1.1 §13.1). So its packages have the bytes of a moment between the two.
func TestMirrorOfAMomentAfterTheLastPackageOfAChangeDump(t *testing.T) {
	t.Setenv("INSTEP_SEED", "1795824091173246843") // some of its Change Dumps end after their last package
	l := newLife(t, 400, func(o *sim.Options) { o.Dumps = true })
	resp, err := http.Get(l.server.URL + "/resourcesync/changedump-index.xml")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	d := resourcesync.NewDecoder(resp.Body)
	if _, err := d.Header(); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for e, err := range d.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		if e.Until.IsZero() {
			continue
		}
		tried++
		m := l.mirror(e.Until.Time().Add(-1))
		rep := l.sync(m)
		if got, _ := l.held(m, rep.Set); rep.Failed+rep.Via[destination.ViaGet] > 0 || !maps.Equal(got, l.truth(m.d.At)) {
			t.Errorf("as of %v: %d failed, %d are held, %v", m.d.At, rep.Failed, len(got), rep.Via)
		}
	}
	if tried == 0 {
		t.Error("no Change Dump has ended")
	}
}

// If a Source serves only the bytes of today, a mirror of the past holds what is still the
// same, names the rest as failed, and never holds bytes of another moment.
func TestMirrorOfThePastHoldsNoBytesOfAnotherMoment(t *testing.T) {
	l := newLife(t, changes(), nil)
	failed := int64(0)
	for range rounds() {
		at := l.instant()
		m := l.mirror(at)
		rep := l.sync(m)
		truth := l.truth(at)
		got, due := l.held(m, rep.Set)
		for uri, sum := range got {
			if truth[uri] != sum {
				t.Errorf("as of %v: %s is held as %s, it was %s", at, uri, sum, truth[uri])
			}
		}
		if int64(len(got))+rep.Failed != int64(len(truth)) || due != rep.Failed {
			t.Errorf("as of %v: %d are held, %d failed and %d are due, of %d", at, len(got), rep.Failed, due, len(truth))
		}
		failed += rep.Failed
		for _, f := range rep.Failures {
			if !harvest.IsSourceError(f.Err) {
				t.Errorf("as of %v: %s failed by %v", at, f.URI, f.Err)
			}
		}
	}
	if failed == 0 {
		t.Error("nothing had other bytes than today")
	}
}

// A mirror of the past is run again and audited without being told its moment, changes nothing
// while the Source moves on, and takes no other moment; one of the present takes no past.
func TestMirrorOfThePastRemembersItsMoment(t *testing.T) {
	l := newLife(t, 200, func(o *sim.Options) { o.Dumps = true })
	at := l.instant()
	m := l.mirror(at)
	set := l.sync(m).Set
	want := l.truth(at)
	l.round(5 * time.Minute)
	m.d.At = time.Time{}
	if rep := l.sync(m); !rep.Moment.Equal(at) || rep.Created+rep.Updated+rep.Deleted+rep.Failed != 0 || rep.Same != int64(len(want)) {
		t.Errorf("the next run: %+v", rep)
	}
	if got, _ := l.held(m, set); !maps.Equal(got, want) {
		t.Errorf("%d resources are held, other ones than the %d of then", len(got), len(want))
	}
	audit, err := m.d.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v := audit.Sets[0].Verdicts; !audit.InSync() || v[destination.VerdictSame] != int64(len(want)) {
		t.Errorf("audit: %+v", audit.Sets[0])
	}
	var me *destination.MomentError
	m.d.At = at.Add(time.Second)
	if _, err := m.d.Plan(t.Context()); !errors.As(err, &me) {
		t.Errorf("another moment: got %v, want a MomentError", err)
	}
	now := l.mirror(time.Time{})
	l.sync(now)
	now.d.At = at
	if _, err := now.d.Plan(t.Context()); !errors.As(err, &me) {
		t.Errorf("the past of a mirror of the present: got %v, want a MomentError", err)
	}
}

// A moment of before the first list, or after the last document, is an error, and nothing is
// made.
func TestMomentThatIsNotCoveredIsNoMirror(t *testing.T) {
	l := newLife(t, 100, nil)
	for name, at := range map[string]time.Time{"before": l.begin.Add(-time.Hour), "after": l.end.Add(time.Hour)} {
		m := l.mirror(at)
		var ue *harvest.UncoveredError
		if _, err := m.d.Sync(t.Context()); !errors.As(err, &ue) {
			t.Errorf("%s: got %v, want an UncoveredError", name, err)
		}
	}
}

package destination_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"instep/destination"
	"instep/guard"
	"instep/harvest"
	"instep/mirror"
	"instep/resourcesync"
)

// auditSet audits the only set and returns what was found, and the verdict of each
// resource by path, the last one if there are several.
func (m *aMirror) auditSet(run func(context.Context, *destination.Destination) (*destination.Audit, error)) (*destination.SetAudit, map[string]destination.Verdict) {
	m.t.Helper()
	var set *destination.SetAudit
	verdicts := map[string]destination.Verdict{}
	err := m.with(func(ctx context.Context, d *destination.Destination, _ *mirror.Mirror) error {
		var mu sync.Mutex
		notes := d.Observe
		d.Observe = func(e destination.Event) {
			notes(e)
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == destination.EventVerdict {
				verdicts[strings.TrimPrefix(e.Action.Want.URI, m.src.srv.URL)] = e.Verdict
			}
		}
		a, err := run(ctx, d)
		if err == nil {
			set = a.Sets[0]
		}
		return err
	})
	if err != nil {
		m.t.Fatalf("audit: %v", err)
	}
	return set, verdicts
}

func fully(ctx context.Context, d *destination.Destination) (*destination.Audit, error) {
	return d.Audit(ctx)
}

func quickly(ctx context.Context, d *destination.Destination) (*destination.Audit, error) {
	d.Quick = true
	return d.Audit(ctx)
}

func repairing(ctx context.Context, d *destination.Destination) (*destination.Audit, error) {
	a, _, err := d.Repair(ctx)
	return a, err
}

// flipKeepingTimes damages a file as a disk does: its size and times stay.
func flipKeepingTimes(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	flip(t, path)
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

func TestQuickAuditReadsOnlyWhatWasTouched(t *testing.T) {
	s := newSource(t)
	paths := s.fill(8)
	s.list(0, paths...)
	s.changes(0)
	m := newMirror(t, s)
	m.now = time.Now().Add(time.Minute) // files that are stored now are older
	m.mustSync(destination.Baseline, 0, 8, 0, 0)
	got, _ := m.auditSet(quickly)
	if got.Unread != 8 || got.Bytes != 0 || got.Verdicts[destination.VerdictSame] != 8 {
		t.Fatalf("an untouched mirror: got %+v, want 8 the same and no byte read", got)
	}

	file := func(name string) string { return filepath.Join(m.dir, "r", name) }
	touch := func(path string) {
		if err := os.Chtimes(path, m.now.Add(time.Hour), m.now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	flipKeepingTimes(t, file("0"))
	flip(t, file("1"))
	touch(file("1"))
	touch(file("2"))
	if err := os.Truncate(file("3"), 2); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file("4")); err != nil {
		t.Fatal(err)
	}
	s.put("/r/5", []byte("BODY"))
	s.changes(0, s.change(1, resourcesync.Updated, "/r/5"))

	got, verdicts := m.auditSet(quickly)
	want := map[string]destination.Verdict{
		"/r/0": destination.VerdictSame, // this damage only reading finds
		"/r/1": destination.VerdictDifferent, "/r/2": destination.VerdictSame, "/r/3": destination.VerdictDifferent,
		"/r/4": destination.VerdictMissing, "/r/5": destination.VerdictDifferent, "/r/6": destination.VerdictSame, "/r/7": destination.VerdictSame,
	}
	if d := cmp.Diff(verdicts, want); d != "" {
		t.Errorf("quick audit (-got +want):\n%s", d)
	}
	if got.Unread != 4 {
		t.Errorf("got %d judged without reading, want 4", got.Unread)
	}
	want["/r/0"] = destination.VerdictDifferent
	if _, verdicts = m.auditSet(fully); cmp.Diff(verdicts, want) != "" {
		t.Errorf("full audit: got %v, want %v", verdicts, want)
	}
}

// weakly describes a resource by its md5 alone.
func (s *aSource) weakly(path string) resourcesync.Entry {
	e := s.entry(path)
	e.Digests = resourcesync.Digests{e.Digests.Get(resourcesync.MD5)}
	return e
}

func (s *aSource) listEntries(n int, entries ...resourcesync.Entry) {
	s.doc("/list.xml", head(resourcesync.CapabilityResourceList, func(h *resourcesync.Header) { h.At = at(n) }), entries...)
}

// collision is two texts of one length and one md5.
func collision(t *testing.T) (a, b []byte) {
	t.Helper()
	const one = "d131dd02c5e6eec4693d9a0698aff95c2fcab58712467eab4004583eb8fb7f8955ad340609f4b30283e488832571415a085125e8f7cdc99fd91dbdf280373c5b" +
		"d8823e3156348f5bae6dacd436c919c6dd53e2b487da03fd02396306d248cda0e99f33420f577ee8ce54b67080a80d1ec69821bcb6a8839396f9652b6ff72a70"
	const other = "d131dd02c5e6eec4693d9a0698aff95c2fcab50712467eab4004583eb8fb7f8955ad340609f4b30283e4888325f1415a085125e8f7cdc99fd91dbd7280373c5b" +
		"d8823e3156348f5bae6dacd436c919c6dd53e23487da03fd02396306d248cda0e99f33420f577ee8ce54b67080280d1ec69821bcb6a8839396f965ab6ff72a70"
	a, err := hex.DecodeString(one)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = hex.DecodeString(other); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// TestCat_VER_03: what only md5 proves is counted weak, a digest that gets weaker is
// told, and a strict run takes neither.
func TestCat_VER_03(t *testing.T) {
	honest, forged := collision(t)
	s := newSource(t)
	s.put("/weak", honest)
	s.put("/strong", honest)
	both := func() {
		s.listEntries(0, s.weakly("/weak"), s.entry("/strong"))
		s.changes(0)
	}
	both()
	m := newMirror(t, s)
	if rep := m.mustSync(destination.Baseline, 0, 2, 0, 0); rep.Weak != 1 {
		t.Errorf("sync: got %d weak, want 1", rep.Weak)
	}
	if got, _ := m.auditSet(fully); got.Weak != 1 || got.Verdicts[destination.VerdictSame] != 2 {
		t.Errorf("audit: got %d weak of %v, want 1 of 2 the same", got.Weak, got.Verdicts)
	}

	t.Run("strict", func(t *testing.T) {
		strict := newMirror(t, s)
		strict.set = func(d *destination.Destination) { d.Strict = true }
		rep := strict.mustSync(destination.Baseline, 0, 1, 0, 0)
		if rep.Weak != 0 || rep.Skipped[destination.SkipWeak] != 1 {
			t.Errorf("got %+v, want the weak one skipped", rep)
		}
		strict.wantFiles("/strong")
	})
	t.Run("forged", func(t *testing.T) {
		both()
		s.put("/weak", forged)
		s.put("/strong", forged)
		fresh := newMirror(t, s)
		rep, err := fresh.sync()
		if err != nil || rep.Failed != 1 || rep.Failures[0].URI != s.uri("/strong") || rep.Weak != 1 {
			t.Errorf("got %+v, %v; want the forgery to pass as weak only where nothing better is given", rep, err)
		}
	})
	t.Run("weaker than before", func(t *testing.T) {
		m.t = t
		s.put("/strong", honest)
		s.changes(0, func() resourcesync.Entry {
			e := s.weakly("/strong")
			e.Change, e.Datetime = resourcesync.Updated, at(1)
			return e
		}())
		told := func() bool {
			return slices.ContainsFunc(m.notes, func(n string) bool {
				return strings.Contains(n, "once proved by sha-256") && strings.Contains(n, "/strong")
			})
		}
		if _, err := m.sync(); err != nil || !told() {
			t.Errorf("sync: %v, notes %q; want the downgrade told", err, m.notes)
		}
		if m.auditSet(fully); !told() {
			t.Errorf("audit: notes %q; want the downgrade told", m.notes)
		}
	})
}

// TestCat_VER_04: damage at rest is found by reading, whatever size, times and catalog
// say: nothing is missed and nothing else blamed.
func TestCat_VER_04(t *testing.T) {
	_, paths, m := inStep(t, 1000)
	want := map[string]destination.Verdict{}
	for i, p := range paths {
		want[p] = destination.VerdictSame
		file := filepath.Join(m.dir, filepath.FromSlash(p))
		switch {
		case i%10 == 3:
			flipKeepingTimes(t, file)
			want[p] = destination.VerdictDifferent
		case i%100 == 5:
			if err := os.Truncate(file, 3); err != nil {
				t.Fatal(err)
			}
			want[p] = destination.VerdictDifferent
		}
	}
	got, verdicts := m.auditSet(fully)
	if d := cmp.Diff(verdicts, want); d != "" {
		t.Errorf("verdicts (-got +want):\n%s", d)
	}
	if n := got.Verdicts[destination.VerdictDifferent]; n != 110 {
		t.Errorf("got %d different, want 110", n)
	}
}

// restless is a Mirror that changes just after it was looked at, as another
// synchronisation would change it.
type restless struct {
	*mirror.Mirror
	move func() // nil: it has rested since
}

func (r *restless) Lookup(ctx context.Context, set string, uris []string) ([]destination.Held, error) {
	held, err := r.Mirror.Lookup(ctx, set, uris)
	if move := r.move; move != nil {
		r.move = nil
		move()
	}
	return held, err
}

// TestCat_VER_05: what the mirror or the Source changes during an audit is unverifiable
// or the same, never bad; what is damaged is found all the same.
func TestCat_VER_05(t *testing.T) {
	s, paths, m := inStep(t, 40)
	set := s.uri("/caps.xml")
	version, kind := 0, []string(nil)
	rapid.Check(t, func(rt *rapid.T) {
		version++
		defer func() { m.heal(paths, kind) }()
		kind = rapid.SliceOfN(rapid.SampledFrom([]string{"still", "still", "replaced", "damaged", "served anew"}), len(paths), len(paths)).Draw(rt, "kinds")
		for i, k := range kind {
			if k == "damaged" {
				flipKeepingTimes(t, filepath.Join(m.dir, filepath.FromSlash(paths[i])))
			}
		}
		_, verdicts := m.auditSet(func(ctx context.Context, d *destination.Destination) (*destination.Audit, error) {
			mm := d.Mirror.(*mirror.Mirror)
			d.Mirror, d.ReadOnly = &restless{mm, func() { replaceSome(ctx, t, mm, s, set, paths, kind, version) }}, true
			return d.Audit(ctx)
		})
		for i, k := range kind {
			v := verdicts[paths[i]]
			ok := map[string][]destination.Verdict{
				"still": {destination.VerdictSame}, "served anew": {destination.VerdictSame}, "damaged": {destination.VerdictDifferent},
				"replaced": {destination.VerdictUnverifiable},
			}[k]
			if !slices.Contains(ok, v) {
				rt.Fatalf("%s, which is %s: got %q, want %q", paths[i], k, v, ok)
			}
		}
	})
}

// replaceSome stores other bytes for the resources that are replaced, and lets the
// Source serve others for those that it serves anew.
func replaceSome(ctx context.Context, t *testing.T, mm *mirror.Mirror, s *aSource, set string, paths, kind []string, version int) {
	b, err := mm.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Discard()
	for i, k := range kind {
		switch k {
		case "replaced":
			body := fmt.Sprintf("%s of version %d", paths[i], version)
			s.put(paths[i], []byte(body))
			w := harvest.Resource{URI: s.uri(paths[i]), Digests: s.entry(paths[i]).Digests, Changed: t0.Add(time.Duration(version) * time.Hour)}
			if _, err := b.Put(ctx, set, w, strings.NewReader(body), true); err != nil {
				t.Fatal(err)
			}
		case "served anew":
			s.put(paths[i], append([]byte("anew: "), s.bodies[paths[i]]...))
		}
	}
	if err := b.Commit(ctx, nil); err != nil {
		t.Fatal(err)
	}
	s.listEntries(60*24*366, s.entries(paths...)...)
}

// heal brings Source and mirror in step again, for the next case.
func (m *aMirror) heal(paths, kind []string) {
	for i, k := range kind {
		if k == "damaged" {
			flipKeepingTimes(m.t, filepath.Join(m.dir, filepath.FromSlash(paths[i])))
		}
	}
	for i, k := range kind {
		if k == "served anew" {
			m.src.put(paths[i], bytes.TrimPrefix(m.src.bodies[paths[i]], []byte("anew: ")))
		}
	}
	m.src.listEntries(60*24*365, m.src.entries(paths...)...)
	m.src.changes(60 * 24 * 365)
}

func TestRepairBringsWhatIsWrongAndTellsWhatIsLeft(t *testing.T) {
	s, paths, m := inStep(t, 20)
	file := func(n int) string { return filepath.Join(m.dir, "r", fmt.Sprint(n)) }
	flipKeepingTimes(t, file(1))
	flip(t, file(2))
	for _, n := range []int{3, 4} {
		if err := os.Remove(file(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(file(5)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file(5), 0o750); err != nil { // in the way
		t.Fatal(err)
	}
	s.answer("/r/4", http.NotFound)
	s.put("/new", []byte("new"))
	s.changes(0, s.change(1, resourcesync.Created, "/new"), s.change(2, resourcesync.Deleted, "/r/19"))
	s.asked("/")
	var rep *destination.Report
	repair := func(ctx context.Context, d *destination.Destination) (a *destination.Audit, err error) {
		a, rep, err = d.Repair(ctx)
		return a, err
	}
	got, verdicts := m.auditSet(repair)
	want := map[destination.Verdict]int64{destination.VerdictSame: 18, destination.VerdictMissing: 2, destination.VerdictExtra: 1}
	for v, n := range got.Verdicts {
		if n != want[v] {
			t.Errorf("%s: got %d, want %d", v, n, want[v])
		}
	}
	if got.Repaired != 4 || verdicts["/r/4"] != destination.VerdictMissing || verdicts["/r/5"] != destination.VerdictMissing {
		t.Errorf("got %d repaired, verdicts %v; want 4 repaired and /r/4 and /r/5 left", got.Repaired, verdicts)
	}
	if r := rep.Sets[0]; r.Failed != 2 || r.Created+r.Updated != 4 || r.Mode != destination.Repairing {
		t.Errorf("report: got %+v, want 4 brought and 2 failed", r)
	}
	if n := s.asked("/r/") + s.asked("/new"); n != 6 {
		t.Errorf("got %d requests for resources, want only the 6 for what was wrong", n)
	}

	s.answer("/r/4", nil)
	if err := os.Remove(file(5)); err != nil {
		t.Fatal(err)
	}
	if got, _ = m.auditSet(repair); got.Repaired != 2 || got.Verdicts[destination.VerdictMissing] != 0 {
		t.Errorf("the second repair: got %+v, want the 2 that were left", got)
	}
	m.wantFiles(append(paths, "/new")...) // what is extra stays until a synchronisation deletes it
}

// Documents that are older than the mirror do not show that a repair failed.
func TestRepairOfAStateThatTheDocumentsDoNotHaveYet(t *testing.T) {
	s, _, m := inStep(t, 4)
	s.put("/r/1", []byte("the later version"))
	body := s.body("/r/1")
	s.answer("/r/1", http.NotFound)
	s.rawChanges(0, s.loose("/r/1", fmt.Sprintf(" datetime=%q", at(5))))
	if rep, err := m.sync(); err != nil || rep.Failed != 1 {
		t.Fatalf("got %+v, %v; want a failure", rep, err)
	}
	s.changes(0) // an old copy
	s.answer("/r/1", serving(body))
	got, verdicts := m.auditSet(func(ctx context.Context, d *destination.Destination) (*destination.Audit, error) {
		a, _, err := d.Repair(ctx)
		return a, err
	})
	if got.Repaired != 1 || verdicts["/r/1"] != destination.VerdictUnverifiable {
		t.Errorf("got %d repaired, %s; want 1, and that the documents are older", got.Repaired, verdicts["/r/1"])
	}
	if again := m.audit(); again[destination.VerdictDifferent] > 0 {
		t.Errorf("audited again: got %v", again)
	}
}

func TestReadOnlyAuditMarksNothing(t *testing.T) {
	_, _, m := inStep(t, 5)
	flip(t, filepath.Join(m.dir, "r", "1"))
	got, _ := m.auditSet(func(ctx context.Context, d *destination.Destination) (*destination.Audit, error) {
		d.ReadOnly = true
		a, err := d.Audit(ctx)
		for h, err := range d.Mirror.Due(ctx, a.Sets[0].Set) {
			t.Errorf("%s is due (%s), %v", h.URI, h.Due, err)
		}
		return a, err
	})
	if got.Verdicts[destination.VerdictDifferent] != 1 {
		t.Errorf("got %v, want 1 different", got.Verdicts)
	}
}

func TestAuditOfAnotherSourceIsRefusedAndMarksNothing(t *testing.T) {
	_, paths, m := inStep(t, 5)
	other := newSource(t)
	other.list(0, other.fill(9)...)
	other.changes(0)
	m.src, other = other, m.src
	var wrong *mirror.WrongSourceError
	err := m.with(func(ctx context.Context, d *destination.Destination, _ *mirror.Mirror) error {
		_, _, err := d.Repair(ctx)
		return err
	})
	if !errors.As(err, &wrong) {
		t.Errorf("got %v, want a *mirror.WrongSourceError", err)
	}
	m.src = other
	m.wantFiles(paths...)
	m.mustSync(destination.Incremental, 0, 0, 0, 0)
}

func TestAuditTellsHowFarTheMirrorWasFollowed(t *testing.T) {
	s, _, m := inStep(t, 5)
	s.put("/late", []byte("late"))
	s.changes(0, s.change(7, resourcesync.Created, "/late"))
	var text string
	got, _ := m.auditSet(func(ctx context.Context, d *destination.Destination) (*destination.Audit, error) {
		observe := d.Observe
		d.Observe = func(e destination.Event) {
			observe(e)
			if e.Kind == destination.EventVerdict && e.Verdict == destination.VerdictMissing {
				text = e.Err.Error()
			}
		}
		return d.Audit(ctx)
	})
	if !got.Followed.Equal(t0) || !got.At.Equal(t0) {
		t.Errorf("got at %s, followed to %s, want both %s", got.At, got.Followed, t0)
	}
	if want := "changed at 2026-03-01T12:07:00Z, after the moment up to which the mirror was last synchronised, 2026-03-01T12:00:00Z"; !strings.Contains(text, want) {
		t.Errorf("got %q, want it to contain %q", text, want)
	}
}

// TestCat_DEL_02: deletions of a Change List are held exactly when they are more than
// the guard lets pass; all else is applied, and consent to exactly these releases them.
func TestCat_DEL_02(t *testing.T) {
	for _, c := range []struct {
		deleted int
		limit   string
		held    bool
	}{
		{1, "", false}, {5, "", false}, {10, "", false}, {11, "", true}, {50, "", true}, {99, "", true}, {100, "", true},
		{3, "2", true}, {2, "2", false}, {51, "51%", false}, {52, "51%", true}, {100, "100%", false},
	} {
		t.Run(fmt.Sprintf("%d of 100, limit %q", c.deleted, c.limit), func(t *testing.T) {
			s, paths, m := inStep(t, 100)
			limit, err := guard.ParseLimit(c.limit)
			if err != nil {
				t.Fatal(err)
			}
			m.set = func(d *destination.Destination) { d.MaxDelete = limit }
			s.put("/new", []byte("new"))
			entries := []resourcesync.Entry{s.change(1, resourcesync.Created, "/new")}
			for _, p := range paths[:c.deleted] {
				entries = append(entries, s.change(2, resourcesync.Deleted, p))
			}
			s.changes(0, entries...)
			rep, err := m.sync()
			if err != nil || rep.Created != 1 {
				t.Fatalf("got %+v, %v; want the creation applied in any case", rep, err)
			}
			gone := append(slices.Clone(paths[c.deleted:]), "/new")
			if !c.held {
				if rep.Deleted != int64(c.deleted) || rep.Withheld != 0 {
					t.Errorf("got %d deleted, %d withheld, want %d and 0", rep.Deleted, rep.Withheld, c.deleted)
				}
				m.wantFiles(gone...)
				return
			}
			if rep.Deleted != 0 || rep.Withheld != int64(c.deleted) {
				t.Errorf("got %d deleted, %d withheld, want 0 and %d", rep.Deleted, rep.Withheld, c.deleted)
			}
			m.wantFiles(append(slices.Clone(paths), "/new")...)
			if err := m.with(func(ctx context.Context, _ *destination.Destination, mm *mirror.Mirror) error {
				_, _, err := mm.Approve(ctx, rep.Hash)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if rep, err = m.sync(); err != nil || rep.Deleted != int64(c.deleted) {
				t.Errorf("after approval: got %+v, %v", rep, err)
			}
			m.wantFiles(gone...)
		})
	}
}

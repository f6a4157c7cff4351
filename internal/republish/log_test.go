package republish

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"instep/blob"
	"instep/destination"
	"instep/guard"
	"instep/harvest"
	"instep/internal/catalog"
	"instep/internal/scan"
	"instep/mirror"
	"instep/resourcesync"
)

// the set of ring.
const one = origin + "one.xml"

// ring is a mirror and its publication.
type ring struct {
	t        *testing.T
	dir      string
	m        *mirror.Mirror
	facts    faulty
	in       Input
	now      time.Time
	follows  bool  // the last plan followed the log
	failed   int64 // the failures of the last publication
	notes    []string
	disturb  func() // what happens while all is listed; nil: nothing
	readOnly bool   // the mirror cannot be written to
}

// faulty fails after a number of recordings.
type faulty struct {
	scan.Facts
	left int
}

var errKilled = errors.New("killed")

func (f *faulty) RecordWith(ctx context.Context, set catalog.SetID, changes []catalog.Change, settings map[string]string) error {
	if f.left--; f.left < 0 {
		return errKilled
	}
	return f.Facts.RecordWith(ctx, set, changes, settings)
}

// disturbed lets a run change the mirror while all is listed.
type disturbed struct {
	Mirror
	r *ring
}

func (d disturbed) MembersOf(ctx context.Context, sets []string) iter.Seq2[[]destination.Held, error] {
	if d.r.disturb != nil {
		d.r.disturb()
	}
	return d.Mirror.MembersOf(ctx, sets)
}

func newRing(t *testing.T) *ring {
	t.Helper()
	r := &ring{t: t, dir: filepath.Join(t.TempDir(), "mirror"), now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	var reading sync.Mutex // files are read in parallel
	clock := func() time.Time {
		reading.Lock()
		defer reading.Unlock()
		r.now = r.now.Add(time.Second)
		return r.now
	}
	o := mirror.Options{Dir: r.dir, Create: true, Now: clock}
	var err error
	if r.m, err = mirror.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.m.Close() })
	if err := r.m.Bind(t.Context(), origin+"description.xml", origin); err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Open(t.Context(), catalog.Options{Path: filepath.Join(t.TempDir(), "catalog.db"), Create: true, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	set, err := c.Facts.Set(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	all, err := guard.ParseLimit("100%")
	if err != nil {
		t.Fatal(err)
	}
	r.facts = faulty{c.Facts, 1000}
	r.in = Input{
		List: &scan.List{Tree: scan.RootTree(root), Deps: scan.Deps{BaseURL: base, Facts: &r.facts, Seen: c.Publisher, Set: set, Now: clock, Spool: t.TempDir(), MaxDelete: all}},
		Mirror: Options{
			Open: func(ctx context.Context) (Mirror, error) {
				m, err := mirror.OpenReadOnly(ctx, o)
				return disturbed{m, r}, err
			},
			Register: func(ctx context.Context, name string, read int64) error {
				if r.readOnly {
					return os.ErrPermission
				}
				return mirror.Register(ctx, r.dir, name, read, r.now)
			},
		},
	}
	return r
}

func wanted(name, text string) harvest.Resource {
	sum := sha256.Sum256([]byte(text))
	d, err := resourcesync.NewDigest(resourcesync.SHA256, sum[:])
	if err != nil {
		panic(err) // a sha-256 has the length of one
	}
	return harvest.Resource{URI: origin + name, Length: resourcesync.Bytes(int64(len(text))), Digests: resourcesync.Digests{d}, Changed: lastMod.Time()}
}

// sync commits resources, as "name=text" or "name" for one that is deleted, and completes a run.
func (r *ring) sync(changes ...string) {
	r.t.Helper()
	b, err := r.m.Begin(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	defer b.Discard()
	for _, change := range changes {
		name, text, kept := strings.Cut(change, "=")
		if kept {
			_, err = b.Put(r.t.Context(), one, wanted(name, text), strings.NewReader(text), true)
		} else {
			err = b.Delete(r.t.Context(), one, origin+name, lastMod.Time())
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	move := &destination.CursorMove{Set: one, Cursor: destination.Cursor{Position: harvest.Position{At: lastMod.Time()}}}
	if err := b.Commit(r.t.Context(), move); err != nil {
		r.t.Fatal(err)
	}
}

// publish records what a publication would, and returns that of the change log.
func (r *ring) publish() []string {
	r.t.Helper()
	changes, err := r.tryPublish()
	if err != nil {
		r.t.Fatal(err)
	}
	return changes
}

func (r *ring) tryPublish() (changes []string, err error) {
	r.t.Helper()
	c := r.facts.Facts.(*catalog.Facts)
	before, _, err := c.LastSeq(r.t.Context(), r.in.Set)
	if err != nil {
		return nil, err
	}
	p, err := r.in.Plan(r.t.Context())
	if err != nil {
		return nil, err
	}
	defer p.Close()
	r.follows, r.notes = p.Follows, p.Notes
	result, failed := r.in.Apply(r.t.Context(), p)
	r.failed = result.Failures.Count
	for ch, err := range c.Changes(r.t.Context(), r.in.Set, before, 1<<60) {
		if err != nil {
			return nil, err
		}
		text := string(ch.Change) + " " + strings.TrimPrefix(ch.URI, base)
		if ch.Length.Known() {
			text += fmt.Sprint(" ", ch.Length.Int64())
		}
		changes = append(changes, text)
	}
	return changes, failed
}

func (r *ring) want(what string, follows bool, want ...string) {
	r.t.Helper()
	if got := r.publish(); !slices.Equal(got, want) || r.follows != follows {
		r.t.Errorf("%s: got %q, the log followed: %v; want %q, %v", what, got, r.follows, want, follows)
	}
}

// TestEachStateBetweenTwoPublicationsIsPublished: in its order, once; and nothing is compared
// but what has changed.
func TestEachStateBetweenTwoPublicationsIsPublished(t *testing.T) {
	r := newRing(t)
	r.sync("a=1", "b=1", "c=1")
	r.want("the first", false, "created a 1", "created b 1", "created c 1")
	r.want("nothing new", true)
	r.sync("a=22")
	r.sync("a=333", "b")
	r.sync("b=22")
	r.sync("d=1")
	r.sync("d")
	r.want("states", true, "updated a 2", "updated a 3", "deleted b", "created b 2", "created d 1", "deleted d")
	r.want("nothing new", true)
	r.sync("a=333")
	r.want("the same again", true)
	for i := range 600 {
		r.sync(fmt.Sprintf("a=%s", strings.Repeat("x", i+1)))
	}
	if got := r.publish(); len(got) != 600 || got[0] != "updated a 1" || got[599] != "updated a 600" || !r.follows {
		t.Errorf("got %d changes, want each of 600", len(got))
	}
}

// TestAKilledPublicationGoesOn: after each of its transactions. It publishes no state twice.
func TestAKilledPublicationGoesOn(t *testing.T) {
	for kill := range 5 {
		r := newRing(t)
		r.sync("a=1", "b=1")
		r.publish()
		r.sync("a=22", "c=1")
		r.sync("a=333", "b")
		r.sync("a=22", "b=1")
		want := []string{"updated a 2", "created c 1", "updated a 3", "deleted b", "updated a 2", "created b 1"}
		r.facts.left = kill
		got, err := r.tryPublish()
		if kill < 3 && !errors.Is(err, errKilled) || kill >= 3 && err != nil {
			t.Errorf("killed after %d: %v", kill, err)
		}
		r.facts.left = 1000
		got = append(got, r.publish()...)
		if !slices.Equal(got, want) || !r.follows {
			t.Errorf("killed after %d: got %q, want %q", kill, got, want)
		}
	}
	r := newRing(t)
	r.sync("a=1", "b=1")
	r.facts.left = 0
	if _, err := r.tryPublish(); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	r.facts.left = 1000
	r.want("a comparison that was killed", false, "created a 1", "created b 1")
}

// TestWithoutTheLogAllIsCompared: whatever the reason is that it does not have all.
func TestWithoutTheLogAllIsCompared(t *testing.T) {
	publishers := filepath.FromSlash(".instep/publishers")
	for _, test := range []struct {
		name string
		lose func(r *ring)
		want []string
	}{
		{"published in another way", func(r *ring) { r.in.Rules = []scan.Rule{{Match: "*", Type: "text/x"}} }, []string{"updated a 3", "updated b 1"}},
		{"told to", func(r *ring) { r.in.Whole = true }, []string{"updated a 3"}},
		{"the publication was forgotten", func(r *ring) {
			if err := os.RemoveAll(filepath.Join(r.dir, publishers)); err != nil {
				r.t.Fatal(err)
			}
			r.sync("a=22")
			r.sync("a=333")
		}, []string{"updated a 3"}},
		{"all was compared long ago", func(r *ring) { r.now = r.now.Add(compareEvery) }, []string{"updated a 3"}},
		{"the clock went back", func(r *ring) { r.now = r.now.Add(-24 * time.Hour) }, []string{"updated a 3"}},
		{"the position is of another mirror", func(r *ring) {
			p, err := r.in.lastPosition(r.t.Context())
			if err != nil {
				r.t.Fatal(err)
			}
			p.Catalog = "another"
			if err := r.facts.SetSettings(r.t.Context(), map[string]string{r.in.positionSetting(): p.String()}); err != nil {
				r.t.Fatal(err)
			}
		}, []string{"updated a 3"}},
		{"the mirror is an older one", func(r *ring) {
			p, err := r.in.lastPosition(r.t.Context())
			if err != nil {
				r.t.Fatal(err)
			}
			p.Seq++ // its last change is another one
			if err := r.facts.SetSettings(r.t.Context(), map[string]string{r.in.positionSetting(): p.String()}); err != nil {
				r.t.Fatal(err)
			}
		}, []string{"updated a 3"}},
		{"the mirror cannot be written to", func(r *ring) { r.readOnly = true }, []string{"updated a 3"}},
		{"a file could not be read", func(r *ring) {
			if err := os.WriteFile(filepath.Join(r.dir, "a"), []byte("mine"), 0o600); err != nil {
				r.t.Fatal(err)
			}
			if got := r.publish(); !r.follows || len(got) > 1 {
				r.t.Errorf("a file that somebody wrote to: got %q", got)
			}
			r.sync("a=666666")
		}, []string{"updated a 6"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRing(t)
			r.sync("a=1", "b=1")
			r.publish()
			r.sync("a=22")
			r.sync("a=333")
			test.lose(r)
			r.want(test.name, false, test.want...)
			if r.readOnly {
				if !slices.ContainsFunc(r.notes, func(n string) bool { return strings.Contains(n, "keeps no log") }) {
					t.Errorf("the notes are %q, want one about the log", r.notes)
				}
				r.readOnly = false
			}
			r.in.Whole = false
			r.sync("b=22")
			r.sync("b=333")
			r.publish()
			r.sync("b=4444")
			r.sync("b=55555")
			r.want("afterwards", true, "updated b 4", "updated b 5")
		})
	}
}

// TestARunWhileAllIsCompared: what it does is in the log, and partly published already. No
// earlier state comes after a later one.
func TestARunWhileAllIsCompared(t *testing.T) {
	r := newRing(t)
	r.sync("a=1", "b=1", "c=1")
	r.disturb = func() {
		r.disturb = nil
		r.sync("a=22")
		r.sync("a=333", "b")
		r.sync("b=22", "c")
	}
	r.want("compared", false, "created a 3", "created b 2")
	r.want("what may have been published", true)
	r.sync("a=4444")
	r.sync("a=55555")
	r.want("what is new", true, "updated a 4", "updated a 5")
}

// TestBytesOfEarlierStates: for dumps they come from the trash of the mirror, and a state
// counts only if they are there.
func TestBytesOfEarlierStates(t *testing.T) {
	r := newRing(t)
	kept := blob.NewMem()
	r.in.Keep = kept
	r.sync("a=1", "b=1")
	r.publish()
	r.sync("a=22", "b")
	r.sync("a=333", "b=22")
	r.want("states", true, "updated a 2", "deleted b", "updated a 3", "created b 2")
	for _, text := range []string{"22", "333"} {
		got, err := blob.ReadAll(t.Context(), kept, scan.KeepKey(wanted("", text).Digests[0]), 100)
		if string(got) != text || err != nil {
			t.Errorf("the bytes of a state: got %q, %v; want %q", got, err, text)
		}
	}
	r.sync("a=4444")
	r.sync("a=55555")
	r.sync("a=666666")
	trash, err := filepath.Glob(filepath.Join(r.dir, ".instep/trash/*/*/a"))
	if err != nil || len(trash) < 2 {
		t.Fatalf("in the trash: %q, %v", trash, err)
	}
	for _, name := range trash {
		if text, err := os.ReadFile(name); err == nil && string(text) == "4444" {
			err = os.Remove(name)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	r.want("one is gone", true, "updated a 5", "updated a 6")
}

// TestTheGuardCountsWhatIsGone: not what came back, nor what came and went.
func TestTheGuardCountsWhatIsGone(t *testing.T) {
	r := newRing(t)
	r.in.MaxDelete = guard.Limit{}
	all := []string{}
	for i := range 20 {
		all = append(all, fmt.Sprintf("f%02d=1", i))
	}
	r.sync(all...)
	r.publish()
	names := make([]string, len(all))
	for i := range all {
		names[i], _, _ = strings.Cut(all[i], "=")
	}
	r.sync(names...)
	r.sync(all...)
	r.sync("x=1")
	r.sync("x")
	if got := r.publish(); len(got) != 42 || !r.follows {
		t.Errorf("got %d changes, want 20 deletions, 20 creations and one that came and went", len(got))
	}
	r.sync(names...)
	_, err := r.tryPublish()
	if _, ok := errors.AsType[*scan.GuardError](err); !ok || !r.follows {
		t.Errorf("got %v, want that the guard refuses", err)
	}
	r.sync(all...)
	r.publish()
}

// TestTheLogDoesNotGrowWhileAllIsCompared: a resource that cannot be read makes each
// publication compare all, which needs nothing of the log.
func TestTheLogDoesNotGrowWhileAllIsCompared(t *testing.T) {
	r := newRing(t)
	r.sync("a=1", "b=1")
	if err := os.Remove(filepath.Join(r.dir, "a")); err != nil {
		t.Fatal(err)
	}
	r.want("one fails", false, "created b 1")
	for n := range 5 {
		r.sync("b=" + strings.Repeat("x", n+2))
		r.want("one fails still", false, fmt.Sprint("updated b ", n+2))
		if err := r.m.TrimLog(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	end, _, err := r.m.LogEnd(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	logged := 0
	err = r.m.EachLogged(t.Context(), 0, end, []string{one}, func(int64, time.Time, []destination.Held) error { logged++; return nil })
	if logged > 1 || err != nil {
		t.Errorf("the log has %d changes, %v; want at most the last", logged, err)
	}
}

// damage lets somebody replace the bytes of a file of the mirror, or remove it if text is "".
// With quietly its size and times remain the same.
func (r *ring) damage(name, text string, quietly bool) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	before, err := os.Stat(path)
	switch {
	case err != nil:
	case text == "":
		err = os.Remove(path)
	default:
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err == nil && quietly {
		err = os.Chtimes(path, time.Time{}, before.ModTime())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// audit records that a resource has to be fetched again.
func (r *ring) audit(name, text string) {
	r.t.Helper()
	b, err := r.m.Begin(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	defer b.Discard()
	if err := errors.Join(b.Due(r.t.Context(), one, wanted(name, text), "other bytes"), b.Commit(r.t.Context(), nil)); err != nil {
		r.t.Fatal(err)
	}
}

// TestBytesOfAnEarlierStateThatAreGone: a state whose bytes were damaged since is no failure if a
// later state of the resource follows in the log, but one if it is the last. It is not published,
// nor are the states before the last one.
func TestBytesOfAnEarlierStateThatAreGone(t *testing.T) {
	for _, test := range []struct {
		name  string
		keep  bool // for dumps
		weak  bool // published with a digest that the mirror does not have
		do    func(r *ring)
		want  []string
		fails int64
		whole bool // the next publication compares all
		then  []string
	}{
		{name: "mended and damaged again", do: func(r *ring) {
			r.damage("a", "bad", false)
			r.audit("a", "1")
			r.sync("a=1")
			r.damage("a", "worse", false)
			r.audit("a", "1")
		}},
		{name: "mended and removed", do: func(r *ring) {
			r.damage("a", "", false)
			r.audit("a", "1")
			r.sync("a=1")
			r.damage("a", "", false)
			r.audit("a", "1")
		}},
		{name: "changed and damaged", do: func(r *ring) {
			r.sync("a=22")
			r.damage("a", "bad", false)
			r.audit("a", "22")
		}, whole: true, then: []string{"deleted a"}},
		{name: "new and damaged", do: func(r *ring) {
			r.sync("a=1", "b=1", "c=1")
			r.damage("c", "bad", false)
			r.audit("c", "1")
		}, whole: true},
		{name: "changed and removed", do: func(r *ring) {
			r.sync("a=22")
			r.damage("a", "", false)
			r.audit("a", "22")
		}, whole: true, then: []string{"deleted a"}},
		{name: "damaged often, then changed", do: func(r *ring) {
			r.sync("a=22")
			r.damage("a", "bad", false)
			r.audit("a", "22")
			r.sync("a=22")
			r.damage("a", "worse", false)
			r.audit("a", "22")
			r.sync("a=333")
		}, want: []string{"updated a 2", "updated a 3"}},
		{name: "published with another digest, damaged without a trace", weak: true, do: func(r *ring) {
			r.sync("a=22")
			r.damage("a", "xx", true)
			r.audit("a", "22")
		}, whole: true, then: []string{"deleted a"}},
		{name: "published with another digest, changed and deleted", weak: true, do: func(r *ring) {
			r.sync("a=22")
			r.sync("a")
		}, want: []string{"updated a 2", "deleted a"}},
		{name: "changed and replaced by a directory", do: func(r *ring) {
			r.sync("a=22")
			r.damage("a", "", false)
			if err := os.Mkdir(filepath.Join(r.dir, "a"), 0o700); err != nil {
				r.t.Fatal(err)
			}
			r.audit("a", "22")
		}, whole: true, then: []string{"deleted a"}},
		{name: "for dumps, mended and damaged again", keep: true, do: func(r *ring) {
			r.damage("a", "bad", false)
			r.audit("a", "1")
			r.sync("a=1")
			r.damage("a", "worse", false)
			r.audit("a", "1")
		}},
		{name: "for dumps, changed and damaged without a trace", keep: true, do: func(r *ring) {
			r.sync("a=22")
			r.damage("a", "xx", true)
			r.audit("a", "22")
		}, whole: true, then: []string{"deleted a"}},
		{name: "the last state", do: func(r *ring) {
			r.sync("a=22")
			r.damage("a", "bad", false)
		}, fails: 1, whole: true},
		{name: "the last state after another", do: func(r *ring) {
			r.sync("a=22")
			r.damage("a", "bad", false)
			r.audit("a", "22")
			r.sync("a=22")
			r.damage("a", "", false)
		}, fails: 1, whole: true},
		{name: "the last of two states", do: func(r *ring) {
			r.sync("a=22")
			r.sync("a=333")
			r.damage("a", "", false)
		}, fails: 1, whole: true},
		{name: "the last of two states is damaged", do: func(r *ring) {
			r.sync("a=22")
			r.sync("a=333")
			r.damage("a", "bad", false)
		}, fails: 1, whole: true},
		{name: "the last of three states, after a deletion", do: func(r *ring) {
			r.sync("a=22")
			r.sync("a")
			r.sync("a=333")
			r.damage("a", "bad", false)
		}, fails: 1, whole: true},
		{name: "the last of two states is damaged without a trace, for dumps", keep: true, do: func(r *ring) {
			r.sync("a=22")
			r.sync("a=333")
			r.damage("a", "bad", true)
		}, fails: 1, whole: true},
		{name: "the last of two states is touched", do: func(r *ring) {
			r.sync("a=22")
			r.sync("a=333")
			r.damage("a", "333", false)
		}, want: []string{"updated a 2", "updated a 3"}},
		{name: "the last of two states for dumps", keep: true, do: func(r *ring) {
			r.sync("a=22")
			r.sync("a=333")
			r.damage("a", "", false)
		}, fails: 1, whole: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRing(t)
			if test.keep {
				r.in.Keep = blob.NewMem()
			}
			if test.weak {
				r.in.Algorithms = []resourcesync.Algorithm{resourcesync.MD5}
			}
			r.sync("a=1", "b=1")
			r.publish()
			test.do(r)
			r.want("the log", true, test.want...)
			if r.failed != test.fails {
				t.Errorf("got %d failures, want %d", r.failed, test.fails)
			}
			r.want("afterwards", !test.whole, test.then...)
		})
	}
}

// TestInDoubtWithoutAFile: a resource that has to be fetched again is left out, whatever has
// happened to its file.
func TestInDoubtWithoutAFile(t *testing.T) {
	r := newRing(t)
	r.sync("a=1", "b=1", "c=1")
	r.publish()
	r.damage("a", "", false)
	r.damage("b", "", false)
	if err := os.Mkdir(filepath.Join(r.dir, "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.audit("a", "1")
	r.audit("b", "22")
	for _, r.in.Whole = range []bool{false, true} {
		if r.want("in doubt", !r.in.Whole); r.failed > 0 {
			t.Errorf("got %d failures, want none", r.failed)
		}
	}
}

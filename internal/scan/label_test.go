package scan

import (
	"strings"
	"syscall"
	"testing"

	"instep/internal/catalog"
	"instep/resourcesync"
)

// labels returns what the members are called.
func labels(f *fixture) map[string]string {
	all := map[string]string{}
	for _, m := range f.members() {
		all[m.Path] = strings.Join(strings.Fields(m.Type+" "+m.Encoding+" "+string(m.ChangeFreq)), " ")
	}
	return all
}

var packed = []Rule{
	{Match: "**/*.json.gz", Type: "application/json", Encoding: "gzip"},
	{Match: "old/**", ChangeFreq: resourcesync.Never},
	{Match: "**", ChangeFreq: resourcesync.Daily},
	{Match: "**/*.json.gz", Type: "text/plain", ChangeFreq: resourcesync.Hourly}, // too late
}

func TestFirstRuleThatMatchesCountsForEachField(t *testing.T) {
	f := setUp(t, "a.txt", "old/b.json.gz", "c.json.gz")
	f.Rules = packed
	expect(t, f.scan(), 3, 0, 0, 0)
	same(t, "labels", labels(f), map[string]string{
		"a.txt": "text/plain daily", "old/b.json.gz": "application/json gzip never", "c.json.gz": "application/json gzip daily",
	})
	if ch := changes(f, 0)[1]; ch.Encoding != "gzip" || ch.ChangeFreq != resourcesync.Daily {
		t.Errorf("change %+v, want it to say gzip and daily", ch)
	}
}

func changes(f *fixture, after int64) []catalog.Change {
	f.t.Helper()
	var all []catalog.Change
	for ch, err := range f.catalog.Facts.Changes(f.t.Context(), f.Set, after, 1<<60) {
		if err != nil {
			f.t.Fatal(err)
		}
		all = append(all, ch)
	}
	return all
}

// Other rules call what is there something else: no byte is hashed, nothing is a
// change, and it is told how many there are. Afterwards all is at rest.
func TestChangedRulesRelabel(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after []Rule
		relabelled    int64
		want          map[string]string
	}{
		{"added", nil, packed, 3, map[string]string{"a.txt": "text/plain daily", "b.json.gz": "application/json gzip daily", "d/c": "text/plain daily"}},
		{"removed", packed, nil, 3, map[string]string{"a.txt": "text/plain", "b.json.gz": "application/gzip", "d/c": "text/plain"}},
		{"other", []Rule{{Match: "d/*", Type: "text/css"}}, []Rule{{Match: "d/*", Type: "text/html"}}, 1,
			map[string]string{"a.txt": "text/plain", "b.json.gz": "application/gzip", "d/c": "text/html"}},
		{"without effect", nil, []Rule{{Match: "none", Type: "text/css"}}, 0,
			map[string]string{"a.txt": "text/plain", "b.json.gz": "application/gzip", "d/c": "text/plain"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := setUp(t, "a.txt", "b.json.gz", "d/c")
			f.Rules = test.before
			f.scan()
			f.scan()
			f.Rules = test.after
			p := f.plan()
			if p.Relabel != 3 || p.Unchanged != 3 || p.ToHash != 0 {
				t.Errorf("plan %+v; want all looked at and none hashed", p)
			}
			for a, err := range f.Actions(t.Context(), p) {
				t.Errorf("action %v, %v; want none", a, err)
			}
			r := f.apply(p)
			expect(t, r, 0, 0, 0, 3)
			if r.Relabelled != test.relabelled || r.Hashed != 0 {
				t.Errorf("relabelled %d, hashed %d; want %d, 0", r.Relabelled, r.Hashed, test.relabelled)
			}
			same(t, "labels", labels(f), test.want)
			same(t, "changes", len(changes(f, 3)), 0)
			if p := f.plan(); p.Relabel != 0 || p.work.Len() != 0 {
				t.Errorf("plan %+v; want all at rest", p)
			}
		})
	}
}

// A file whose first bytes can't be read keeps its name until they can.
func TestRelabellingIsDoneAgainIfAFileCannotBeRead(t *testing.T) {
	f := setUp(t, "a", "b")
	f.Rules = []Rule{{Match: "*", Type: "text/css"}}
	f.scan()
	f.Rules = nil
	whole := f.Tree
	f.Tree = faulty{Tree: whole, open: on("b", syscall.EACCES)}
	r := f.scan()
	if r.Relabelled != 1 || r.Failures.Count != 1 {
		t.Errorf("result %+v; want one relabelled and one failure", r)
	}
	f.Tree = whole
	if r := f.scan(); r.Relabelled != 1 || r.Failures.Count != 0 {
		t.Errorf("result %+v; want the other relabelled", r)
	}
	same(t, "labels", labels(f), map[string]string{"a": "text/plain", "b": "text/plain"})
}

func TestTouchedFileIsRelabelled(t *testing.T) {
	f := setUp(t, "a")
	f.scan()
	f.Rules = []Rule{{Match: "*", Type: "text/css", ChangeFreq: resourcesync.Weekly}}
	f.write("a", "content of a")
	r := f.scan()
	expect(t, r, 0, 0, 0, 1)
	if r.Relabelled != 1 {
		t.Errorf("relabelled %d, want 1", r.Relabelled)
	}
	same(t, "labels", labels(f), map[string]string{"a": "text/css weekly"})
}

func TestPlanRefusesBadRules(t *testing.T) {
	for want, rule := range map[string]Rule{
		`glob "[a"`:         {Match: "[a", Type: "text/css"},
		`found "sometimes"`: {Match: "*", ChangeFreq: "sometimes"},
	} {
		f := setUp(t, "a")
		f.Rules = []Rule{rule}
		if p, err := f.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Plan = %v, %v; want an error that says %q", p, err, want)
		}
	}
}

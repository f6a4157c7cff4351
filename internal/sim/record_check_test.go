package sim

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// The resource of these histories is version 1 from the beginning, version 2 after 10 s,
// gone after 20 s and version 3 after 30 s.
func TestTheRecordTellsWhatIsBroken(t *testing.T) {
	second := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	const none = ""
	listed := func(n int) statement { return statement{at: second(n), present: true, list: true} }
	unlisted := func(n int) statement { return statement{at: second(n), list: true} }
	changed := func(n int) statement { return statement{at: second(n), present: true} }
	gone := func(n int) statement { return statement{at: second(n)} }
	wrongClock := func(st statement) statement { st.skewed = true; return st }
	for name, c := range map[string]struct {
		earlier       []statement // told to an earlier run, which ended with exit
		exit          int
		told          []statement // told to this run, which ends with success unless failed
		failed        bool
		before, after string // bytes of the file
		cursor        int    // seconds; 0: there is none
		approved      bool
		want          []string
	}{
		"as told":                             {told: []statement{listed(5), changed(10)}, before: "1", after: "2", cursor: 12},
		"strange bytes":                       {told: []statement{listed(5)}, after: "4", failed: true, want: []string{bytesOfAVersion}},
		"bytes of before":                     {told: []statement{changed(10)}, before: "1", after: "1", want: []string{bytesOfAVersion}},
		"bytes of before in a failed run":     {told: []statement{changed(10)}, before: "1", after: "1", failed: true},
		"bytes of later":                      {told: []statement{listed(5)}, after: "2"},
		"missing":                             {told: []statement{changed(30)}, want: []string{membersAsTold}},
		"still here":                          {told: []statement{listed(5), gone(20)}, before: "2", after: "2", want: []string{membersAsTold}},
		"still here, the clock was wrong":     {told: []statement{listed(5), wrongClock(gone(20))}, before: "2", after: "2"},
		"an older document after success":     {earlier: []statement{gone(20)}, told: []statement{changed(10)}, after: "2", want: []string{membersAsTold}},
		"an older document after a failure":   {earlier: []statement{gone(20)}, exit: 4, told: []statement{changed(10)}, before: "2", after: "2"},
		"kept from what failed":               {earlier: []statement{gone(20)}, exit: 6, told: []statement{changed(10)}},
		"forgotten after a failure":           {earlier: []statement{changed(30)}, exit: 4, told: []statement{gone(20), listed(40)}, want: []string{membersAsTold}},
		"the cursor is too late":              {told: []statement{changed(10)}, before: "2", after: "2", cursor: 25, want: []string{membersAsOf}},
		"the cursor is right":                 {told: []statement{changed(10)}, before: "2", after: "2", cursor: 19},
		"two statements of one moment":        {told: []statement{listed(5), unlisted(5)}, before: "1", after: "1"},
		"deleted by a change":                 {told: []statement{gone(20)}, before: "2"},
		"deleted by a list":                   {told: []statement{unlisted(25)}, before: "2"},
		"deleted without a word":              {told: []statement{listed(5)}, failed: true, before: "1", want: []string{noDeletionWithoutEvidence}},
		"deleted by an older change":          {told: []statement{gone(20)}, before: "3", failed: true, want: []string{noDeletionWithoutEvidence}},
		"deleted later than it was told of":   {earlier: []statement{listed(15)}, told: []statement{gone(20)}, before: "3", failed: true},
		"deleted before it was told of":       {earlier: []statement{listed(25)}, told: []statement{gone(20)}, before: "3", failed: true, want: []string{noDeletionWithoutEvidence}},
		"deleted by an older list":            {told: []statement{unlisted(25)}, before: "3", failed: true, want: []string{noDeletionWithoutEvidence}},
		"deleted by a list of the same time":  {earlier: []statement{listed(15)}, told: []statement{unlisted(15)}, failed: true, before: "2", want: []string{noDeletionWithoutEvidence}},
		"deleted by what an earlier run read": {earlier: []statement{gone(20)}, exit: 6, told: []statement{gone(20)}, before: "2"},
		"deleted and approved":                {earlier: []statement{listed(15)}, told: []statement{unlisted(15)}, failed: true, before: "2", approved: true},
	} {
		path := pathOf(0)
		r := &record{sets: []string{none}, clock: &clock{}, told: map[string][]statement{}, past: map[string][]version{
			path: {{time.Time{}, "1"}, {second(10), "2"}, {second(20), none}, {second(30), "3"}},
		}}
		say := func(all []statement, exit int) *reading {
			r.begin()
			for _, st := range all {
				skewed := st.skewed
				st.path = path
				r.state(st)
				r.told[path][len(r.told[path])-1].skewed = skewed
			}
			return r.end(exit)
		}
		if c.earlier != nil {
			say(c.earlier, c.exit)
		}
		exit := 0
		if c.failed {
			exit = 4
		}
		m := mirrored{before: file(path, c.before), after: file(path, c.after), wanted: func(string) bool { return true }, approved: c.approved, honest: true}
		if c.cursor > 0 {
			m.cursor = map[string]time.Time{none: second(c.cursor)}
		}
		got := map[string]bool{}
		for _, v := range r.check(say(c.told, exit), m) {
			got[v.clause] = true
		}
		if clauses := slices.Sorted(maps.Keys(got)); !slices.Equal(clauses, c.want) {
			t.Errorf("%s: got %q, want %q", name, clauses, c.want)
		}
	}
}

func file(path, content string) map[string]string {
	if content == "" {
		return nil
	}
	return map[string]string{path: content}
}
